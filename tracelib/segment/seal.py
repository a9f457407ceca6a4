"""The seal: a segment's last block, with its totals and the index of all blocks before it.

FORMAT.md, "Seal", has the tables. The index is a cache: whatever it says can be rebuilt by
walking the blocks, and a reader checks each block it leads to.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import xxhash

from tracelib import packing
from tracelib.chunks import ClockAnchor
from tracelib.errors import DamageError
from tracelib.segment.block import (
    HEADER_BYTES,
    MAX_BLOCK_BYTES,
    PAGE,
    BlockHeader,
    Kind,
    build_block,
    padded_bytes,
)
from tracelib.segment.fields import Fields
from tracelib.units import CpuId, Nanoseconds, Tsc

ENTRY = struct.Struct("<QQQQIIIIBBHI")
_HEAD = struct.Struct("<IIQ")
_TRAILER = struct.Struct("<8sQII")
_U64 = struct.Struct("<Q")
TRAILER_BYTES = _TRAILER.size + _U64.size
TRAILER_MAGIC = b"XTRSEAL\n"
assert TRAILER_BYTES == 32


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

    @classmethod
    def of(cls, offset: int, header: BlockHeader) -> Self:
        return cls(
            offset, header.first_tsc, header.last_tsc, header.lost, header.cpu, header.records,
            header.payload_bytes, header.block_bytes, header.kind, header.flags,
        )

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


class Hole(NamedTuple):
    """Bytes of a segment that hold no intact block, found when it was sealed after a crash."""

    offset: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Everything the last block says."""

    reason: str
    """Why the segment ended; Metadata.previous_reason of the next one says the same."""
    ended_at: Nanoseconds
    cpus: dict[CpuId, CpuTotals]
    anchors: Sequence[ClockAnchor]
    """Copies of all of the segment's clock anchors, so that times need no second read."""
    holes: Sequence[Hole] = ()
    index: Index

    @property
    def records(self) -> int:
        """Records in the segment: lost records count, wrap fillers do not."""
        return sum(cpu.records for cpu in self.cpus.values())

    @property
    def payload_bytes(self) -> int:
        return sum(cpu.payload_bytes for cpu in self.cpus.values())

    @property
    def lost(self) -> int:
        """Sum of the counts in lost records."""
        return sum(cpu.lost for cpu in self.cpus.values())

    @property
    def tsc_range(self) -> tuple[Tsc, Tsc] | None:
        """Earliest and latest TSC over all CPUs; None if no record carries one."""
        return tsc_range(self.cpus.values())

    def build(self, offset: int, sequence: int) -> bytes:
        """The whole seal block, for this place in the file."""
        summary = packing.pack(
            {
                "reason": self.reason,
                "ended_at": self.ended_at,
                "cpus": [(cpu, *totals) for cpu, totals in sorted(self.cpus.items())],
                "anchors": [(a.tsc, a.realtime, a.monotonic) for a in self.anchors],
                "holes": list(self.holes),
            }
        )
        entries = self.index.packed
        body = _HEAD.pack(len(summary), ENTRY.size, len(self.index)) + summary + entries
        size = padded_bytes(len(body) + TRAILER_BYTES)
        # The payload fills its block, so that the trailer is the file's last 32 bytes.
        filled = body.ljust(size - HEADER_BYTES - TRAILER_BYTES, b"\0")
        payload = filled + encode_trailer(offset, size)
        header = BlockHeader(
            Kind.SEAL, 0, 0, sequence, records=0, drained_at=self.ended_at,
        )
        return build_block(header, payload)

    @classmethod
    def decode(cls, payload: bytes | memoryview) -> Self:
        """From the payload of a seal block. Raises DamageError."""
        if len(payload) < _HEAD.size + TRAILER_BYTES:
            raise DamageError(f"seal of {len(payload)} bytes is too short")
        summary_bytes, stride, entries = _HEAD.unpack_from(payload)
        end = _HEAD.size + summary_bytes
        if stride < ENTRY.size or end + stride * entries > len(payload) - TRAILER_BYTES:
            raise DamageError(f"seal has no room for {entries} index entries of {stride} bytes")
        found = Fields.unpack(payload[_HEAD.size : end], "seal")
        return cls(
            reason=found.text("reason"),
            ended_at=Nanoseconds(found.integer("ended_at")),
            cpus={
                CpuId(cpu): CpuTotals._make(totals)
                for cpu, *totals in found.rows("cpus", 1 + len(CpuTotals._fields))
            },
            anchors=[
                ClockAnchor(Tsc(tsc), Nanoseconds(real), Nanoseconds(mono))
                for tsc, real, mono in found.rows("anchors", 3)
            ],
            holes=[Hole(*row) for row in found.rows("holes", 2)],
            index=Index(bytes(payload[end : end + stride * entries]), stride),
        )


def tsc_range(cpus: Iterable[CpuTotals]) -> tuple[Tsc, Tsc] | None:
    """Earliest and latest TSC of several CPUs' totals; None if no record carries one."""
    ranges = [(cpu.first_tsc, cpu.last_tsc) for cpu in cpus if cpu.last_tsc]
    if not ranges:
        return None
    return min(first for first, _ in ranges), max(last for _, last in ranges)


def encode_trailer(offset: int, block_bytes: int) -> bytes:
    """The last 32 bytes of a sealed file: where the seal block starts, and its length."""
    head = _TRAILER.pack(TRAILER_MAGIC, offset, block_bytes, 0)
    return head + _U64.pack(xxhash.xxh3_64_intdigest(head))


class SealPlace(NamedTuple):
    offset: int
    block_bytes: int


def find_seal(tail: bytes | memoryview, file_bytes: int) -> SealPlace | None:
    """Where the trailer in a file's last 32 bytes says that the seal is; None if these
    bytes are no trailer, or one that belongs to a file of another length."""
    if len(tail) != TRAILER_BYTES or bytes(tail[:8]) != TRAILER_MAGIC:
        return None
    (stored,) = _U64.unpack_from(tail, _TRAILER.size)
    if xxhash.xxh3_64_intdigest(tail[: _TRAILER.size]) != stored:
        return None
    _, offset, block_bytes, _ = _TRAILER.unpack_from(tail)
    if offset % PAGE or block_bytes > MAX_BLOCK_BYTES or offset + block_bytes != file_bytes:
        return None
    return SealPlace(offset, block_bytes)
