"""What the collector knows of each ring: counts, losses, and what it left there last."""

from __future__ import annotations

from dataclasses import dataclass, field

from tracelib.losses import Cause
from tracelib.records import MAX_RECORD_BYTES
from tracelib.ring.fastpath import Drain
from tracelib.ring.layout import CONS_WORD, PROD_WORD, waiting_bytes
from tracelib.status import CpuStatus
from tracelib.units import Nanoseconds, Tsc
from xtraced.sources import Ring

NO_TSC = Tsc(0)
LOST_RECORD_BYTES = 4 + 8 + 4 * 4
BRIM = MAX_RECORD_BYTES + LOST_RECORD_BYTES + MAX_RECORD_BYTES
"""A ring with less room than this may have refused a record: Xen wants room for the record,
for the lost record that must go before it, and for a wrap record before both."""


@dataclass(slots=True)
class RingAccount:
    """One ring's books, from the start of this run."""

    ring: Ring
    records: int = 0
    bytes: int = 0
    high_water: int = 0
    lost: dict[Cause, int] = field(default_factory=dict)
    lost_unknown: set[Cause] = field(default_factory=set)
    last_drain: Nanoseconds | None = None
    last_wake: str | None = None
    last_data: Nanoseconds | None = None
    """When a drain last found something."""
    trouble: str | None = None
    """Why this ring is set aside; None while it is drained."""
    cons: int | None = None
    """The consumer index as the last drain left it; any other value is someone else's."""
    prod: int | None = None
    """The producer index as the last drain read it."""
    brimful: bool = False
    """The last drain found (almost) no room: Xen may hold a count of losses it has not told."""
    last_tsc: Tsc = NO_TSC
    starved_since: Tsc | None = None
    starved_until: Tsc | None = None
    """The last time this ring had to wait for a free staging buffer."""

    def waiting(self) -> int | None:
        """Bytes in the ring now; None if its indexes are impossible."""
        words = self.ring.words
        return waiting_bytes(words[CONS_WORD], words[PROD_WORD], self.ring.data_bytes)

    def may_hide_losses(self) -> bool:
        """Could Xen hold a count of dropped records that no lost record has told yet?

        It could if the ring is brimful now, or was when last drained and nothing came since
        (a record that fits brings the count along).
        """
        waiting = self.waiting()
        if waiting is None:
            return False
        return self.ring.data_bytes - waiting < BRIM or (self.brimful and not waiting)

    def add_loss(self, cause: Cause, records: int | None) -> None:
        if records is None:
            self.lost_unknown.add(cause)
        else:
            self.lost[cause] = self.lost.get(cause, 0) + records

    def add_drain(self, drain: Drain, why: str, now: Nanoseconds) -> Cause | None:
        """Enter what one drain took; the cause of the losses that it tells, if any."""
        waiting = (drain.prod - drain.cons) % (2 * self.ring.data_bytes)
        self.high_water = max(self.high_water, waiting)
        full = self.ring.data_bytes - waiting < BRIM
        # The rest of a ring that did not fit into one buffer is nothing new.
        self.brimful = full or (self.brimful and drain.prod == self.prod)
        self.prod = drain.prod
        self.records += drain.records
        self.bytes += drain.payload_bytes
        self.last_data = now
        self.last_tsc = Tsc(drain.last_tsc or self.last_tsc)
        self.cons = drain.new_cons
        self.visit(why, now)
        if not drain.lost:
            return None
        cause = self._cause_of_overflow(drain.lost_first_tsc)
        self.add_loss(cause, drain.lost)
        return cause

    def visit(self, why: str, now: Nanoseconds) -> None:
        """The ring was looked at, and is empty now."""
        self.last_drain = now
        self.last_wake = why

    def _cause_of_overflow(self, first_tsc: int) -> Cause:
        """Xen dropped records: because we had no buffer to drain into, or were just slow?"""
        if self.starved_since is None or first_tsc < self.starved_since:
            return Cause.RING_FULL
        if self.starved_until is not None and first_tsc > self.starved_until:
            return Cause.RING_FULL
        return Cause.QUEUE_FULL

    def starve(self, tsc: Tsc | None) -> None:
        """The ring should have been drained, but there was no buffer."""
        if self.starved_since is None or self._is_settled():
            self.starved_since = tsc or Tsc(0)
        self.starved_until = None

    def _is_settled(self) -> bool:
        """Have records come since the last wait ended? Then so has any count of losses that
        Xen had from it."""
        return self.starved_until is not None and self.last_tsc > self.starved_until

    def feed(self, tsc: Tsc | None) -> None:
        """A buffer came after all."""
        if self.starved_since is not None and self.starved_until is None:
            self.starved_until = tsc or Tsc(0)

    def status(self) -> CpuStatus:
        return CpuStatus(
            cpu=self.ring.cpu,
            ring_bytes=self.ring.data_bytes,
            fill=self.waiting() or 0,
            high_water=self.high_water,
            records=self.records,
            bytes=self.bytes,
            lost={str(cause): count for cause, count in self.lost.items()},
            lost_unknown=sorted(self.lost_unknown),
            last_drain=self.last_drain,
            last_wake=self.last_wake,
            trouble=self.trouble,
        )
