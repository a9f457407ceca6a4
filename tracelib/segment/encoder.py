"""Builds a segment block by block: values and staged payloads in, bytes for the file out.

The encoder never sees a file. Its caller writes what it returns, in order, at the offset
`size` had before the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tracelib.chunks import ClockAnchor
from tracelib.losses import Loss
from tracelib.ring.runstates import RunstateSnapshot
from tracelib.segment import notes
from tracelib.segment.block import (
    HEADER_BYTES,
    PAGE,
    BlockHeader,
    Kind,
    build_block,
    padded_bytes,
)
from tracelib.segment.index import ENTRY, CpuTotals, Tally
from tracelib.segment.metadata import Metadata
from tracelib.segment.seal import Seal
from tracelib.units import CpuId, Nanoseconds


class Mark(NamedTuple):
    """A place in the segment to come back to; see `SegmentEncoder.rewind`."""

    size: int
    sequence: int
    anchors: int
    cpus: Mapping[CpuId, CpuTotals]


class SegmentEncoder:
    """One segment, from `head` to `seal`.

    Blocks are numbered from 0 without holes; totals and index grow with them.
    """

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.size = 0
        """Bytes of the blocks produced so far: the offset of the next one."""
        self._sequence = 0
        self._anchors: list[ClockAnchor] = []
        self._tally = Tally()

    @property
    def blocks(self) -> int:
        return self._sequence

    @property
    def cpus(self) -> Mapping[CpuId, CpuTotals]:
        """Totals of each CPU that has a records block."""
        return self._tally.cpus

    @property
    def records(self) -> int:
        """Records in all blocks: lost records count, wrap fillers do not."""
        return sum(cpu.records for cpu in self._tally.cpus.values())

    def head(
        self, state: RunstateSnapshot, anchor: ClockAnchor | None, losses: Sequence[Loss]
    ) -> bytes:
        """The first blocks: metadata, state preamble, first anchor, losses already known."""
        created = self.metadata.created_at
        blocks = [
            self._note(Kind.METADATA, self.metadata.encode(), created),
            self._note(Kind.STATE, notes.encode_state(state), created),
        ]
        if anchor is not None:
            blocks.append(self.anchor(anchor, "start"))
        if losses:
            blocks.append(self.losses(losses))
        return b"".join(blocks)

    def finish(self, block: memoryview, header: BlockHeader) -> int:
        """Complete a staged records block in place: its payload lies behind the header slot.

        Fills in the header, `sequence` and `block_bytes` included, and zeroes the padding.
        Returns the block's length, at most that of `block`.
        """
        size = padded_bytes(header.payload_bytes)
        header = header._replace(block_bytes=size, sequence=self._sequence)
        header.encode_into(block)
        used = HEADER_BYTES + header.payload_bytes
        block[used:size] = _ZEROS[: size - used]
        self._add(header)
        return size

    def anchor(self, anchor: ClockAnchor, why: str) -> bytes:
        """An anchor block. `why`: "start", "periodic", "end" ..."""
        self._anchors.append(anchor)
        return self._note(Kind.ANCHOR, notes.encode_anchor(anchor, why), anchor.realtime)

    def losses(self, losses: Sequence[Loss]) -> bytes:
        """A loss block; it stands where the records are missing."""
        noticed = max((loss.at for loss in losses if loss.at is not None), default=Nanoseconds(0))
        return self._note(Kind.LOSS, notes.encode_losses(losses), noticed)

    def seal(self, reason: str, anchor: ClockAnchor | None, ended_at: Nanoseconds) -> bytes:
        """The last blocks: an anchor if there is one, then the seal."""
        last = b"" if anchor is None else self.anchor(anchor, "end")
        seal = Seal(
            reason=reason,
            ended_at=ended_at,
            cpus=self._tally.cpus,
            anchors=self._anchors,
            index=self._tally.index,
        ).build(self.size, self._sequence)
        self.size += len(seal)
        self._sequence += 1
        return last + seal

    def mark(self) -> Mark:
        """Remember this place, before blocks are made that may fail to reach the disk."""
        return Mark(self.size, self._sequence, len(self._anchors), dict(self._tally.cpus))

    def rewind(self, mark: Mark) -> None:
        """Forget every block since `mark`: they were not written.

        The caller also cuts the file back to `size`, since what is left of a torn write
        may hold whole blocks.
        """
        self.size = mark.size
        self._sequence = mark.sequence
        self._tally.cpus = dict(mark.cpus)
        del self._anchors[mark.anchors :]
        del self._tally.packed[mark.sequence * ENTRY.size :]

    def _note(self, kind: Kind, payload: bytes, at: Nanoseconds) -> bytes:
        size = padded_bytes(len(payload))
        header = BlockHeader(kind, len(payload), size, self._sequence, drained_at=at)
        self._add(header)
        return build_block(header, payload)

    def _add(self, header: BlockHeader) -> None:
        self._tally.add(self.size, header)
        self.size += header.block_bytes
        self._sequence += 1


_ZEROS = bytes(PAGE)
