"""One client of the control server: the protocol of tracelib.control on a stream.

Whatever the client does ends in one of three ways: it leaves, it breaks a rule and is told
so, or it is too slow to be told anything. None of them is an exception for the server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog
import trio

from tracelib.control.connection import CLOSED, NEED_DATA, Connection, Role
from tracelib.control.messages import Bye, Failure, Item, Message, Reply, Request
from tracelib.errors import (
    DataError,
    LockedError,
    ProtocolError,
    RefusedError,
    SourceError,
    StoreError,
    UsageError,
    XtraceError,
)
from tracelib.version import VERSION
from xtraced.controlsocket import Peer

_CHUNK = 65536
_log = structlog.get_logger()

# What a program reads of an error: the first class that fits.
_CODES: tuple[tuple[type[XtraceError], str], ...] = (
    (UsageError, "usage"),
    (DataError, "data"),
    (StoreError, "store"),
    (SourceError, "source"),
    (LockedError, "locked"),
)

_STOPPING = Bye("stopping", "the service stops")
_SILENT = Bye("idle", "nothing asked for too long")

_EXPECTED = frozenset({"idle", "stopping"})
"""Goodbyes that nobody has to hear of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """In seconds."""

    hello: float = 5
    idle: float = 60
    """How long a client may be silent while nothing it asked for is under way; also how
    long one request may take to arrive."""
    send: float = 10
    """How long a client may take to read one answer."""
    goodbye: float = 0.5


def failure(request: Request, exc: XtraceError) -> Failure:
    """An error as the answer to a request."""
    code = exc.code if isinstance(exc, RefusedError) else _code(exc)
    return Failure(request.id, code, exc.message, exc.hint)


def _code(exc: XtraceError) -> str:
    return next((code for kind, code in _CODES if isinstance(exc, kind)), "failed")


class Client:
    """A connection and who is at its other end. `start` gets each request; what it raises
    is the answer."""

    def __init__(
        self, stream: trio.SocketStream, peer: Peer, timeouts: Timeouts,
        start: Callable[[Client, Request], None],
    ) -> None:
        self.peer = peer
        self.questions: trio.Nursery
        """For tasks that make no sense without the client."""
        self._stream = stream
        self._timeouts = timeouts
        self._start = start
        self._connection = Connection(Role.SERVICE, f"xtraced {VERSION}")
        self._saying = trio.Lock()
        self._unusable = False

    async def run(self) -> None:
        """Serve it until it leaves or has to."""
        farewell: Bye | None = _STOPPING
        try:
            farewell = await self._converse()
        finally:
            await self.leave(farewell)

    async def leave(self, farewell: Bye | None) -> None:
        """Say why, if there is a reason and it can be said at once, and close."""
        with trio.CancelScope(shield=True) as moment:
            moment.deadline = trio.current_time() + self._timeouts.goodbye
            if farewell is not None:
                self._note(farewell)
                await self.say(farewell)
        await trio.aclose_forcefully(self._stream)

    async def say(self, message: Message) -> bool:
        """Send a message; False if it could not be. A client that takes too long to read it
        is thrown out; an answer too large for a frame becomes an error."""
        async with self._saying:
            if self._unusable or not self._connection.may_say(message):
                return False
            try:
                data, whole = self._connection.send(message), True
            except UsageError as exc:
                assert isinstance(message, Reply | Item), "only answers can be too large"
                error = Failure(message.id, "too_large", exc.message)
                data, whole = self._connection.send(error), False
            await self._send(data)
            return whole and not self._unusable

    async def _send(self, data: bytes) -> None:
        # Until all of it is out: half a frame can neither be taken back nor completed.
        self._unusable = True
        with trio.move_on_after(self._timeouts.send) as patience:
            try:
                await self._stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
            self._unusable = False
        if patience.cancelled_caught:
            self._note(Bye("slow", "did not read what it asked for"))
            await trio.aclose_forcefully(self._stream)

    async def _converse(self) -> Bye | None:
        """Everything from hello to the end; gives what is left to say, if anything."""
        hello: Message | None = _SILENT
        with trio.move_on_after(self._timeouts.hello):
            hello = await self._hear()
        if hello is None or isinstance(hello, Bye):
            return hello
        await self.say(self._connection.hello())
        async with trio.open_nursery() as self.questions:
            farewell = await self._take_requests()
            self.questions.cancel_scope.cancel()
        return farewell

    async def _take_requests(self) -> Bye | None:
        while True:
            message: Message | None = _SILENT
            with trio.move_on_after(self._timeouts.idle):
                message = await self._hear()
            if message is _SILENT and self._connection.open_requests:
                continue
            if not isinstance(message, Request):
                assert message is None or isinstance(message, Bye), "the table lets nothing by"
                return message
            try:
                self._start(self, message)
            except XtraceError as exc:
                await self.say(failure(message, exc))

    async def _hear(self) -> Message | None:
        """What the client says next; None if it has left; if it broke the protocol, the
        goodbye that it gets."""
        while True:
            try:
                event = self._connection.next_event()
            except ProtocolError as exc:
                return Bye("protocol", exc.message, exc.hint)
            if event is CLOSED:
                return None
            if event is not NEED_DATA:
                assert not isinstance(event, type(NEED_DATA))
                return event
            try:
                self._connection.receive_data(await self._stream.receive_some(_CHUNK))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return None

    def _note(self, farewell: Bye) -> None:
        if farewell.code not in _EXPECTED:
            _log.warning(
                "control_client_dropped", why=farewell.code, message=farewell.message,
                uid=self.peer.uid, pid=self.peer.pid,
            )
