"""The collector: sleeps until a ring wants draining, drains, hands full buffers to the writer.

One trio task runs `run`; everything it does between two waits is synchronous and short, so
commands may call `drain`, `rotate` and `hand_off` from other tasks without a lock.

Why a timer beside the event: Xen raises VIRQ_TBUF only when a record takes a ring from below
half to at or above half, once, and never while the ring is full (xen/common/trace.c). A ring
that is slow, or that was left more than half full, would otherwise wait for ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog
import trio

from tracelib.losses import Cause, Loss
from tracelib.ring import fastpath
from tracelib.ring.layout import CONS_WORD, explain_indexes
from tracelib.ring.runstates import RunstateTable
from tracelib.segment.block import BlockHeader, Flag, Kind, padded_bytes, payload_checksum
from tracelib.status import WakeStatus
from tracelib.store.recover import RingPosition
from tracelib.units import CpuId, Nanoseconds, Tsc
from xtraced.account import RingAccount
from xtraced.clock import Clock
from xtraced.sources import Source
from xtraced.staging import StagingBuffer, StagingPool

EARLY_SHARE = 4
"""On an event, every ring that holds at least 1/4 of its size is drained, not only those at
half: rings fill alike, and taking the near ones along saves wake-ups. Emptier ones are left:
a block for a handful of records would be mostly padding. They raise events of their own."""

log = structlog.get_logger("collector")


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the collector acts without being woken. Seconds."""

    flush_interval: float
    """Every ring is drained and all staged blocks go to the writer at least this often."""
    tick: float
    """The loop turns at least this often, to show that it lives."""


