"""The seal: a segment's last block, with its totals and the index of all blocks before it.

FORMAT.md, "Seal", has the tables. The index is a cache: whatever it says can be rebuilt by
walking the blocks, and a reader checks each block it leads to.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
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
from tracelib.segment.index import ENTRY, CpuTotals, Index
from tracelib.units import CpuId, Nanoseconds, Tsc

_HEAD = struct.Struct("<IIQ")
_TRAILER = struct.Struct("<8sQII")
_U64 = struct.Struct("<Q")
TRAILER_BYTES = _TRAILER.size + _U64.size
TRAILER_MAGIC = b"XTRSEAL\n"
assert TRAILER_BYTES == 32


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
    cpus: Mapping[CpuId, CpuTotals]
    anchors: Sequence[ClockAnchor]
    """Copies of all of the segment's clock anchors, so that times need no second read."""
    holes: Sequence[Hole] = ()
    index: Index

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
