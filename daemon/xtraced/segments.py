"""The open segment and its store: blocking, one thread, no trio.

Every failure to write ends here: it is counted, said in the next segment that can be
written, and never stops the caller.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from tracelib.chunks import ClockAnchor
from tracelib.errors import StoreError
from tracelib.losses import Cause, Loss, merge_losses
from tracelib.ring.runstates import RunstateSnapshot
from tracelib.segment.block import BlockHeader, Flag
from tracelib.segment.metadata import Metadata
from tracelib.status import LedgerStatus, StoreStatus, WriterStatus
from tracelib.store import fsops
from tracelib.store.directory import next_sequence
from tracelib.store.ledger import Sums
from tracelib.units import CpuId, Nanoseconds, Tsc
from xtraced.clock import Clock
from xtraced.retention import Retention
from xtraced.segmentfile import SMALL_BLOCKS, SegmentFile, WriteMeter
from xtraced.snapshots import Snapshot, take_snapshot
from xtraced.staging import StagingBuffer

GROUP = "xtraced"
"""Its members may read segments."""

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})

log = structlog.get_logger("store")


@dataclass(frozen=True, slots=True)
class Opening:
    """What the first blocks of the next segment say. Sequence, creation time and the reason
    for the previous segment's end are filled in when it is opened."""

    metadata: Metadata
    state: RunstateSnapshot
    anchor: ClockAnchor | None


@dataclass(frozen=True, slots=True)
class Sealed:
    """A segment that will never change again."""

    path: str
    sequence: int
    records: int
    bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class WritePolicy:
    """Durations in nanoseconds."""

    direct: bool
    sync_interval: int
    retry: int
    """How long a buffer that cannot be written is kept and tried again."""


