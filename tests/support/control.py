"""Both ends of a control connection in memory, and the pieces that tests cut up."""

from __future__ import annotations

from tracelib.control.connection import NEED_DATA, Connection, Role, Signal
from tracelib.control.messages import Message

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
