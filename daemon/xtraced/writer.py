"""The writer: one thread that owns the segment files.

The trio side gives it staging buffers and short orders through a queue and never waits for
the disk; the thread gives buffers back to the pool and tells the loop when somebody waits
for that. All blocking I/O of the service happens here, in the order of the queue.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog
import trio

from tracelib.chunks import ClockAnchor
from tracelib.errors import XtraceError
from tracelib.status import StoreStatus, WriterStatus
from xtraced.segments import Opening, Sealed, SegmentStore
from xtraced.staging import StagingBuffer, StagingPool

T = TypeVar("T")

log = structlog.get_logger("writer")


class Ticket(Generic[T]):
    """An order the writer has not carried out yet; `wait` gives its result."""

    def __init__(self) -> None:
        self._done = trio.Event()
        self._result: T | None = None
        self._error: XtraceError | None = None

    def resolve(self, result: T | None, error: XtraceError | None) -> None:
        """Called in the trio thread."""
        self._result, self._error = result, error
        self._done.set()

    async def wait(self) -> T | None:
        """The order's result. Raises what the order raised."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._result


@dataclass(slots=True)
class _Order:
    """Something to do in the thread, and where its outcome goes."""

    run: Callable[[], object]
    ticket: Ticket[Any] | None


class Writer:
    """The thread, its queue, and the trio side's handle on both."""

    def __init__(
        self,
        store: SegmentStore,
        pool: StagingPool,
        *,
        buffer_wanted: Callable[[], bool],
        buffer_returned: Callable[[], None],
    ) -> None:
        """`buffer_wanted` is asked in the writer's thread; only if it is true is
        `buffer_returned` called in trio's, since waking the loop for every buffer would
        cost more than writing it."""
        self._store = store
        self._pool = pool
        self._buffer_wanted = buffer_wanted
        self._buffer_returned = buffer_returned
        self._queue: queue.SimpleQueue[StagingBuffer | _Order | None] = queue.SimpleQueue()
        self._queued = 0
        self._handed_over = 0
        self._given_back = 0
        self._abandoned = False
        self._trio: trio.lowlevel.TrioToken | None = None
        # A daemon thread: a disk that is frozen for good must not keep the process alive.
        self._thread = threading.Thread(target=self._main, name="writer", daemon=True)

    def start(self) -> None:
        """Begin to write; called in the trio thread."""
        self._trio = trio.lowlevel.current_trio_token()
        self._thread.start()

    # Orders, from the trio side

    def write(self, buffer: StagingBuffer) -> None:
        """Queue a buffer; it goes back to the pool when it is stored or given up."""
        self._handed_over += 1
        self._queue.put(buffer)

    def open(self, opening: Opening) -> Ticket[str]:
        """Open the first segment; gives its path."""
        return self._order(lambda: self._store.open(opening))

    def rotate(self, reason: str, opening: Opening) -> Ticket[Sealed | None]:
        """Seal the open segment and open the next; gives what was sealed."""
        return self._order(lambda: self._store.rotate(reason, opening))

    def flush(self) -> Ticket[None]:
        """Make everything that was queued so far durable."""
        return self._order(self._store.flush)

    def housekeep(self, anchor: ClockAnchor | None) -> None:
        """Sync what is due, delete what is too old, note the clocks if `anchor` is given."""
        self._queue.put(_Order(lambda: self._store.housekeep(anchor), None))

    def close(self, reason: str, anchor: ClockAnchor | None) -> Ticket[Sealed | None]:
        """Seal the open segment; the last order but `finish`."""
        return self._order(lambda: self._store.close(reason, anchor))

    def call(self, run: Callable[[], T]) -> Ticket[T]:
        """Run something of the store's in the writer's thread, in its turn."""
        return self._order(run)

    def finish(self) -> None:
        """Let the thread end after what is queued."""
        self._queue.put(None)

    def abandon(self) -> None:
        """Stop writing as soon as the write in flight returns; the rest is not stored."""
        self._abandoned = True

    @property
    def queued(self) -> int:
        """Buffers handed over and not yet given back, the one being written included."""
        return self._handed_over - self._given_back

    def writer_status(self) -> WriterStatus:
        return self._store.writer_status(self.queued)

    def store_status(self) -> StoreStatus:
        return self._store.store_status()

    # The thread

    def _order(self, run: Callable[[], T]) -> Ticket[T]:
        ticket: Ticket[T] = Ticket()
        self._queue.put(_Order(run, ticket))
        return ticket

    def _main(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, StagingBuffer):
                self._write(item)
            else:
                self._carry_out(item)

    def _write(self, buffer: StagingBuffer) -> None:
        if self._abandoned:
            return
        try:
            self._store.write(buffer)
        finally:
            self._pool.give_back(buffer)
            self._given_back += 1
            if self._buffer_wanted():
                self._tell(self._buffer_returned)

    def _carry_out(self, order: _Order) -> None:
        result: object = None
        error: XtraceError | None = None
        try:
            result = order.run()
        except XtraceError as exc:
            error = exc
            if order.ticket is None:
                log.error("writer_failed", error=str(exc))
        if order.ticket is not None:
            ticket = order.ticket
            self._tell(lambda: ticket.resolve(result, error))

    def _tell(self, tell: Callable[[], None]) -> None:
        assert self._trio is not None
        try:
            self._trio.run_sync_soon(tell)
        except trio.RunFinishedError:
            # The service gave up waiting for us and is gone; nobody is left to tell.
            self._abandoned = True
