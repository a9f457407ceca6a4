"""Counting a block's records again, and comparing with its header."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tracelib.ring import fastpath
from tracelib.segment.block import BlockHeader
from tracelib.segment.order import steps_back

_COUNTED = (
    ("records", "records"),
    ("lost_marks", "lost records"),
    ("lost", "records lost by them"),
    ("lost_first_tsc", "as first lost TSC"),
    ("lost_last_tsc", "as last lost TSC"),
    ("first_tsc", "as first TSC"),
    ("last_tsc", "as last TSC"),
)


class Fault(NamedTuple):
    """Something wrong in a payload, `at` bytes from its start."""

    at: int
    reason: str
    is_error: bool = True


def recount(header: BlockHeader, payload: memoryview, last_tsc: int) -> Iterator[Fault]:
    """Compare a records block's header with its payload. `last_tsc` is the last TSC of the
    CPU's block before (0 if there is none): time must not step back from it, nor within."""
    if len(payload) == 0 or len(payload) % 4:
        yield Fault(0, f"a payload of {len(payload)} bytes is not whole words")
        return
    words = payload.cast("I")
    scan = fastpath.scan(words, 0, len(words), header.cpu, None)
    for name, what in _COUNTED:
        said, found = getattr(header, name), getattr(scan, name)
        if said != found:
            yield Fault(0, f"the header says {said} {what}, the payload {found}")
    if scan.stop != len(words):
        yield Fault(4 * scan.stop, "no whole record starts here")
    if scan.malformed_lost:
        yield Fault(0, f"{scan.malformed_lost} lost records of unknown shape", is_error=False)
    first, cycles, steps = steps_back(words, 0, scan.stop, last_tsc)
    if steps:
        more = f", and {steps - 1} more times in this block" if steps > 1 else ""
        said = f"time steps back by {cycles} cycles on CPU {header.cpu}{more}"
        yield Fault(4 * first, said)
