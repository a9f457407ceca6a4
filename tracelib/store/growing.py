"""A store as a trace that goes on: its newest segment, and what is written behind it.

What it reads is remembered as places in files, not as bytes, so memory does not grow with
the time between two looks. Records of one CPU are read back when they are asked for, from
the file that was open then, deleted meanwhile or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from tracelib.chunks import Chunk, Problem, TraceInfo
from tracelib.errors import DamageError, DataError
from tracelib.losses import Loss
from tracelib.ring.runstates import RunstateSnapshot
from tracelib.segment import notes
from tracelib.segment.block import Kind
from tracelib.segment.metadata import Metadata
from tracelib.store.blockfile import BlockFile, Buffer, Found
from tracelib.store.directory import list_segments
from tracelib.store.follow import Follower
from tracelib.store.names import FIRST_SEQUENCE
from tracelib.store.problems import ProblemList
from tracelib.store.segment import describe, make_chunk
from tracelib.units import CpuId, Tsc

_MOST_ANCHORS = 2
"""So many clock anchors of an era are kept: they would add up for ever."""


@dataclass(slots=True, eq=False)
class _Segment:
    """A file of which blocks are still to be read."""

    file: BlockFile
    waiting: int = 0


class _Place(NamedTuple):
    segment: _Segment
    offset: int
    size: int


class _Row:
    """One CPU's chunks: an iterator that may have more after it had none."""

    def __init__(self, problems: ProblemList) -> None:
        self.places: deque[_Place] = deque()
        self._buffer = Buffer()
        self._problems = problems

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Chunk:
        while self.places:
            segment, offset, size = self.places.popleft()
            segment.waiting -= 1
            try:
                return make_chunk(segment.file.name, segment.file.block(offset, size, self._buffer))
            except DataError as exc:
                # It was intact a moment ago.
                self._problems.add(segment.file.name, offset, exc.reason, size)
        raise StopIteration


class GrowingReader:
    """Implements chunks.TraceReader, of one era at a time: a row of segments without a hole,
    of one boot of the hypervisor and with the same CPUs.

    `look` takes note of what is there by now. When `era` has changed after that, everything
    is of the new era alone, and whoever reads has to start over.
    """

    def __init__(self, directory: Path) -> None:
        """Raises StoreError. Reads nothing yet."""
        self.info = TraceInfo("store", str(directory))
        self.era = 0
        """0 until there is a segment."""
        self.why = ""
        """Why the era began, in words."""
        self.last_tsc = Tsc(0)
        """The highest one so far."""
        self._noted = ProblemList()
        self.problems: list[Problem] = self._noted.problems
        self._directory = directory
        self._metadata: Metadata | None = None
        self._state: RunstateSnapshot | None = None
        self._rows: dict[CpuId, _Row] = {}
        self._losses: list[Loss] = []
        self._segments: list[_Segment] = []
        self._source: BlockFile | None = None
        """The follower's file that the last of `_segments` is a copy of."""
        self._weary = False
        segments = list_segments(directory)
        newest = segments[-1].sequence if segments else FIRST_SEQUENCE
        self._follower = Follower(directory, self._noted, sequence=newest)

    def look(self) -> None:
        """Take note of all that is complete by now. Raises StoreError, FormatError."""
        for file, block in self._follower.blocks():
            kind = block.header.kind
            if kind == Kind.RECORDS:
                self._add(file, block)
                continue
            try:
                self._take_note(kind, block)
            except DamageError as exc:
                self._noted.add(file.name, block.offset, exc.reason)
        self._close_read()

    def start_over(self) -> None:
        """Let the next segment begin a new era: each says who runs where, so whoever has
        gathered too much can drop it all there."""
        self._weary = True

    def cpus(self) -> Sequence[CpuId]:
        """All that have a ring."""
        return () if self._metadata is None else sorted(self._metadata.ring_cpus)

    def chunks(self) -> Iterator[Chunk]:
        """What is there by now, CPU by CPU."""
        for cpu in self.cpus():
            yield from self.chunks_of(cpu)

    def chunks_of(self, cpu: CpuId) -> Iterator[Chunk]:
        """One iterator for each CPU, which goes on after the next `look`. A chunk's payload is
        valid until the next step."""
        return self._rows.setdefault(cpu, _Row(self._noted))

    def losses(self) -> Sequence[Loss]:
        """Those stated since the last call."""
        taken, self._losses = self._losses, []
        return taken

    def state(self) -> RunstateSnapshot | None:
        """Who ran where when the era began; None if that is not known."""
        return self._state

    def close(self) -> None:
        """Idempotent."""
        self._follower.close()
        self._drop()

    def _add(self, file: BlockFile, block: Found) -> None:
        if file is not self._source:
            self._segments.append(_Segment(file.duplicate()))
            self._source = file
        segment = self._segments[-1]
        segment.waiting += 1
        self.last_tsc = max(self.last_tsc, Tsc(block.header.last_tsc))
        place = _Place(segment, block.offset, block.header.block_bytes)
        self._rows.setdefault(CpuId(block.header.cpu), _Row(self._noted)).places.append(place)

    def _take_note(self, kind: int, block: Found) -> None:
        """Raises DamageError; FormatError for what only a newer release can read."""
        if kind == Kind.METADATA:
            self._enter(Metadata.decode(block.payload))
        elif kind == Kind.STATE and self._state is None:
            self._state = notes.decode_state(block.payload)
        elif kind == Kind.LOSS:
            self._losses += notes.decode_losses(block.payload)
        elif kind == Kind.ANCHOR and len(self.info.anchors) < _MOST_ANCHORS:
            self.info.anchors.append(notes.decode_anchor(block.payload)[0])

    def _enter(self, metadata: Metadata) -> None:
        """A segment begins."""
        before, self._metadata = self._metadata, metadata
        why = "the store was opened" if before is None else _break(before, metadata)
        if self._weary:
            why = why or "too many vCPUs came and went"
        if not why:
            return
        self._weary = False
        self._drop()
        self.why = why
        self.era += 1
        self.info = describe(metadata, kind="store", name=str(self._directory))
        self._state = None
        self._losses = []
        self.last_tsc = Tsc(0)

    def _drop(self) -> None:
        for segment in self._segments:
            segment.file.close()
        self._segments, self._rows, self._source = [], {}, None

    def _close_read(self) -> None:
        """Close the files that nobody needs any more."""
        for segment in self._segments[:-1]:
            if not segment.waiting:
                segment.file.close()
        self._segments = [
            segment for segment in self._segments
            if segment.waiting or segment is self._segments[-1]
        ]


def _break(before: Metadata, after: Metadata) -> str:
    """Why a segment does not go on where the one before ended; "" if it does."""
    if after.boot_id != before.boot_id:
        return "the hypervisor was booted"
    if after.ring_cpus != before.ring_cpus:
        return "the CPUs have changed"
    # A segment that held no record when its service died is removed, its number used again.
    if not before.sequence <= after.sequence <= before.sequence + 1:
        return "segments were deleted before they were read"
    return ""
