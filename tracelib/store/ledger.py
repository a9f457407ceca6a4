"""The store's ledger: what all runs together stored and lost, also in segments that are gone.

Segments are the truth. The ledger is a file beside them with sums over all that were ever
sealed, so that a start need not read a thousand seals, and so that what retention deleted
is not forgotten. Where it is missing or damaged, it is made again of the segments that are
there, and says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from tracelib.causes import Cause
from tracelib.errors import DamageError, XtraceError
from tracelib.losses import Loss
from tracelib.segment.block import BlockHeader, Flag, Kind
from tracelib.store import fsops
from tracelib.store.directory import SegmentEntry, list_segments
from tracelib.store.segment import SegmentReader
from tracelib.units import CpuId, Nanoseconds

NAME = ".ledger"
_SCHEMA = 1
_MOST_BYTES = 1 << 20


@dataclass(slots=True)
class Sums:
    """Records by CPU, and what is missing by CPU and cause."""

    records: Counter[CpuId] = field(default_factory=Counter)
    """Stored ones; lost records count."""
    marks: Counter[CpuId] = field(default_factory=Counter)
    """Lost records among them: produced = records - marks + lost."""
    lost: Counter[tuple[CpuId, Cause]] = field(default_factory=Counter)
    unknown: Counter[tuple[CpuId, Cause]] = field(default_factory=Counter)
    """Losses of which nobody knows how many records they were."""

    def add(self, other: Sums) -> None:
        self.records.update(other.records)
        self.marks.update(other.marks)
        self.lost.update(other.lost)
        self.unknown.update(other.unknown)

    def copy(self) -> Sums:
        """As of now, while another thread goes on adding."""
        return Sums(
            self.records.copy(), self.marks.copy(), self.lost.copy(), self.unknown.copy()
        )

    def add_block(self, block: BlockHeader) -> None:
        """A records block that was stored."""
        cpu = CpuId(block.cpu)
        self.records[cpu] += block.records
        if block.lost_marks:
            self.marks[cpu] += block.lost_marks
            self._add_lost(cpu, block.lost, block.flags)

    def add_losses(self, losses: Iterable[Loss]) -> None:
        """Losses that were stated beside the records."""
        for loss in losses:
            if loss.cause in (Cause.NOT_TRACED, Cause.RETENTION):
                continue
            if loss.records is None:
                self.unknown[loss.cpu, loss.cause] += 1
            else:
                self.lost[loss.cpu, loss.cause] += loss.records

    def add_segment(self, segment: SegmentReader) -> None:
        """All of a finished segment, by its index: blocks that are damaged since were stored."""
        for cpu, totals in segment.totals.items():
            self.records[cpu] += totals.records
            self.marks[cpu] += totals.lost_marks
        for entry in segment.index:
            if entry.kind == Kind.RECORDS and entry.lost:
                self._add_lost(CpuId(entry.cpu), entry.lost, entry.flags)
        self.add_losses(segment.losses())

    def _add_lost(self, cpu: CpuId, lost: int, flags: int) -> None:
        cause = Cause.QUEUE_FULL if flags & Flag.QUEUE_FULL else Cause.RING_FULL
        self.lost[cpu, cause] += lost

    def lost_by_cause(self) -> dict[str, int]:
        """Of all CPUs."""
        total: Counter[str] = Counter()
        for (_, cause), count in self.lost.items():
            total[str(cause)] += count
        return dict(+total)

    def unknown_causes(self) -> list[str]:
        """By which records were lost whose number nobody knows."""
        return sorted({str(cause) for (_, cause), count in self.unknown.items() if count})


@dataclass(slots=True)
class Deleted:
    """What retention deleted, in all runs."""

    segments: int = 0
    records: int = 0
    bytes: int = 0
    last: int = 0
    """The number of the last one."""


@dataclass(slots=True)
class Ledger:
    """Of one store. `sums` is of all segments up to number `counted`."""

    since: Nanoseconds
    """When the oldest segment that is in it was created, or the ledger was begun."""
    counted: int = 0
    sums: Sums = field(default_factory=Sums)
    deleted: Deleted = field(default_factory=Deleted)
    rebuilt: bool = False
    """Once there was none, or it was damaged, with segments there: what had been deleted
    before is not in it."""

    def save(self, directory: Path) -> None:
        """Durably, and at once or not at all. Raises StoreError."""
        target = directory / NAME
        temporary = directory / f"{NAME}.new"
        text = json.dumps(_as_map(self), separators=(",", ":")).encode()
        data = text + b"\n" + xxhash.xxh3_64_hexdigest(text).encode() + b"\n"
        fd = fsops.open_or_create(temporary)
        try:
            fsops.truncate(fd, 0, path=temporary)
            fsops.write_all(fd, data, 0, path=temporary)
            fsops.fdatasync(fd, path=temporary)
        finally:
            fsops.close(fd, path=temporary)
        fsops.replace(temporary, target)
        fsops.sync_directory(directory)

    @classmethod
    def load(cls, directory: Path, now: Nanoseconds) -> tuple[Ledger, str | None]:
        """The store's, brought up to date with its sealed segments; and what was wrong with
        the file, if anything was. Raises StoreError only if the directory cannot be listed."""
        entries = [entry for entry in list_segments(directory) if entry.sealed]
        trouble = None
        try:
            ledger = _read(directory / NAME)
        except XtraceError as exc:
            trouble, ledger = str(exc), None
        if ledger is None:
            ledger = cls(now, rebuilt=bool(entries))
            trouble = trouble or (_NONE if entries else None)
        ledger._catch_up(entries)
        return ledger, trouble

    def _catch_up(self, entries: list[SegmentEntry]) -> None:
        fresh = not self.counted
        for entry in entries:
            if entry.sequence == self.deleted.last:
                self._undelete(entry)
            if entry.sequence <= self.counted:
                continue
            self.counted = entry.sequence
            try:
                with SegmentReader(entry.path) as segment:
                    self.sums.add_segment(segment)
                    if fresh and segment.metadata is not None:
                        self.since = min(self.since, segment.metadata.created_at)
            except XtraceError:
                continue  # verify names it

    def _undelete(self, entry: SegmentEntry) -> None:
        """Counted as deleted, and then it was not: the service died in between."""
        records = 0
        try:
            with SegmentReader(entry.path) as segment:
                records = sum(cpu.records for cpu in segment.totals.values())
        except XtraceError:
            pass
        self.take_back_deleted(entry, records)

    def add_sealed(self, sequence: int, sums: Sums) -> None:
        """A segment was finished."""
        self.counted = max(self.counted, sequence)
        self.sums.add(sums)

    def add_deleted(self, entry: SegmentEntry, records: int) -> None:
        """A segment is about to be deleted; save the ledger before it is."""
        self.deleted.segments += 1
        self.deleted.records += records
        self.deleted.bytes += entry.bytes
        self.deleted.last = entry.sequence

    def take_back_deleted(self, entry: SegmentEntry, records: int) -> None:
        """It is there still."""
        self.deleted.segments -= 1
        self.deleted.records -= records
        self.deleted.bytes -= entry.bytes
        self.deleted.last = 0


_NONE = "there is none"


def _read(path: Path) -> Ledger | None:
    """None if there is none. Raises DamageError, StoreError."""
    if not path.exists():
        return None
    with fsops.translated("read", path), path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    text, _, check = data.rpartition(b"\n")[0].rpartition(b"\n")
    if len(data) > _MOST_BYTES or xxhash.xxh3_64_hexdigest(text).encode() != check:
        raise DamageError("the ledger's checksum differs", file=str(path))
    try:
        return _from_map(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise DamageError(f"not a ledger: {exc}", file=str(path)) from exc


def _as_map(ledger: Ledger) -> dict[str, Any]:
    sums, deleted = ledger.sums, ledger.deleted
    return {
        "schema": _SCHEMA,
        "since": ledger.since,
        "counted": ledger.counted,
        "rebuilt": ledger.rebuilt,
        "records": sorted(sums.records.items()),
        "marks": sorted(sums.marks.items()),
        "lost": sorted((cpu, cause, count) for (cpu, cause), count in sums.lost.items()),
        "unknown": sorted((cpu, cause, count) for (cpu, cause), count in sums.unknown.items()),
        "deleted": [deleted.segments, deleted.records, deleted.bytes, deleted.last],
    }


def _from_map(found: dict[str, Any]) -> Ledger:
    if found["schema"] != _SCHEMA:
        raise ValueError(f"schema {found['schema']}")
    sums = Sums(
        Counter({CpuId(cpu): int(count) for cpu, count in found["records"]}),
        Counter({CpuId(cpu): int(count) for cpu, count in found["marks"]}),
        Counter({(CpuId(cpu), Cause(cause)): int(count) for cpu, cause, count in found["lost"]}),
        Counter(
            {(CpuId(cpu), Cause(cause)): int(count) for cpu, cause, count in found["unknown"]}
        ),
    )
    return Ledger(
        Nanoseconds(int(found["since"])), int(found["counted"]), sums,
        Deleted(*map(int, found["deleted"])), bool(found["rebuilt"]),
    )