class SegmentStore:
    """Writes segments into one directory, within the limits of `retention`."""

    def __init__(
        self, directory: Path, retention: Retention, policy: WritePolicy, *, clock: Clock,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.policy = policy
        self._directory = directory
        self._group = fsops.find_group(GROUP)
        self._retention = retention
        self._clock = clock
        self._sleep = sleep
        self._segment: SegmentFile | None = None
        self._opening: Opening | None = None
        self._previous_reason = "none"
        self._next_sequence = next_sequence(directory)
        self._pending: list[Loss] = []
        self._direct = policy.direct
        self._direct_reason = ""
        self._last_sync = clock.monotonic()
        self._last_error: str | None = None
        self._last_error_at: Nanoseconds | None = None
        self._failing_since: Nanoseconds | None = None
        self._refused = 0
        """Bytes of the largest buffer that was refused since then."""
        self._failed_blocks = 0
        self._failed_records = 0
        self.stored_records = 0
        """Records written in this run, durable or not yet."""
        self.failed_by_cpu: dict[int, int] = {}
        """Records that could not be stored in this run, by CPU."""
        self._free_bytes: int | None = None
        self._meter = WriteMeter()
        self._sums = Sums()
        """Of the open segment."""

    # Orders

    def open(self, opening: Opening) -> str:
        """Open a segment now. Raises StoreError: at start, a store that refuses is fatal."""
        self._opening = opening
        segment = self._open_segment()
        # From now on a store without a ledger is one that lost it.
        self._retention.save_ledger()
        return str(segment.path)

    def write(self, buffer: StagingBuffer) -> None:
        """Store a buffer, or count it as lost. Raises nothing."""
        give_up_at = self._clock.monotonic() + self.policy.retry
        failing = self._failing_since is not None
        while True:
            try:
                self._store(buffer)
            except StoreError as exc:
                self._note_failure(exc)
                self._refused = max(self._refused, buffer.used)
                if failing or self._clock.monotonic() >= give_up_at:
                    self._give_up(buffer)
                    return
                self._sleep(0.1)
            else:
                self._note_success()
                return

    def rotate(self, reason: str, opening: Opening) -> Sealed | None:
        """Seal the open segment, open the next. None if there was none to seal, or if none of
        its records could be stored: then it goes on, and the next has nothing to wait for."""
        self._opening = opening
        if reason == "size" and self._segment is not None and not self._segment.encoder.records:
            return None
        try:
            sealed = self._seal(reason, opening.anchor)
            self._open_segment()
        except StoreError as exc:
            self._note_failure(exc)
            raise
        return sealed

    def flush(self) -> None:
        """Make all that was stored durable. Raises StoreError."""
        if self._segment is not None:
            self._sync(self._segment)

    def snapshot(self, since: Nanoseconds | None, now: Nanoseconds) -> Snapshot:
        """Keep sealed segments from retention. Raises StoreError."""
        kept = take_snapshot(
            self._directory, self._retention.entries, since, now, group=self._group
        )
        log.info("snapshot", path=kept.path, segments=kept.segments, bytes=kept.bytes)
        return kept

    def housekeep(self, anchor: ClockAnchor | None) -> None:
        """What is due by time. Raises nothing."""
        segment = self._segment
        if segment is None:
            return
        try:
            self._retention.make_room(0, segment.size)
            self._free_bytes = self._retention.free_bytes()
            if anchor is not None:
                segment.append_small(lambda: segment.encoder.anchor(anchor, "minute"))
            self._sync_if_due(segment)
        except StoreError as exc:
            self._note_failure(exc)

    def close(self, reason: str, anchor: ClockAnchor | None) -> Sealed | None:
        """Write what losses are still to be told, seal. Raises StoreError."""
        if self._pending:
            segment = self._segment or self._open_segment()
            self._write_losses(segment, [])
        return self._seal(reason, anchor)

    # One buffer

    def _store(self, buffer: StagingBuffer) -> None:
        segment = self._segment or self._open_segment()
        self._make_room(buffer.used + SMALL_BLOCKS, segment.size)
        segment.append_buffer(buffer)
        for _, header in buffer.blocks:
            self.stored_records += header.records
            self._sums.add_block(header)
        self._direct, self._direct_reason = segment.direct, segment.direct_reason
        if buffer.losses or self._pending:
            self._write_losses(segment, buffer.losses)
        self._sync_if_due(segment)

    def _write_losses(self, segment: SegmentFile, losses: Sequence[Loss]) -> None:
        """Append loss blocks; if that fails they are told with the next buffer."""
        self._pending.extend(losses)
        told = tuple(self._pending)
        try:
            segment.append_small(lambda: segment.encoder.losses(told))
        except StoreError as exc:
            self._note_failure(exc)
        else:
            self._sums.add_losses(told)
            self._pending.clear()

    def _make_room(self, incoming: int, open_bytes: int) -> None:
        if not self._retention.make_room(incoming, open_bytes):
            raise StoreError(
                f"{self._directory}: less than store.keep_free "
                f"({self._retention.limits.keep_free} bytes) would be left, and no sealed "
                "segment is left to delete",
                errno=errno.ENOSPC,
            )
        self._free_bytes = self._retention.free_bytes()

    def _sync_if_due(self, segment: SegmentFile) -> None:
        if self._clock.monotonic() - self._last_sync >= self.policy.sync_interval:
            self._last_sync = self._clock.monotonic()
            try:
                self._sync(segment)
            except StoreError as exc:
                self._note_failure(exc)

    def _sync(self, segment: SegmentFile) -> None:
        """R60: after a failed sync the kernel may have dropped pages and will not say so
        again; what came since the last good one is suspect, so the segment ends there."""
        try:
            segment.sync()
        except StoreError:
            self._abandon(segment, f"sync failed, suspect from offset {segment.synced_bytes}")
            raise

    # Segments

    def _open_segment(self) -> SegmentFile:
        opening = self._opening
        if opening is None:
            raise StoreError("no segment was ever opened here")
        metadata = replace(
            opening.metadata, sequence=self._next_sequence, created_at=self._clock.realtime(),
            previous_reason=self._previous_reason,
        )
        self._make_room(SMALL_BLOCKS, 0)
        segment = SegmentFile(
            self._directory, metadata, group=self._group, direct=self._direct,
            meter=self._meter, clock=self._clock,
        )
        try:
            segment.append_small(
                lambda: segment.encoder.head(opening.state, opening.anchor, ())
            )
            fsops.sync_directory(self._directory)
        except StoreError:
            segment.close()
            # If the file stays, its number is used up; if not, a hole in the row of numbers
            # would look like a segment that is missing.
            self._next_sequence += not self._removed(segment.path)
            raise
        self._next_sequence += 1
        self._direct, self._direct_reason = segment.direct, segment.direct_reason
        self._segment = segment
        log.info("segment_opened", segment=str(segment.path), direct=segment.direct)
        return segment

    def _removed(self, path: Path) -> bool:
        """Delete a segment whose head could not be written: it holds no record."""
        try:
            fsops.unlink(path)
        except StoreError as exc:
            log.warning("leftover", path=str(path), error=str(exc))
            return False
        return True

    def _seal(self, reason: str, anchor: ClockAnchor | None) -> Sealed | None:
        segment, self._segment = self._segment, None
        if segment is None:
            return None
        try:
            segment.seal(reason, anchor)
        except StoreError:
            self._leave_unsealed(segment)
            raise
        self._previous_reason = reason
        records = segment.encoder.records
        self._enter(segment)
        log.info("segment_sealed", segment=str(segment.sealed_path), reason=reason,
                 records=records, bytes=segment.size)
        return Sealed(str(segment.sealed_path), segment.sequence, records, segment.size, reason)

    def _abandon(self, segment: SegmentFile, reason: str) -> None:
        """End a segment that cannot be written to any more, with a seal if at all possible."""
        try:
            self._seal(reason, None)
        except StoreError as exc:
            log.error("segment_not_sealed", segment=str(segment.path), error=str(exc))
        self._previous_reason = reason

    def _leave_unsealed(self, segment: SegmentFile) -> None:
        """Its blocks can be read without a seal; the next start writes one."""
        try:
            segment.cut()
            segment.close()
        except StoreError as exc:
            log.error("segment_not_closed", segment=str(segment.path), error=str(exc))
        self._enter(segment)

    def _enter(self, segment: SegmentFile) -> None:
        """No more comes into a segment: into retention's books, and into the ledger."""
        retention = self._retention
        retention.add(segment.entry())
        sums, self._sums = self._sums, Sums()
        retention.ledger.add_sealed(segment.sequence, sums)
        retention.save_ledger()

    # Failure

    def _note_failure(self, exc: StoreError) -> None:
        self._last_error = str(exc)
        self._last_error_at = self._clock.realtime()
        if self._failing_since is None:
            self._failing_since = self._last_error_at
            log.error("store_failing", error=str(exc), errno=exc.errno)
        segment = self._segment
        if segment is not None and exc.errno not in NO_SPACE:
            self._abandon(segment, f"write failed: {exc}")

    def _note_success(self) -> None:
        """It has recovered if what it refused would find room now: on a disk that is all but
        full, a small buffer goes in now and then and means nothing."""
        room = self._free_bytes is None or self._free_bytes >= self._refused
        if self._failing_since is not None and room:
            self._refused = 0
            lasted = self._clock.realtime() - self._failing_since
            self._failing_since = None
            log.info("store_recovered", lasted_ns=lasted, records_lost=self._failed_records)

    def _give_up(self, buffer: StagingBuffer) -> None:
        """Count a buffer as lost; the next loss block says so (cause, CPU, time span)."""
        now = self._clock.realtime()
        by_cpu: dict[int, list[BlockHeader]] = {}
        for _, header in buffer.blocks:
            by_cpu.setdefault(header.cpu, []).append(header)
        for cpu, headers in by_cpu.items():
            records = sum(header.records - header.lost_marks for header in headers)
            self.failed_by_cpu[cpu] = self.failed_by_cpu.get(cpu, 0) + records
            self._failed_records += records
            self._pending.extend(_losses_of(CpuId(cpu), headers, now))
        self._pending = merge_losses([*self._pending, *buffer.losses])
        self._failed_blocks += len(buffer.blocks)

    # Status

    def writer_status(self, queued: int) -> WriterStatus:
        """Never blocks: all of it is remembered, nothing is looked up."""
        meter = self._meter
        return WriterStatus(
            direct=self._direct if meter.writes else None,
            direct_reason=self._direct_reason,
            queued=queued,
            writes=meter.writes,
            bytes=meter.bytes,
            sizes={str(size): count for size, count in sorted(meter.sizes.copy().items())},
            latency=meter.latency(),
            busy_since=meter.busy_since,
            last_error=self._last_error,
            last_error_at=self._last_error_at,
            failing_since=self._failing_since,
            failed_blocks=self._failed_blocks,
            failed_records=self._failed_records,
        )

    def store_status(self) -> StoreStatus:
        """Never blocks, like `writer_status`."""
        segment, retention = self._segment, self._retention
        limits, deleted = retention.limits, retention.deleted
        open_bytes = segment.size if segment else 0
        return StoreStatus(
            directory=str(self._directory),
            segments=retention.segments + (segment is not None),
            bytes=retention.sealed_bytes + open_bytes,
            oldest=retention.oldest_time() or (segment.created_at if segment else None),
            open_segment=str(segment.path) if segment else None,
            open_bytes=open_bytes,
            max_bytes=limits.max_bytes,
            keep_free=limits.keep_free,
            max_age=limits.max_age,
            max_segments=limits.max_segments,
            free_bytes=self._free_bytes,
            acting=retention.acting,
            deleted_segments=deleted.segments,
            deleted_records=deleted.records,
            deleted_bytes=deleted.bytes,
        )


    def ledger_status(self) -> LedgerStatus:
        """All runs together, the open segment included. Never blocks."""
        ledger = self._retention.ledger
        whole = Sums()
        for sums in (ledger.sums, self._sums):
            whole.add(sums.copy())
        return LedgerStatus(
            since=ledger.since,
            rebuilt=ledger.rebuilt,
            records=whole.records.total(),
            lost_marks=whole.marks.total(),
            lost=whole.lost_by_cause(),
            lost_unknown=whole.unknown_causes(),
            deleted_segments=ledger.deleted.segments,
            deleted_records=ledger.deleted.records,
            deleted_bytes=ledger.deleted.bytes,
        )


def _losses_of(cpu: CpuId, headers: Sequence[BlockHeader], now: Nanoseconds) -> list[Loss]:
    """What is missing when these blocks of one CPU are not stored.

    The records themselves, and the losses that Xen told in lost records among them.
    """
    first = next((h.first_tsc for h in headers if h.first_tsc), Tsc(0))
    last = next((h.last_tsc for h in reversed(headers) if h.last_tsc), Tsc(0))
    records = sum(header.records - header.lost_marks for header in headers)
    size = sum(header.payload_bytes for header in headers)
    losses = [Loss(Cause.WRITE_FAILED, cpu, records, size, first, last, now)]
    for cause, flag in ((Cause.QUEUE_FULL, Flag.QUEUE_FULL), (Cause.RING_FULL, Flag(0))):
        lost = sum(header.lost for header in headers if header.flags & Flag.QUEUE_FULL == flag)
        if lost:
            losses.append(Loss(cause, cpu, lost, None, first, last, now))
    return losses
