"""Both ends of a control connection in memory, and the pieces that tests cut up."""

from __future__ import annotations

import itertools

import trio

from tracelib.control.connection import CLOSED, NEED_DATA, Connection, Role, Signal
from tracelib.control.messages import Hello, Message, Request

CLIENT = "xtracectl test"
SERVICE = "xtraced test"


def client() -> Connection:
    return Connection(Role.CLIENT, CLIENT)


def service() -> Connection:
    return Connection(Role.SERVICE, SERVICE)


def events(connection: Connection, data: bytes = b"") -> list[Message | Signal]:
    """Everything that comes out after `data`; ends with the Signal that ended it."""
    if data:
        connection.receive_data(data)
    found: list[Message | Signal] = []
    while True:
        found.append(connection.next_event())
        if isinstance(found[-1], Signal):
            return found


def deliver(data: bytes, to: Connection) -> list[Message]:
    """The messages in `data`, which must be whole frames."""
    *messages, last = events(to, data)
    assert last is NEED_DATA
    return [message for message in messages if not isinstance(message, Signal)]


def greeted() -> tuple[Connection, Connection]:
    """A client and a service after both hellos."""
    asking, answering = client(), service()
    deliver(asking.send(asking.hello()), answering)
    deliver(answering.send(answering.hello()), asking)
    return asking, answering


class AsyncClient:
    """A client on trio, which can also break the rules."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.connection = client()
        self._ids = itertools.count()

    async def greet(self) -> AsyncClient:
        await self.stream.send_all(self.connection.send(self.connection.hello()))
        hello = await self.hear()
        assert isinstance(hello, Hello), hello
        return self

    async def hear(self) -> Message | Signal:
        """The next message, or CLOSED; a connection that is reset counts as closed."""
        while (event := self.connection.next_event()) is NEED_DATA:
            try:
                self.connection.receive_data(await self.stream.receive_some())
            except trio.BrokenResourceError:
                return CLOSED
        return event

    async def ask(self, command: str, **args: object) -> int:
        """Send a request; gives its id."""
        number = next(self._ids)
        await self.stream.send_all(self.connection.send(Request(number, command, args)))
        return number

    async def answer(self, command: str, **args: object) -> Message | Signal:
        """Send a request and wait for what comes back."""
        await self.ask(command, **args)
        return await self.hear()
