"""What is noted of each block: index entries, and totals by CPU.

The encoder notes them as it makes blocks, a reader as it walks over blocks without a seal.
FORMAT.md, "Index entry", has the table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tracelib.segment.block import BlockHeader, Kind
from tracelib.units import CpuId, Nanoseconds, Tsc

ENTRY = struct.Struct("<QQQQIIIIBBHI")


class IndexEntry(NamedTuple):
    """One block, as its header has it."""

    offset: int
    first_tsc: Tsc
    last_tsc: Tsc
    lost: int
    cpu: int
    records: int
    payload_bytes: int
    block_bytes: int
    kind: int
    flags: int

    def encode(self) -> bytes:
        return ENTRY.pack(*self, 0, 0)


class Index:
    """Index entries by position, kept packed: a big segment has hundreds of thousands."""

    def __init__(self, packed: bytes | bytearray | memoryview, stride: int = ENTRY.size) -> None:
        self._packed = packed
        self._stride = stride

    @property
    def packed(self) -> bytes:
        """The entries as a seal holds them."""
        if self._stride == ENTRY.size:
            return bytes(self._packed)
        return b"".join(entry.encode() for entry in self)

    def __len__(self) -> int:
        return len(self._packed) // self._stride

    def __getitem__(self, position: int) -> IndexEntry:
        at = position * self._stride
        return IndexEntry._make(ENTRY.unpack_from(self._packed, at)[:10])

    def __iter__(self) -> Iterator[IndexEntry]:
        return (self[position] for position in range(len(self)))


class CpuTotals(NamedTuple):
    """What a segment holds of one CPU: sums over its records blocks, and where they end."""

    blocks: int = 0
    records: int = 0
    payload_bytes: int = 0
    lost_marks: int = 0
    lost: int = 0
    first_tsc: Tsc = Tsc(0)
    last_tsc: Tsc = Tsc(0)
    """First and last TSC, 0 if no record carries one."""
    round: int = 0
    ring_id: int = 0
    ring_end: int = 0
    """Round, ring and consumer index after the last block: where a successor goes on."""

    def plus(self, header: BlockHeader) -> CpuTotals:
        return CpuTotals(
            self.blocks + 1,
            self.records + header.records,
            self.payload_bytes + header.payload_bytes,
            self.lost_marks + header.lost_marks,
            self.lost + header.lost,
            self.first_tsc or header.first_tsc,
            header.last_tsc or self.last_tsc,
            header.round,
            header.ring_id,
            header.ring_end,
        )


class Tally:
    """Grows with each block."""

    def __init__(self) -> None:
        self.packed = bytearray()
        """Index entries, as a seal holds them."""
        self.cpus: dict[CpuId, CpuTotals] = {}
        self.drained_at = Nanoseconds(0)
        """The latest time that a block says it was drained or noted at."""

    def add(self, offset: int, header: BlockHeader) -> None:
        # IndexEntry(...).encode() at half the price: this runs for every block.
        self.packed += ENTRY.pack(
            offset, header.first_tsc, header.last_tsc, header.lost, header.cpu, header.records,
            header.payload_bytes, header.block_bytes, header.kind, header.flags, 0, 0,
        )
        if header.kind == _RECORDS:
            cpu = CpuId(header.cpu)
            self.cpus[cpu] = self.cpus.get(cpu, _NOTHING).plus(header)
        if header.drained_at > self.drained_at:
            self.drained_at = header.drained_at

    @property
    def index(self) -> Index:
        """A copy: what is added later is not in it."""
        return Index(bytes(self.packed))


_NOTHING = CpuTotals()
_RECORDS = int(Kind.RECORDS)


def tsc_range(cpus: Iterable[CpuTotals]) -> tuple[Tsc, Tsc] | None:
    """Earliest and latest TSC of several CPUs' totals; None if no record carries one."""
    ranges = [(cpu.first_tsc, cpu.last_tsc) for cpu in cpus if cpu.last_tsc]
    if not ranges:
        return None
    return min(first for first, _ in ranges), max(last for _, last in ranges)
