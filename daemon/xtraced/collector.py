"""The collector: sleeps until a ring wants draining, drains, hands full buffers to the writer.

One trio task runs `run`; everything it does between two waits is synchronous and short, so
commands may call `drain`, `rotate` and `hand_off` from other tasks without a lock.

Why a timer beside the event: Xen raises VIRQ_TBUF only when a record takes a ring from below
half to at or above half, once, and never while the ring is full (xen/common/trace.c). A ring
that is slow, or that was left more than half full, would otherwise wait for ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import trio

from tracelib.losses import Cause
from tracelib.ring import fastpath
from tracelib.ring.layout import CONS_WORD
from tracelib.ring.runstates import RunstateTable
from tracelib.segment.block import BlockHeader, Flag, Kind, padded_bytes, payload_checksum
from tracelib.status import WakeStatus
from tracelib.units import Nanoseconds, Tsc
from xtraced.account import RingAccount
from xtraced.clock import Clock
from xtraced.incidents import Incidents
from xtraced.shortage import Shortage
from xtraced.sources import Source
from xtraced.staging import StagingBuffer, StagingPool

EARLY_SHARE = 4
"""On an event, every ring that holds at least 1/4 of its size is drained, not only those at
half: rings fill alike, and taking the near ones along saves wake-ups. Emptier ones are left:
a block for a handful of records would be mostly padding. They raise events of their own."""


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
        self.incidents = Incidents(clock)
        self.shortage = Shortage(pool, source, self.accounts, clock)
        self.last_turn = clock.monotonic()
        """When the loop last turned: the watchdog's evidence."""
        self._buffer: StagingBuffer | None = None
        self._round = 0
        self._unfinished = False
        """The last round stopped before it had seen every ring."""
        self._next_flush = -math.inf
        self._stopping = False
        self._waiting: trio.CancelScope | None = None
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
                if self.shortage.waiting:
                    await self.shortage.wait()
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
                # Emptied by us, or by somebody else?
                self.incidents.check_consumer(account, account.ring.words[CONS_WORD])
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
                self.shortage.begin()
                return False
        self._unfinished = False
        return True

    def _drain_ring(self, account: RingAccount, why: str, flags: Flag, now: Nanoseconds) -> bool:
        """Take everything that waits in one ring. False if the buffers ran out."""
        while True:
            buffer = self._staging()
            if buffer is None:
                return False
            drain = self._take_into(buffer, account)
            if drain.status == fastpath.EMPTY:
                return True
            if drain.status == fastpath.BAD_INDEXES:
                self.incidents.impossible_indexes(account, drain)
                # Its vCPUs' moves are not seen any more.
                self.runstates.forget()
                return True
            if drain.status == fastpath.DRAINED:
                self.incidents.check_consumer(account, drain.cons)
                self._stage(buffer, account, drain, why, flags, now)
                # Only now: from here on, this memory alone has the records.
                fastpath.publish(account.ring.words, drain.new_cons)
                if drain.new_cons == drain.prod:
                    return True
            # The buffer is full before the ring is empty.
            self.hand_off()

    def _take_into(self, buffer: StagingBuffer, account: RingAccount) -> fastpath.Drain:
        """What waits in a ring; its consumer index stays where it is."""
        ring = account.ring
        return fastpath.take(
            ring.words, ring.data_bytes, buffer.words, buffer.payload_at // 4,
            buffer.room // 4, ring.cpu, self.runstates,
        )

    def _stage(
        self, buffer: StagingBuffer, account: RingAccount, drain: fastpath.Drain,
        why: str, flags: Flag, now: Nanoseconds,
    ) -> None:
        if account.add_drain(drain, why, now) is Cause.QUEUE_FULL:
            flags |= Flag.QUEUE_FULL
        if drain.corrupt_bytes:
            self.incidents.broken_chain(account, drain)
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
                self.shortage.end()
        return self._buffer

    def hand_off(self) -> None:
        """Give what is staged to the writer."""
        if self._buffer is None and self.incidents:
            self._buffer = self._pool.take()
        buffer = self._buffer
        if buffer is None or not (buffer.used or self.incidents):
            return
        buffer.losses.extend(self.incidents.take())
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
        for account in self.accounts:
            records = size = 0
            while True:
                drain = self._take_into(buffer, account)
                if drain.status == fastpath.DRAINED:
                    fastpath.publish(account.ring.words, drain.new_cons)
                records += drain.records - drain.lost_marks + drain.lost
                size += drain.payload_bytes
                if drain.status != fastpath.DRAINED or drain.new_cons == drain.prod:
                    break
            account.cons = drain.new_cons
            if size:
                self.incidents.discarded(account, records, size)
        self._pool.give_back(buffer)

    def _look_for_missed_events(self) -> None:
        """A ring at half or more that no event announced: is the notifier dead?"""
        for account in self.accounts:
            waiting = account.waiting()
            if waiting is not None and 2 * waiting >= account.ring.data_bytes:
                self._missed += 1
                return

    # Status

    def wake_status(self) -> WakeStatus:
        wakes = self._wakes
        return WakeStatus(wakes["event"], wakes["timer"], wakes["command"], self._missed)
