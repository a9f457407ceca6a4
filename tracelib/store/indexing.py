"""Finding a segment's blocks: by the index in its seal, or by walking from header to header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracelib.errors import DataError
from tracelib.segment.block import Kind
from tracelib.segment.index import CpuTotals, Index, Tally
from tracelib.segment.seal import TRAILER_BYTES, Seal, find_seal
from tracelib.store.blockfile import BlockFile, Buffer, Gap
from tracelib.store.problems import ProblemList
from tracelib.units import CpuId, Nanoseconds


@dataclass(frozen=True, slots=True)
class Blocks:
    """Where a segment's blocks are."""

    index: Index
    seal: Seal | None
    """None if there is no intact seal: the segment is still written, or its end is missing."""
    cpus: Mapping[CpuId, CpuTotals]
    """Totals, as block headers have them."""
    ended_at: Nanoseconds
    """When it was sealed, or its last block drained."""
    end: int
    """Where the last block ends."""


def find_blocks(file: BlockFile, problems: ProblemList, *, growing: bool) -> Blocks:
    """The blocks of `file`; what is missing is added to `problems`.

    A file that may be `growing` needs no seal. Raises StoreError.
    """
    seal = read_seal(file)
    if seal is None:
        return _walk(file, problems, growing=growing)
    for hole in seal.holes:
        problems.add(file.name, hole.offset, "torn when the service died", hole.bytes)
    return Blocks(seal.index, seal, seal.cpus, seal.ended_at, file.size)


def read_seal(file: BlockFile) -> Seal | None:
    """The seal that the file's end leads to; None if there is no intact one. Raises
    StoreError."""
    tail = memoryview(bytearray(TRAILER_BYTES))
    try:
        got = file.read(max(file.size - TRAILER_BYTES, 0), tail)
        place = find_seal(tail[:got], file.size)
        if place is None:
            return None
        return Seal.decode(file.block(place.offset, place.block_bytes, Buffer()).payload)
    except DataError:
        # Said when its place is known from walking, or that there is none.
        return None


def _walk(file: BlockFile, problems: ProblemList, *, growing: bool) -> Blocks:
    tally = Tally()
    end, torn = _walk_from(file, 0, tally, problems)
    # A writer may have been in the middle of a block; if so, the file has grown meanwhile.
    while torn is not None and growing and file.refresh():
        end, torn = _walk_from(file, end, tally, problems)
    if torn is not None:
        problems.add(file.name, torn.offset, torn.reason, torn.bytes)
    index = tally.index
    if file.size and not growing:
        problems.add(file.name, *_what_of_the_seal(index, end))
    return Blocks(index, None, tally.cpus, tally.drained_at, end)


def _walk_from(
    file: BlockFile, start: int, tally: Tally, problems: ProblemList
) -> tuple[int, Gap | None]:
    """Index what lies behind `start`. Returns where the last block ends, and what is
    behind that if anything is."""
    torn: Gap | None = None
    for item in file.walk(start, payloads=False):
        if isinstance(item, Gap):
            torn = item
            continue
        if torn is not None:
            problems.add(file.name, torn.offset, torn.reason, torn.bytes)
            torn = None
        tally.add(item.offset, item.header)
        start = item.end
    return start, torn


def _what_of_the_seal(index: Index, end: int) -> tuple[int, str]:
    """Where and why it could not be used."""
    last = index[len(index) - 1] if len(index) else None
    if last is not None and last.kind == Kind.SEAL:
        return last.offset, "the seal or its trailer is damaged"
    return end, "no seal: the end of the segment is missing"
