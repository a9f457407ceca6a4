"""A store directory as one trace to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tracelib.chunks import Chunk, Problem, TraceInfo
from tracelib.errors import FormatError
from tracelib.losses import Loss
from tracelib.ring.runstates import RunstateSnapshot
from tracelib.store import names
from tracelib.store.directory import SegmentEntry, list_segments, open_entry
from tracelib.store.follow import Follower
from tracelib.store.problems import ProblemList
from tracelib.store.segment import SegmentReader, describe
from tracelib.units import CpuId, Tsc

_T = TypeVar("_T")

__all__ = ["SegmentReader", "StoreReader"]


@dataclass(frozen=True, slots=True)
class _Known:
    """One segment as of the survey."""

    entry: SegmentEntry
    cpus: frozenset[CpuId]
    tsc_range: tuple[Tsc, Tsc] | None
    boot: str | None
    """Which boot of the hypervisor; TSCs of different boots have nothing in common."""


class StoreReader:
    """Reads the segments of a store, oldest first; implements chunks.TraceReader.

    What it reads was there when it was opened; `new_chunks` gives what came since. Of the
    sealed segments only those being read are open. A context manager.
    """

    def __init__(
        self, directory: Path, *, first: int = names.FIRST_SEQUENCE, last: int | None = None
    ) -> None:
        """Surveys every segment with a number from `first` to `last`: a few small reads each.
        Raises StoreError. Segments that only a newer release can read are left out and noted
        in `problems`."""
        self._noted = ProblemList()
        self.problems: list[Problem] = self._noted.problems
        self.info = TraceInfo("store", str(directory))
        self._directory = directory
        self._range = first, last
        self._readers: dict[Path, SegmentReader] = {}
        self._users: Counter[Path] = Counter()
        """Open readers by the path listed for them, and how many iterators use each."""
        self._window: tuple[Tsc | None, Tsc | None] = (None, None)
        try:
            self._segments = list(self._survey())
            self._follower = self._make_follower()
        except BaseException:
            self._close_readers()
            raise

    def _survey(self) -> Iterator[_Known]:
        first, last = self._range
        for entry in list_segments(self._directory):
            if entry.sequence < first or (last is not None and entry.sequence > last):
                continue
            reader = self._acquire(entry)
            if reader is None:
                continue
            self._note_info(reader)
            if entry.sealed:
                self._release(entry)
            # An unsealed one stays open, so that its end stays where it is now.
            boot = None if reader.metadata is None else reader.metadata.boot_id
            yield _Known(
                entry, frozenset(reader.cpus()), reader.tsc_range, boot
            )

    def _note_info(self, reader: SegmentReader) -> None:
        """The newest segment speaks for all, but each has its own clock anchors."""
        anchors, segments = self.info.anchors, self.info.segments
        if reader.metadata is not None:
            self.info = describe(reader.metadata, kind="store", name=str(self._directory))
        self.info.anchors = anchors + reader.info.anchors
        self.info.segments = segments + 1

    def cpus(self) -> Sequence[CpuId]:
        """CPUs with at least one records block, ascending."""
        return sorted(frozenset().union(*(known.cpus for known in self._segments)))

    def boots(self) -> list[tuple[int, int | None]]:
        """First and last segment number of each boot of the hypervisor, in order; the last
        one is open. To be read one at a time: no order by TSC goes across boots."""
        starts = [names.FIRST_SEQUENCE]
        boot: str | None = None
        for known in self._segments:
            # A segment without metadata goes with the one before.
            if known.boot is not None and boot is not None and known.boot != boot:
                starts.append(known.entry.sequence)
            boot = known.boot or boot
        return [
            (start, None if following is None else following - 1)
            for start, following in zip_longest(starts, starts[1:])
        ]

    @property
    def tsc_range(self) -> tuple[Tsc, Tsc] | None:
        """Earliest and latest TSC as of the survey; None if no record carries one. Only of
        one boot does it mean anything."""
        known = [one.tsc_range for one in self._segments if one.tsc_range is not None]
        return (min(first for first, _ in known), max(last for _, last in known)) if known else None

    def state(self) -> RunstateSnapshot | None:
        """Who ran where when the oldest segment was opened; None if that is not known."""
        for known in self._segments[:1]:
            for state in self._read(known, lambda reader: iter([reader.state()])):
                return state
        return None

    def narrow(self, first: Tsc | None = None, last: Tsc | None = None) -> None:
        """From now on leave out segments and blocks that lie wholly outside this range of
        TSCs. Records outside remain in the blocks at its edges."""
        self._window = (first, last)
        for reader in self._readers.values():
            reader.narrow(first, last)
        self._segments = [
            known for known in self._segments if _meets(known.tsc_range, first, last)
        ]

    def chunks(self) -> Iterator[Chunk]:
        """Every intact records block, segment by segment in file order. A chunk's payload is
        valid until the next step; what is damaged is noted in `problems`. Raises StoreError."""
        for known in self._segments:
            yield from self._read(known, SegmentReader.chunks)

    def chunks_of(self, cpu: CpuId) -> Iterator[Chunk]:
        """The same of one CPU. Several iterators may be open at once."""
        for known in self._segments:
            if cpu in known.cpus:
                yield from self._read(known, lambda reader: reader.chunks_of(cpu))

    def losses(self) -> Sequence[Loss]:
        """Losses stated beside the records, in file order."""
        found: list[Loss] = []
        for known in self._segments:
            found += self._read(known, lambda reader: iter(reader.losses()))
        return found

    def new_chunks(self) -> Iterator[Chunk]:
        """What was added to the store since it was opened or since the last call, across
        rotations; ends when there is no more yet. `chunks` and this overlap in nothing."""
        return self._follower.chunks()

    def new_losses(self) -> Sequence[Loss]:
        """Losses stated in what `new_chunks` passed since the last call."""
        return self._follower.losses()

    def _make_follower(self) -> Follower:
        """Behind the last segment, or in it if it is not sealed."""
        newest = self._segments[-1].entry if self._segments else None
        if newest is None or newest.sealed:
            after = names.FIRST_SEQUENCE if newest is None else newest.sequence + 1
            return Follower(self._directory, self._noted, sequence=after)
        reader = self._readers[newest.path]
        return Follower(
            self._directory, self._noted, sequence=newest.sequence,
            file=reader.file.duplicate(), offset=reader.end,
        )

    def close(self) -> None:
        """Idempotent."""
        self._close_readers()
        self._follower.close()

    def _close_readers(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _read(
        self, known: _Known, read: Callable[[SegmentReader], Iterator[_T]]
    ) -> Iterator[_T]:
        reader = self._acquire(known.entry)
        if reader is None:
            return
        try:
            yield from read(reader)
        finally:
            self._release(known.entry)

    def _acquire(self, entry: SegmentEntry) -> SegmentReader | None:
        """The segment's reader, shared by those who read it now; None if it cannot be read."""
        reader = self._readers.get(entry.path) or self._opened(entry)
        if reader is not None:
            self._readers[entry.path] = reader
            self._users[entry.path] += 1
        return reader

    def _opened(self, entry: SegmentEntry) -> SegmentReader | None:
        try:
            reader = open_entry(entry, lambda path: SegmentReader(path, problems=self._noted))
        except FormatError as exc:
            self._noted.add(str(entry.path), exc.offset or 0, exc.reason)
            return None
        if reader is None:
            self._noted.add(str(entry.path), 0, "deleted before it could be read")
        else:
            reader.narrow(*self._window)
        return reader

    def _release(self, entry: SegmentEntry) -> None:
        self._users[entry.path] -= 1
        if not self._users[entry.path] and (reader := self._readers.pop(entry.path, None)):
            reader.close()


def _meets(
    extent: tuple[int, int] | None, first: int | None, last: int | None
) -> bool:
    """Do the two ranges have a point in common, as far as known?"""
    if extent is None:
        return True
    return (first is None or extent[1] >= first) and (last is None or extent[0] <= last)
