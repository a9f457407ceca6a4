"""Where things lie in a trace ring, and the arithmetic of its two indexes.

A ring is a row of pages: `struct t_buf {u32 cons, u32 prod}` and then the data. Its data
size X = pages * 4096 - 8 is neither a power of two nor a multiple of 4096. Both indexes
are byte counts that run modulo 2X, so that a full ring (distance X) and an empty one
(distance 0) differ. Records lie at (index mod X) and never cross the ring's end: a wrap
record fills what is left there.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from tracelib.errors import SourceError
from tracelib.units import CpuId

PAGE_BYTES = 4096
HEADER_BYTES = 8
CONS_WORD = 0
PROD_WORD = 1


def data_bytes(pages: int) -> int:
    """X, the data size of a ring of so many pages."""
    return pages * PAGE_BYTES - HEADER_BYTES


def waiting_bytes(cons: int, prod: int, size: int) -> int | None:
    """Bytes between the indexes of a ring whose data size is `size`; None if impossible.

    Possible pairs are multiples of 4, below 2X, and at most X apart.
    """
    if (cons | prod) & 3 or cons >= 2 * size or prod >= 2 * size:
        return None
    distance = prod - cons if prod >= cons else prod - cons + 2 * size
    return distance if distance <= size else None


def explain_indexes(cons: int, prod: int, size: int) -> str:
    """Why `waiting_bytes` gave None, in words for a log line."""
    if (cons | prod) & 3:
        return f"unaligned: cons {cons}, prod {prod}"
    if cons >= 2 * size or prod >= 2 * size:
        return f"out of range: cons {cons}, prod {prod}, limit {2 * size}"
    distance = (prod - cons) % (2 * size)
    return f"{distance} bytes apart in a ring of {size}: cons {cons}, prod {prod}"


class RingPages(NamedTuple):
    """One CPU's ring as the t_info page describes it."""

    cpu: CpuId
    mfns: tuple[int, ...]


def parse_t_info(info: bytes | memoryview, cpus: int) -> list[RingPages]:
    """The rings that a t_info area describes (struct t_info, trace.h).

    u16 tbuf_size (pages per ring), u16 mfn_offset[cpu] (in 32-bit words from the start of
    the area; 0 = that CPU has no ring), then the mfns, 32 bits each. `cpus` is the highest
    possible CPU number plus one, not how many are online.

    Raises SourceError, with the numbers, for anything that points outside the area.
    """
    if 2 + 2 * cpus > len(info):
        raise SourceError(f"t_info of {len(info)} bytes has no room for {cpus} CPUs' offsets")
    pages, *offsets = struct.unpack_from(f"<{1 + cpus}H", info)
    if pages == 0:
        raise SourceError("t_info says that rings have 0 pages", hint="were they allocated?")
    rings = []
    for cpu, offset in enumerate(offsets):
        if offset == 0:
            continue
        start, end = 4 * offset, 4 * (offset + pages)
        if start < 2 + 2 * cpus or end > len(info):
            raise SourceError(
                f"t_info: CPU {cpu}'s list of {pages} pages at word {offset} "
                f"(bytes {start}-{end}) lies outside the area of {len(info)} bytes"
            )
        rings.append(RingPages(CpuId(cpu), struct.unpack_from(f"<{pages}I", info, start)))
    return rings