class Collector:
    """Drains the rings of one source into staging buffers."""

    def __init__(
        self,
        source: Source,
        pool: StagingPool,
        hand_over: Callable[[StagingBuffer], None],
        *,
        clock: Clock,
        pace: Pace,
    ) -> None:
        self._source = source
        self._pool = pool
        self._hand_over = hand_over
        self._clock = clock
        self.pace = pace
        self.accounts = [RingAccount(ring) for ring in source.rings]
        self.runstates = RunstateTable(source.hypervisor.cpus)
        self.last_turn = clock.monotonic()
        """When the loop last turned: the watchdog's evidence."""
        self._buffer: StagingBuffer | None = None
        self._losses: list[Loss] = []
        self._round = 0
        self._unfinished = False
        """The last round stopped before it had seen every ring."""
        self._next_flush = -math.inf
        self._stopping = False
        self._waiting: trio.CancelScope | None = None
        self._buffer_came = trio.Event()
        self._waiting_since: Nanoseconds | None = None
        self._stalled_since: Nanoseconds | None = None
        self._stalled = 0
        self._wakes = {"event": 0, "timer": 0, "command": 0, "start": 0, "stop": 0}
        self._missed = 0

    # The loop

    async def run(self) -> None:
        """Drain until `stop` is called or the source has nothing more to give."""
        while not self._stopping:
            now = trio.current_time()
            self.last_turn = self._clock.monotonic()
            if now >= self._next_flush:
                self._next_flush = now + self.pace.flush_interval
                self.drain("timer")
                self.hand_off()
                if self._source.finished():
                    return
            await self._drain_on_events(min(self._next_flush, now + self.pace.tick))

    async def _drain_on_events(self, deadline: float) -> None:
        """Drain at each event until the deadline, or until `wake` is called.

        One cancel scope for many events: at thousands of events a second, making one for
        each would cost more than the drains.
        """
        with trio.CancelScope(deadline=deadline) as self._waiting:
            while not self._stopping:
                if self._waiting_since is not None:
                    await self._buffer_came.wait()
                else:
                    await trio.lowlevel.wait_readable(self._source.notifier)
                    if not self._source.acknowledge():
                        continue
                self.drain("event")

    def stop(self) -> None:
        """Have `run` return soon. The rings are left as they are."""
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """End the loop's present wait."""
        if self._waiting is not None:
            self._waiting.cancel()

    # Draining

    def drain(self, why: str) -> bool:
        """Drain the rings; those that are nearly empty only if `why` is not "event".

        False if it had to stop for want of a staging buffer. Then the round is not over: the
        next call goes on with it, and takes all rings, since a round counts as full only if
        every ring was drained in it.
        """
        full_round = why != "event" or self._unfinished
        self._round += not self._unfinished
        self._wakes[why] += 1
        if why == "timer":
            self._look_for_missed_events()
        flags = Flag.FULL_ROUND if full_round else Flag(0)
        flags |= {"start": Flag.BEFORE_START, "stop": Flag.AFTER_STOP}.get(why, Flag(0))
        now = self._clock.realtime()
        for account in self.accounts:
            if account.trouble is not None:
                continue
            waiting = account.waiting()
            if waiting == 0:
                account.visit(why, now)
                continue
            if (
                not full_round
                and waiting is not None
                and waiting * EARLY_SHARE < account.ring.data_bytes
            ):
                continue
            if not self._drain_ring(account, why, flags, now):
                self._unfinished = True
                self._stall()
                return False
        self._unfinished = False
        return True

    def _drain_ring(self, account: RingAccount, why: str, flags: Flag, now: Nanoseconds) -> bool:
        """Take everything that waits in one ring. False if the buffers ran out."""
        while True:
            buffer = self._staging()
            if buffer is None:
                return False
            drain = self._drain_into(buffer, account)
            if drain.status == fastpath.EMPTY:
                return True
            if drain.status == fastpath.BAD_INDEXES:
                self._set_aside(account, drain)
                return True
            if drain.status == fastpath.DRAINED:
                self._note_foreign_consumer(account, drain)
                self._stage(buffer, account, drain, why, flags, now)
                if drain.new_cons == drain.prod:
                    return True
            # The buffer is full before the ring is empty.
            self.hand_off()

    def _drain_into(self, buffer: StagingBuffer, account: RingAccount) -> fastpath.Drain:
        ring = account.ring
        return fastpath.drain(
            ring.words, ring.data_bytes, buffer.words, buffer.payload_at // 4,
            buffer.room // 4, ring.cpu, self.runstates,
        )

    def _stage(
        self, buffer: StagingBuffer, account: RingAccount, drain: fastpath.Drain,
        why: str, flags: Flag, now: Nanoseconds,
    ) -> None:
        account.add_drain(drain, why, now)
        if drain.corrupt_bytes:
            self._note_corruption(account, drain, now)
        if not drain.payload_bytes:
            return
        buffer.add(
            BlockHeader(
                Kind.RECORDS, drain.payload_bytes, padded_bytes(drain.payload_bytes), 0,
                flags, account.ring.cpu, drain.records, drain.lost_marks, drain.lost,
                Tsc(drain.lost_first_tsc), Tsc(drain.lost_last_tsc),
                Tsc(drain.first_tsc), Tsc(drain.last_tsc), self._round,
                account.ring.identity, drain.cons, drain.new_cons, now,
                payload_checksum(buffer.payload(drain.payload_bytes)),
            )
        )

    def _staging(self) -> StagingBuffer | None:
        """The buffer being filled, with room for at least a page's worth of payload."""
        if self._buffer is not None and self._buffer.room <= 0:
            self.hand_off()
        if self._buffer is None:
            self._buffer = self._pool.take()
            if self._buffer is not None:
                self._go_on()
        return self._buffer

    def hand_off(self) -> None:
        """Give what is staged to the writer."""
        if self._buffer is None and self._losses:
            self._buffer = self._pool.take()
        buffer = self._buffer
        if buffer is None or not (buffer.used or self._losses):
            return
        buffer.losses.extend(self._losses)
        self._losses.clear()
        self._buffer = None
        self._hand_over(buffer)

    @property
    def staged_bytes(self) -> int:
        """Bytes drained but not yet handed to the writer."""
        return 0 if self._buffer is None else self._buffer.used

    def discard(self) -> None:
        """Empty every ring without keeping what is in it; how much it was is a loss like any
        other, or the ring positions of the blocks before and after would not fit together."""
        buffer = self._pool.take()
        assert buffer is not None, "called before anything is staged"
        now = self._clock.realtime()
        for account in self.accounts:
            records = size = 0
            while True:
                drain = self._drain_into(buffer, account)
                records += drain.records - drain.lost_marks + drain.lost
                size += drain.payload_bytes
                if drain.status != fastpath.DRAINED or drain.new_cons == drain.prod:
                    break
            account.cons = drain.new_cons
            if size:
                account.add_loss(Cause.DISCARDED, records)
                self._losses.append(
                    Loss(Cause.DISCARDED, account.ring.cpu, records, size, at=now,
                         detail="lay in the ring at start")
                )
        self._pool.give_back(buffer)

    def note_predecessor(self, stored: Mapping[CpuId, RingPosition]) -> None:
        """Compare where the stored records of each ring end with where its consumer index is:
        what lies between was taken by a service that died before it could store it."""
        for account in self.accounts:
            cpu, position = account.ring.cpu, stored.get(account.ring.cpu)
            cons = account.ring.words[CONS_WORD]
            if (
                position is None
                or position.ring_id != account.ring.identity
                or position.ring_end == cons
            ):
                continue
            account.add_loss(Cause.CRASH, None)
            self._losses.append(
                Loss(Cause.CRASH, cpu, None, first_tsc=position.last_tsc,
                     at=self._clock.realtime(), detail="taken from the ring and never stored")
            )
            log.warning("crash_loss", cpu=cpu, stored_until=position.ring_end, taken_until=cons)

    # Waiting for buffers

    def buffer_returned(self) -> None:
        """The writer gave a buffer back to the pool."""
        if self._waiting_since is not None:
            self._buffer_came.set()

    def _stall(self) -> None:
        tsc = self._source.read_tsc()
        for account in self.accounts:
            account.starve(tsc)
        if self._waiting_since is None:
            self._waiting_since = self._clock.monotonic()
            self._buffer_came = trio.Event()
        if self._stalled_since is None:
            self._stalled_since = self._waiting_since
            log.warning("collection_stalled", reason="every staging buffer waits for the disk")
        if self._pool.free:
            # One came back before the writer could see that we want it.
            self._buffer_came.set()

    def _go_on(self) -> None:
        """There is a buffer again."""
        if self._waiting_since is not None:
            self._stalled += self._clock.monotonic() - self._waiting_since
            self._waiting_since = None
        # As long as the disk is slower than the rings, buffers come one by one, and the next
        # wait is not far: it has caught up when half of them are free.
        if self._stalled_since is not None and 2 * (self._pool.free + 1) > self._pool.buffers:
            log.info("collection_resumed", after_ns=self.stalled_for)
            self._stalled_since = None
            tsc = self._source.read_tsc()
            for account in self.accounts:
                account.feed(tsc)

    @property
    def wants_buffer(self) -> bool:
        """Asked by the writer's thread."""
        return self._waiting_since is not None

    @property
    def stalled_for(self) -> Nanoseconds | None:
        """How long the disk has been slower than the rings; None if it is not."""
        if self._stalled_since is None:
            return None
        return Nanoseconds(self._clock.monotonic() - self._stalled_since)

    async def wait_buffer(self) -> None:
        """Wait until the pool has a buffer again."""
        if self._waiting_since is not None:
            await self._buffer_came.wait()

    # Things that should not happen

    def _set_aside(self, account: RingAccount, drain: fastpath.Drain) -> None:
        """R26: one ring with impossible indexes must not stop the others."""
        account.trouble = explain_indexes(drain.cons, drain.prod, account.ring.data_bytes)
        account.add_loss(Cause.RING_CORRUPT, None)
        self._losses.append(
            Loss(Cause.RING_CORRUPT, account.ring.cpu, None, at=self._clock.realtime(),
                 detail=account.trouble)
        )
        # Its vCPUs' moves are not seen any more.
        self.runstates.forget()
        log.error("ring_set_aside", cpu=account.ring.cpu, reason=account.trouble)

    def _note_corruption(
        self, account: RingAccount, drain: fastpath.Drain, now: Nanoseconds
    ) -> None:
        account.add_loss(Cause.RING_CORRUPT, None)
        self._losses.append(
            Loss(Cause.RING_CORRUPT, account.ring.cpu, None, drain.corrupt_bytes,
                 Tsc(drain.last_tsc) if drain.last_tsc else None, at=now,
                 detail="the chain of records breaks")
        )
        log.error("ring_corrupt", cpu=account.ring.cpu, bytes=drain.corrupt_bytes)

    def _note_foreign_consumer(self, account: RingAccount, drain: fastpath.Drain) -> None:
        if account.cons is not None and drain.cons != account.cons:
            account.add_loss(Cause.RING_CORRUPT, None)
            self._losses.append(
                Loss(Cause.RING_CORRUPT, account.ring.cpu, None, at=self._clock.realtime(),
                     detail="another consumer moved the consumer index")
            )
            log.error("foreign_consumer", cpu=account.ring.cpu, expected=account.cons,
                      found=drain.cons)

    def _look_for_missed_events(self) -> None:
        """A ring at half or more that no event announced: is the notifier dead?"""
        for account in self.accounts:
            waiting = account.waiting()
            if waiting is not None and 2 * waiting >= account.ring.data_bytes:
                self._missed += 1
                return

    def note_tail(self) -> None:
        """After tracing was switched off: whose count of losses did Xen just forget? (R14)"""
        now = self._clock.realtime()
        for account in self.accounts:
            if account.may_hide_losses():
                account.add_loss(Cause.TAIL_UNKNOWN, None)
                self._losses.append(
                    Loss(Cause.TAIL_UNKNOWN, account.ring.cpu, None, at=now,
                         detail="full when tracing was switched off")
                )
                log.warning("tail_unknown", cpu=account.ring.cpu,
                            detail="ring full at stop, tail loss unknown")

    # Status

    @property
    def stalled_total(self) -> int:
        """Time that the rings spent waiting for a buffer (ns)."""
        since = self._waiting_since
        return self._stalled + (0 if since is None else self._clock.monotonic() - since)

    def wake_status(self) -> WakeStatus:
        wakes = self._wakes
        return WakeStatus(wakes["event"], wakes["timer"], wakes["command"], self._missed)
