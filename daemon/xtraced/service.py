"""The service: one source, one store, and the tasks between them.

    services nursery        control server, signals, housekeeping, watchdog
      └─ the collector      this task: drains until it is told to stop
           └─ the writer    a thread, fed through a queue

Shutdown follows the nesting: the collector ends first (tracing off, every ring drained once
more), then the writer (queue written, segment sealed), then everything that only looks on.
daemon/DESIGN.md tells it in more words.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import structlog
import trio

from tracelib.chunks import ClockAnchor
from tracelib.cpulist import format_cpu_list
from tracelib.errors import ConfigError, SourceError, UsageError, XtraceError
from tracelib.status import MaskStatus, Status
from tracelib.store.ledger import Ledger
from tracelib.store.recover import RingPosition, ring_positions
from tracelib.units import CpuId, Nanoseconds, Tsc, format_size
from xtraced.clock import Clock
from xtraced.collector import Collector, Pace
from xtraced.config import Reloaded
from xtraced.handover import StagingMemory
from xtraced.incidents import UNEVENTFUL, Predecessor
from xtraced.masking import MaskKeeper
from xtraced.metadata import new_run_id, segment_metadata
from xtraced.notify import Notifier
from xtraced.report import Run, mask_status, report
from xtraced.retention import Limits, Retention
from xtraced.rotation import Rotation, RotationLimits
from xtraced.segments import Opening, Sealed, SegmentStore, WritePolicy
from xtraced.settings import Settings
from xtraced.snapshots import Snapshot
from xtraced.sources import Masks, Source
from xtraced.staging import StagingPool
from xtraced.writer import Writer

NANO = 1_000_000_000
STATUS_EVERY = 5.0
"""Seconds between two STATUS= lines for systemd."""

Reload = Callable[[Settings], Reloaded]
Tasks = Callable[["Service"], Sequence[Callable[[], Awaitable[None]]]]

log = structlog.get_logger("service")


class Service:
    """One run, from open rings to a sealed segment. The source is open already."""

    def __init__(
        self,
        settings: Settings,
        source: Source,
        *,
        clock: Clock,
        notifier: Notifier,
        watchdog: Nanoseconds | None,
        reload: Reload | None = None,
        predecessor: Predecessor = UNEVENTFUL,
        memory: StagingMemory | None = None,
    ) -> None:
        """`predecessor`: how the service before this one ended. `memory`: where records are
        staged; by default it is gone with the process."""
        self.settings = settings
        self._source = source
        self._clock = clock
        self._notifier = notifier
        self._watchdog = watchdog
        self._reload = reload
        self._predecessor = predecessor
        self._paused_at: Tsc | None = None
        self._run_id = new_run_id()
        self._started_at = clock.realtime()
        self._started = clock.monotonic()
        self._phase = "starting"
        self._masks = MaskKeeper(
            source, Masks(settings.collect.events.mask, settings.collect.cpus)
        )
        self._stop_scope: trio.CancelScope | None = None
        self._source_failed = False
        self._last_anchor = clock.monotonic()
        directory = settings.store.directory
        self._retention = Retention(
            directory, _limits(settings), now=clock.realtime, ledger=_ledger(directory, clock)
        )
        self._store = SegmentStore(directory, self._retention, _policy(settings), clock=clock)
        self._memory = memory or StagingMemory.of(settings)
        self.pool = StagingPool(self._memory)
        self._writer = Writer(
            self._store, self.pool,
            buffer_wanted=lambda: self.collector.shortage.waiting,
            buffer_returned=lambda: self.collector.shortage.buffer_returned(),
        )
        self._rotation = Rotation(
            self._writer, _rotation_limits(settings), opening=self._opening, clock=clock
        )
        self.collector = Collector(
            source, self.pool, self._rotation.hand_over,
            clock=clock, pace=_pace(settings, watchdog),
        )

    # From start to stop

    async def run(self, serve: Tasks) -> bool:
        """Collect until `stop`. True if everything that was drained is stored.

        `serve` is called once the store is open and gives the tasks that only look on (the
        control server). Raises StoreError or SourceError if the service cannot start.
        """
        self._writer.start()
        try:
            await self._start()
            async with trio.open_nursery() as services:
                for task in serve(self):
                    services.start_soon(task)
                # Before READY: whoever hears that may send a signal at once.
                await services.start(self._handle_signals)
                services.start_soon(self._housekeeping)
                if self._watchdog is not None:
                    services.start_soon(self._feed_watchdog, self._watchdog)
                await self._begin()
                with self._source_may_fail("drain"):
                    await self.collector.run()
                complete = await self._finish()
                services.cancel_scope.cancel()
        finally:
            self._writer.finish()
        return complete

    async def _start(self) -> None:
        self._masks.set(self._masks.wanted)
        self.collector.incidents.check_predecessor(
            self.collector.accounts, await self._stored_positions(), self._predecessor
        )
        path = await self._writer.open(self._opening()).wait()
        log.info("store_open", segment=path)

    async def _stored_positions(self) -> dict[CpuId, RingPosition]:
        """Where each ring's stored records end. Unknown if the store cannot be read, which
        must not keep a service from collecting."""
        directory = self.settings.store.directory
        try:
            return await self._writer.call(lambda: ring_positions(directory)).wait() or {}
        except XtraceError as exc:
            log.warning("predecessor_unknown", error=str(exc))
            return {}

    async def _begin(self) -> None:
        """Take what lies in the rings, switch tracing on, say that we are there."""
        if self.settings.collect.start == "discard":
            self.collector.discard()
        else:
            await self._drain_all("start")
        if self.settings.collect.pause_on_start:
            self._phase = "paused"
        else:
            self._source.enable()
            self._phase = "collecting"
        self._notifier.ready(self.status_line())
        log.info("collecting", source=self._source.hypervisor.name, phase=self._phase,
                 cpus=len(self._source.rings), ring_pages=self._source.ring_pages,
                 ring_pages_wanted=self.settings.source.pages)

    def stop(self, why: str) -> None:
        """Begin the shutdown; a second call cuts it short."""
        if self._phase == "stopping":
            if self._stop_scope is not None:
                self._stop_scope.cancel()
            return
        self._phase = "stopping"
        log.info("stopping", why=why)
        self._notifier.stopping("draining the rings", within=_time_to_stop(self.settings))
        self.collector.stop()

    async def _finish(self) -> bool:
        """Tracing off, every ring once more, queue written, segment sealed: or what of it
        fits into the time that a stop may take (R05, R06)."""
        if self._paused_at is not None:
            with self._source_may_fail("read the clock"):
                self._note_pause()
        self._phase = "stopping"
        if not self.settings.collect.leave_enabled:
            with self._source_may_fail("disable"):
                self._source.disable()
            self.collector.incidents.check_tails(self.collector.accounts)
        timeout = self.settings.service.stop_timeout / NANO
        with trio.move_on_after(timeout) as self._stop_scope:
            await self._drain_all("stop")
            self.collector.hand_off()
            try:
                await self._writer.close("stop", self.anchor()).wait()
            except XtraceError as exc:
                log.error("stopped_unsealed", error=str(exc))
        if self._stop_scope.cancelled_caught:
            self._writer.abandon()
        missing = self._drained_records() - self._store.stored_records
        if missing:
            log.error("records_not_stored", records=missing,
                      reason="time is up" if self._stop_scope.cancelled_caught else "write failed")
        log.info("stopped", records=self._drained_records(), not_stored=missing,
                 tracing="left on" if self.settings.collect.leave_enabled else "off",
                 masks_left=hex(self._masks.in_force.events))
        return not (missing or self._stop_scope.cancelled_caught or self._source_failed)

    @contextmanager
    def _source_may_fail(self, doing: str) -> Iterator[None]:
        """A hypervisor that refuses or is gone ends the service, but not what it holds: the
        rings stay mapped, and what was drained is stored like at any stop."""
        try:
            yield
        except SourceError as exc:
            self._source_failed = True
            log.error("source_failed", doing=doing, error=str(exc))
            if self._phase != "stopping":
                # A second stop would cut the first one short.
                self.stop("the source failed")

    async def _drain_all(self, why: str) -> None:
        """Drain every ring, waiting for staging buffers if need be."""
        while not self.collector.drain(why):
            await self.collector.shortage.wait()

    def _drained_records(self) -> int:
        return sum(account.records for account in self.collector.accounts)

    # Beside the collector

    async def _handle_signals(self, *, task_status: trio.TaskStatus[None]) -> None:
        wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
        with trio.open_signal_receiver(*wanted) as signals:
            task_status.started()
            async for number in signals:
                if number == signal.SIGHUP:
                    self._reload_quietly()
                elif number == signal.SIGUSR1:
                    self.rotate_nowait("signal")
                else:
                    self.stop(signal.Signals(number).name)

    async def _housekeeping(self) -> None:
        """Anchors, syncs, age limits, and the line for systemd."""
        last_status = trio.current_time()
        while True:
            await trio.sleep(min(1.0, self.settings.writer.sync_interval / NANO))
            now = self._clock.monotonic()
            anchor = None
            if now - self._last_anchor >= self.settings.service.anchor_interval:
                self._last_anchor = now
                anchor = self.anchor()
            self._writer.housekeep(anchor)
            if self._rotation.is_due():
                self.rotate_nowait("age")
            if trio.current_time() - last_status >= STATUS_EVERY:
                last_status = trio.current_time()
                with self._source_may_fail("ask for the masks"):
                    self._masks.look()
                self._notifier.status(self.status_line())
                self.pool.trim()

    async def _feed_watchdog(self, interval: Nanoseconds) -> None:
        """Tell systemd that the drain loop turns; not that the disk writes (R07)."""
        while True:
            await trio.sleep(interval / NANO / 4)
            turned = self._clock.monotonic() - self.collector.last_turn
            if turned < interval // 2 or self._phase == "stopping":
                self._notifier.watchdog()

    # What the control socket and signals ask for

    async def flush(self) -> tuple[int, int]:
        """Drain every ring, and make all that was drained durable; records and bytes taken."""
        records, size = self._drained_records(), self._drained_bytes()
        await self._drain_all("command")
        self.collector.hand_off()
        await self._writer.flush().wait()
        return self._drained_records() - records, self._drained_bytes() - size

    def _drained_bytes(self) -> int:
        return sum(account.bytes for account in self.collector.accounts)

    async def rotate(self) -> Sealed | None:
        """Drain, seal the open segment, open the next; None if there was nothing to seal."""
        self.collector.drain("command")
        self.collector.hand_off()
        ticket = self._rotation.rotate("command")
        return None if ticket is None else await ticket.wait()

    async def snapshot(self, last: int | None) -> Snapshot:
        """Keep what was recorded until now, or in the last so many nanoseconds."""
        now = self._clock.realtime()
        await self.flush()
        await self.rotate()
        since = None if last is None else Nanoseconds(now - last)
        kept = await self._writer.call(lambda: self._store.snapshot(since, now)).wait()
        assert kept is not None
        return kept

    def rotate_nowait(self, reason: str) -> None:
        """Rotate at what was drained so far; the writer logs the result."""
        self.collector.drain("command")
        self.collector.hand_off()
        self._rotation.rotate(reason)

    def pause(self) -> None:
        """Switch tracing off and take what the rings hold."""
        if self._phase != "collecting":
            return
        self._source.disable()
        self.collector.incidents.check_tails(self.collector.accounts)
        self.collector.drain("command")
        self.collector.hand_off()
        self._phase = "paused"
        self._paused_at = self._source.read_tsc()
        log.info("paused")

    def resume(self) -> None:
        """Switch tracing on again."""
        if self._phase != "paused":
            return
        self._masks.set(self._masks.wanted)
        self._note_pause()
        self._paused_at = None
        self._source.enable()
        self._phase = "collecting"
        log.info("resumed")

    def _note_pause(self) -> None:
        """Who ran where while nothing was traced, nobody knows."""
        self.collector.runstates.forget()
        self.collector.incidents.not_traced(
            self.collector.accounts, self._paused_at, self._source.read_tsc(), "paused"
        )

    def _note_mask(self, before: Masks) -> None:
        """From now on nobody knows who runs on the CPUs whose scheduling is masked out."""
        after = self._masks.in_force
        dark = [
            account for account in self.collector.accounts
            if before.shows_who_runs(account.ring.cpu)
            and not after.shows_who_runs(account.ring.cpu)
        ]
        if dark:
            self.collector.runstates.forget()
            now = self._source.read_tsc()
            self.collector.incidents.not_traced(dark, now, now, "masked out from here on")

    def set_masks(self, events: int | None, cpus: frozenset[CpuId] | str | None) -> MaskStatus:
        """Trace something else from now on; a new segment says so in its metadata.

        `events` None and `cpus` "same" leave that mask as it is.
        """
        wanted = Masks(
            self._masks.wanted.events if events is None else events,
            self._masks.wanted.cpus if isinstance(cpus, str) else cpus,
        )
        self._masks.look()
        if wanted != self._masks.wanted or not self._masks.ours:
            self.collector.drain("command")
            self.collector.hand_off()
            before = self._masks.in_force
            self._masks.set(wanted)
            self._note_mask(before)
            self._rotation.rotate("mask", even_if_empty=True)
            log.info("mask_changed", events=hex(wanted.events), cpus=format_cpu_list(wanted.cpus))
        return self.mask_status()

    def mask_status(self) -> MaskStatus:
        """The masks asked for and in force, as the hypervisor has them now."""
        with self._source_may_fail("ask for the masks"):
            self._masks.look()
        return mask_status(self._run())

    def reload(self) -> Reloaded:
        """Read the configuration again: all of it comes into force, or none (ConfigError)."""
        if self._reload is None:
            raise UsageError("this service has no configuration to read again")
        self._notifier.reloading(self._clock.monotonic())
        try:
            reloaded = self._reload(self.settings)
            self._apply(reloaded.settings)
        finally:
            self._notifier.ready(self.status_line())
        log.info("reloaded", changed=reloaded.changed, need_restart=reloaded.need_restart)
        return reloaded

    def _reload_quietly(self) -> None:
        try:
            self.reload()
        except ConfigError as exc:
            for problem in exc.problems:
                log.error("reload_refused", problem=problem)
        except XtraceError as exc:
            log.error("reload_refused", problem=str(exc))

    def _apply(self, settings: Settings) -> None:
        before, self.settings = self.settings, settings
        self._retention.limits = _limits(settings)
        self._store.policy = _policy(settings)
        self._rotation.limits = _rotation_limits(settings)
        self.collector.pace = _pace(settings, self._watchdog)
        if settings.collect != before.collect:
            self.set_masks(settings.collect.events.mask, settings.collect.cpus)
        # A lowered limit acts now, not at the next segment.
        self._writer.housekeep(None)

    # What it says of itself

    def status(self) -> Status:
        """Everything, without waiting for anything."""
        return report(
            self._run(), self._source, self.collector, self.pool,
            self._writer.writer_status(), self._writer.store_status(),
            self._store.ledger_status(),
            self._store.failed_by_cpu, clock=self._clock,
        )

    def status_line(self) -> str:
        """One line for `systemctl status`."""
        status = self.status()
        lost = sum(status.lost.values())
        line = (
            f"{status.state}: {status.records} records, {format_size(status.bytes)}, "
            f"{lost} lost; {status.store.segments} segments, {format_size(status.store.bytes)}"
        )
        return f"{line}; {status.reasons[0]}" if status.reasons else line

    def _run(self) -> Run:
        override = self.settings.source.cpu_hz
        hypervisor = self._source.hypervisor
        return Run(
            started_at=self._started_at,
            started=self._started,
            phase=self._phase,
            ring_pages_wanted=self.settings.source.pages,
            tsc_hz=override or hypervisor.tsc_hz,
            tsc_source="option" if override else hypervisor.tsc_source,
            masks=self._masks,
        )

    def _opening(self) -> Opening:
        masks = self._masks
        metadata = segment_metadata(
            self.settings, self._source, masks.wanted, masks.in_force, self._run_id
        )
        # A successor that begins a segment for us dates it with this.
        self._memory.note_run(replace(metadata, created_at=self._clock.realtime()))
        return Opening(metadata, self.collector.runstates.snapshot(), self.anchor())

    def anchor(self) -> ClockAnchor | None:
        """This moment on three clocks; None if the source cannot tell."""
        tsc = None
        with self._source_may_fail("read the clock"):
            tsc = self._source.read_tsc()
        if tsc is None:
            return None
        return ClockAnchor(tsc, self._clock.realtime(), self._clock.monotonic())


def _ledger(directory: Path, clock: Clock) -> Ledger:
    """The store's. A damaged one is made again, and is nothing to stop for."""
    ledger, trouble = Ledger.load(directory, clock.realtime())
    if trouble is not None:
        log.warning("ledger_rebuilt", reason=trouble)
    return ledger


def _limits(settings: Settings) -> Limits:
    store = settings.store
    return Limits(store.max_bytes, store.keep_free, store.max_age, store.max_segments)


def _rotation_limits(settings: Settings) -> RotationLimits:
    return RotationLimits(settings.segment.max_bytes, settings.segment.max_age)


def _policy(settings: Settings) -> WritePolicy:
    writer = settings.writer
    return WritePolicy(writer.direct == "auto", writer.sync_interval, writer.retry)


def _pace(settings: Settings, watchdog: Nanoseconds | None) -> Pace:
    flush = settings.collect.flush_interval / NANO
    tick = 1.0 if watchdog is None else min(1.0, watchdog / NANO / 4)
    return Pace(flush_interval=flush, tick=tick)


def _time_to_stop(settings: Settings) -> Nanoseconds:
    """The time to drain, and some for sealing the segment afterwards."""
    return Nanoseconds(settings.service.stop_timeout + 10 * NANO)
