"""Losses that no lost record tells: each is counted for its ring, logged, and kept for the
next staging buffer to carry to its segment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import structlog

from tracelib.losses import Cause, Loss
from tracelib.ring import fastpath
from tracelib.ring.fastpath import Drain
from tracelib.ring.layout import CONS_WORD, explain_indexes
from tracelib.store.recover import RingPosition
from tracelib.units import CpuId, Tsc
from xtraced.account import RingAccount
from xtraced.clock import Clock

log = structlog.get_logger("collector")


class Predecessor(NamedTuple):
    """What became of the service before this one."""

    crashed: bool = False
    """It left a segment unsealed."""
    damaged: bool = False
    """Blocks in the staging memory that it left cannot be read."""


UNEVENTFUL = Predecessor()


class Incidents:
    """What happened to the rings, as losses that are still to be told."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._untold: list[Loss] = []

    def __bool__(self) -> bool:
        return bool(self._untold)

    def take(self) -> list[Loss]:
        """The losses still to be told; from now on they are the caller's to tell."""
        untold, self._untold = self._untold, []
        return untold

    def impossible_indexes(self, account: RingAccount, drain: Drain) -> None:
        """R26: the ring is set aside; the others go on."""
        account.trouble = explain_indexes(drain.cons, drain.prod, account.ring.data_bytes)
        self._add(account, Cause.RING_CORRUPT, detail=account.trouble)
        log.error("ring_set_aside", cpu=account.ring.cpu, reason=account.trouble)

    def broken_chain(self, account: RingAccount, drain: Drain) -> None:
        """Bytes were skipped because what lay there were no records."""
        last = Tsc(drain.last_tsc) if drain.last_tsc else None
        self._add(
            account, Cause.RING_CORRUPT, size=drain.corrupt_bytes, first=last,
            detail="the chain of records breaks",
        )
        log.error("ring_corrupt", cpu=account.ring.cpu, bytes=drain.corrupt_bytes)

    def check_consumer(self, account: RingAccount, cons: int) -> None:
        """R29: has somebody else moved the consumer index since the last drain?"""
        if account.cons is not None and cons != account.cons:
            self._add(
                account, Cause.RING_CORRUPT, detail="another consumer moved the consumer index"
            )
            log.error("foreign_consumer", cpu=account.ring.cpu, expected=account.cons, found=cons)
            account.cons = cons

    def check_predecessor(
        self, accounts: Iterable[RingAccount], stored: Mapping[CpuId, RingPosition],
        predecessor: Predecessor,
    ) -> None:
        """Compare where the stored records of each ring end with where its consumer index is:
        what lies between was taken by a service that died before it could store it.

        If that service died with the hypervisor, its rings are gone as well, and whatever
        they held is missing. What is damaged in its staging memory may lie before blocks that
        are stored, and nobody knows of which ring it was: each may miss it.
        """
        for account in accounts:
            position = stored.get(account.ring.cpu)
            cons = account.ring.words[CONS_WORD]
            if predecessor.damaged:
                self._add(account, Cause.CRASH, detail="staging memory was damaged")
            if position is None:
                continue
            if position.ring_id != account.ring.identity:
                if predecessor.crashed:
                    self._add(account, Cause.CRASH, detail="the rings of the run before are gone")
                continue
            if position.ring_end == cons:
                continue
            if position.ring_start == cons:
                # It died between taking the last block, which was stored since, and saying so.
                fastpath.publish(account.ring.words, position.ring_end)
                log.info("taken_over", cpu=account.ring.cpu, stored_until=position.ring_end)
                continue
            self._add(
                account, Cause.CRASH, first=position.last_tsc,
                detail="taken from the ring and never stored",
            )
            log.warning("crash_loss", cpu=account.ring.cpu, stored_until=position.ring_end,
                        taken_until=cons)

    def check_tails(self, accounts: Iterable[RingAccount]) -> None:
        """After tracing was switched off: whose count of losses did Xen just forget? (R14)"""
        for account in accounts:
            if account.may_hide_losses():
                self._add(account, Cause.TAIL_UNKNOWN, detail="full when tracing was switched off")
                log.warning("tail_unknown", cpu=account.ring.cpu,
                            detail="ring full at stop, tail loss unknown")

    def discarded(self, account: RingAccount, records: int, size: int) -> None:
        """R30: thrown away at start, as the settings want it."""
        self._add(
            account, Cause.DISCARDED, records=records, size=size, detail="lay in the ring at start"
        )

    def not_traced(
        self, accounts: Iterable[RingAccount], first: Tsc | None, last: Tsc | None, why: str
    ) -> None:
        """Tracing was off, or said nothing of who runs, on purpose; `first` to `last`. It is in
        the stream, so that no reader takes the silence for something that lasted."""
        now = self._clock.realtime()
        self._untold += [
            Loss(Cause.NOT_TRACED, account.ring.cpu, None, None, first, last, now, why)
            for account in accounts
        ]

    def _add(
        self, account: RingAccount, cause: Cause, *, records: int | None = None,
        size: int | None = None, first: Tsc | None = None, detail: str,
    ) -> None:
        account.add_loss(cause, records)
        self._untold.append(
            Loss(
                cause, account.ring.cpu, records, size, first, at=self._clock.realtime(),
                detail=detail,
            )
        )
