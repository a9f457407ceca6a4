"""When every staging buffer waits for the disk: the wait itself, and what it means.

Two things are kept apart. The collector *waits* while the pool is empty. The disk *is slower
than the rings* from the first such wait until half of the pool is free again: in between,
buffers come back one by one, and the next wait is never far.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog
import trio

from tracelib.units import Nanoseconds
from xtraced.account import RingAccount
from xtraced.clock import Clock
from xtraced.sources import Source
from xtraced.staging import StagingPool

log = structlog.get_logger("collector")


class Shortage:
    """Of staging buffers. `buffer_returned` and `waiting` may be called by the writer's
    thread; everything else by the trio thread."""

    def __init__(
        self, pool: StagingPool, source: Source, accounts: Sequence[RingAccount], clock: Clock
    ) -> None:
        self._pool = pool
        self._source = source
        self._accounts = accounts
        self._clock = clock
        self._buffer_came = trio.Event()
        self._waiting_since: Nanoseconds | None = None
        self._stalled_since: Nanoseconds | None = None
        self._waited = 0

    def begin(self) -> None:
        """There was no buffer to drain into."""
        tsc = self._source.read_tsc()
        for account in self._accounts:
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

    def end(self) -> None:
        """There is a buffer again."""
        if self._waiting_since is not None:
            self._waited += self._clock.monotonic() - self._waiting_since
            self._waiting_since = None
        if self._stalled_since is not None and 2 * (self._pool.free + 1) > self._pool.buffers:
            log.info("collection_resumed", after_ns=self.stalled_for)
            self._stalled_since = None
            tsc = self._source.read_tsc()
            for account in self._accounts:
                account.feed(tsc)

    def buffer_returned(self) -> None:
        """The writer gave a buffer back to the pool."""
        if self._waiting_since is not None:
            self._buffer_came.set()

    @property
    def waiting(self) -> bool:
        """Does the collector wait for a buffer right now?"""
        return self._waiting_since is not None

    async def wait(self) -> None:
        """Wait until the pool has a buffer again, if there is a wait."""
        if self._waiting_since is not None:
            await self._buffer_came.wait()

    @property
    def stalled_for(self) -> Nanoseconds | None:
        """How long the disk has been slower than the rings; None if it is not."""
        if self._stalled_since is None:
            return None
        return Nanoseconds(self._clock.monotonic() - self._stalled_since)

    @property
    def waited(self) -> int:
        """Time that the rings spent waiting for a buffer (ns)."""
        since = self._waiting_since
        return self._waited + (0 if since is None else self._clock.monotonic() - since)
