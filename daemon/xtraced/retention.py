"""Retention: which sealed segments go when the store is at a limit. Oldest first, always.

Runs in the writer's thread, before bytes are added, so that a limit is never exceeded in
between. The open segment counts towards every limit and is never deleted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from tracelib.errors import StoreError, XtraceError
from tracelib.store import fsops
from tracelib.store.directory import SegmentEntry, list_segments
from tracelib.store.ledger import Deleted, Ledger
from tracelib.store.segment import SegmentReader
from tracelib.units import Nanoseconds

log = structlog.get_logger("retention")


@dataclass(frozen=True, slots=True)
class Limits:
    """0 means no limit. Sizes in bytes, age in nanoseconds."""

    max_bytes: int
    keep_free: int
    max_age: int
    max_segments: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What a segment says of itself; unknown times are None."""

    records: int = 0
    created_at: Nanoseconds | None = None
    ended_at: Nanoseconds | None = None


def summarize(path: Path) -> Summary:
    """Read a segment's first and last block. Of one too damaged to say anything: nothing."""
    try:
        with SegmentReader(path) as segment:
            records = sum(cpu.records for cpu in segment.totals.values())
            created_at, ended_at = segment.span or (None, None)
            return Summary(records, created_at, ended_at)
    except XtraceError:
        return Summary()


class Retention:
    """The sealed segments of one store directory, oldest first, and the limits on them."""

    def __init__(
        self, directory: Path, limits: Limits, *, now: Callable[[], Nanoseconds],
        ledger: Ledger | None = None,
    ) -> None:
        """`ledger`: where deletions are entered; by default one that nobody keeps."""
        self.limits = limits
        self.deleted = Deleted()
        """In this run."""
        self.ledger = ledger or Ledger(now())
        self.acting: str | None = None
        self._directory = directory
        self._now = now
        self._entries = deque(
            entry for entry in list_segments(directory) if entry.sealed
        )
        self.sealed_bytes = sum(entry.bytes for entry in self._entries)
        self._ledger_failing = False
        self._oldest: tuple[SegmentEntry, Summary] | None = None

    @property
    def entries(self) -> Sequence[SegmentEntry]:
        """Oldest first."""
        return self._entries

    @property
    def segments(self) -> int:
        return len(self._entries)

    def add(self, entry: SegmentEntry) -> None:
        """A segment was sealed just now."""
        self._entries.append(entry)
        self.sealed_bytes += entry.bytes

    def oldest_time(self) -> Nanoseconds | None:
        """When the oldest sealed segment was created, as far as its summary was looked at:
        nothing is read here."""
        return self._oldest[1].created_at if self._oldest else None

    def free_bytes(self) -> int:
        """What the file system has left for us: f_bavail * f_frsize (R39)."""
        return fsops.free_bytes(self._directory)

    def make_room(self, incoming: int, open_bytes: int) -> bool:
        """Delete until `incoming` more bytes fit every limit. False if they cannot.

        `open_bytes` is the size of the open segment. Everything is looked at again after
        each deletion (R40).
        """
        while (limit := self._violated(incoming, open_bytes)) is not None:
            if not self._entries:
                return limit != "keep_free"
            self._delete_oldest(limit)
        return True

    def _violated(self, incoming: int, open_bytes: int) -> str | None:
        limits = self.limits
        total = self.sealed_bytes + open_bytes + incoming
        if limits.max_bytes and total > limits.max_bytes:
            return "max_bytes"
        if limits.max_segments and len(self._entries) + 1 > limits.max_segments:
            return "max_segments"
        if limits.keep_free and self.free_bytes() < limits.keep_free + incoming:
            return "keep_free"
        if limits.max_age and self._entries:
            last = self._summary_of_oldest().ended_at
            if last is not None and self._now() - last > limits.max_age:
                return "max_age"
        return None

    def _delete_oldest(self, limit: str) -> None:
        entry = self._entries[0]
        summary = self._summary_of_oldest()
        # Before it goes: a deletion that is not in the ledger could not be found out later.
        self.ledger.add_deleted(entry, summary.records)
        saved = self.save_ledger()
        try:
            fsops.unlink(entry.path)
        except StoreError:
            self.ledger.take_back_deleted(entry, summary.records)
            raise
        if not saved:
            # There is some room now.
            self.save_ledger()
        self._entries.popleft()
        self.sealed_bytes -= entry.bytes
        self.acting = limit
        self.deleted.segments += 1
        self.deleted.records += summary.records
        self.deleted.bytes += entry.bytes
        log.info(
            "segment_deleted", segment=str(entry.path), limit=limit, records=summary.records,
            bytes=entry.bytes, first_time=summary.created_at, last_time=summary.ended_at,
        )

    def save_ledger(self) -> bool:
        """False if the disk refuses: a later attempt may have more luck."""
        try:
            self.ledger.save(self._directory)
        except StoreError as exc:
            if not self._ledger_failing:
                log.warning("ledger_not_saved", error=str(exc))
            self._ledger_failing = True
        else:
            self._ledger_failing = False
        return not self._ledger_failing

    def _summary_of_oldest(self) -> Summary:
        """What it says of itself; read once. Zeros if it is too damaged to say anything."""
        entry = self._entries[0]
        if self._oldest is None or self._oldest[0] != entry:
            self._oldest = entry, summarize(entry.path)
        return self._oldest[1]
