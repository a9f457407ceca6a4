"""The control protocol's state machine: bytes in, messages out, and the other way round.

    connection = Connection(Role.CLIENT, "xtracectl 0.1.0")
    sock.sendall(connection.send(connection.hello()))
    connection.receive_data(sock.recv(65536))       # b"" when the peer closed
    while (event := connection.next_event()) is not NEED_DATA: ...

The two sides run the same machine. Every row of the table is something that one of them
says, so sending and receiving go through one function, `_step`, and neither side can say
what the other would refuse. Beside the state there is only the set of open requests.

    START    nobody has said anything
    GREETED  the client has said which versions it speaks
    OPEN     so has the service: requests and answers
    CLOSED   the service said bye, or the peer closed between two frames: no more messages
    BROKEN   the peer broke a rule: nothing more is read, only `bye` may still be said

State advances one message at a time, when `next_event` is called: what a peer has sent
beyond that is bytes in a buffer that the caller bounds by not calling `receive_data`.
"""

from __future__ import annotations

import enum
import struct
from typing import Final, Literal

from tracelib import packing
from tracelib.control.messages import (
    Bye,
    Done,
    Failure,
    Hello,
    Item,
    Message,
    Reply,
    Request,
    from_map,
    to_map,
)
from tracelib.errors import DamageError, ProtocolError, UsageError

LOWEST_VERSION = 1
HIGHEST_VERSION = 1

MAX_FRAME_BYTES = 1 << 20
"""Room for the status of more than 4000 CPUs."""
MAX_HELLO_BYTES = 4096
"""Limit before both hellos: a stranger gets little memory."""
MAX_ITEMS = 16384
MAX_DEPTH = 8
MAX_OPEN_REQUESTS = 16

_LENGTH = struct.Struct("<I")


class Role(enum.Enum):
    CLIENT = "client"
    SERVICE = "service"

    @property
    def peer(self) -> Role:
        return Role.SERVICE if self is Role.CLIENT else Role.CLIENT


class State(enum.Enum):
    START = "start"
    GREETED = "greeted"
    OPEN = "open"
    CLOSED = "closed"
    BROKEN = "broken"


class Signal(enum.Enum):
    """What `next_event` gives besides messages."""

    NEED_DATA = enum.auto()
    """Receive more, then ask again."""
    CLOSED = enum.auto()
    """There will be no more messages."""


NEED_DATA: Final = Signal.NEED_DATA
CLOSED: Final = Signal.CLOSED

_TABLE: dict[tuple[State, Role, type[Message]], State] = {
    (State.START, Role.CLIENT, Hello): State.GREETED,
    (State.GREETED, Role.SERVICE, Hello): State.OPEN,
    (State.OPEN, Role.CLIENT, Request): State.OPEN,
    (State.OPEN, Role.SERVICE, Reply): State.OPEN,
    (State.OPEN, Role.SERVICE, Failure): State.OPEN,
    (State.OPEN, Role.SERVICE, Item): State.OPEN,
    (State.OPEN, Role.SERVICE, Done): State.OPEN,
    # The service may leave at any time, before it has read anything and after nonsense.
    (State.START, Role.SERVICE, Bye): State.CLOSED,
    (State.GREETED, Role.SERVICE, Bye): State.CLOSED,
    (State.OPEN, Role.SERVICE, Bye): State.CLOSED,
    (State.BROKEN, Role.SERVICE, Bye): State.CLOSED,
}

_LAST_ANSWERS = (Reply, Failure, Done)


class Connection:
    """One side of one connection; knows no socket, no clock and no logger."""

    def __init__(
        self, role: Role, software: str, *,
        lowest: int = LOWEST_VERSION, highest: int = HIGHEST_VERSION,
    ) -> None:
        self.role = role
        self.state = State.START
        self.version: int | None = None
        """The protocol version in use, once both have said hello."""
        self.peer: Hello | None = None
        """What the peer said of itself."""
        self._hello = Hello(lowest, highest, software)
        self._open: set[int] = set()
        self._received = bytearray()
        self._ended = False

    @property
    def open_requests(self) -> int:
        """Requests that wait for their (last) answer."""
        return len(self._open)

    def hello(self) -> Hello:
        """What this side has to say first."""
        return self._hello

    def receive_data(self, data: bytes | bytearray | memoryview) -> None:
        """Store what the peer sent; empty means that it closed its end."""
        if data:
            self._received += data
        else:
            self._ended = True

    def next_event(self) -> Message | Signal:
        """The peer's next message, NEED_DATA or CLOSED.

        Raises ProtocolError, from then on always, when the peer breaks a rule.
        """
        if self.state is State.BROKEN:
            raise ProtocolError("the connection is over: its peer broke the protocol")
        if self.state is State.CLOSED:
            return CLOSED
        try:
            body = self._next_frame()
            if isinstance(body, Signal):
                return body
            message = from_map(packing.unpack(body, max_items=MAX_ITEMS, max_depth=MAX_DEPTH))
            self._step(self.role.peer, message)
        except (DamageError, ProtocolError) as exc:
            self.state = State.BROKEN
            if isinstance(exc, ProtocolError):
                raise
            raise ProtocolError(exc.reason) from exc
        if isinstance(message, Hello):
            self._meet(message)
        return message

    def may_say(self, message: Message) -> bool:
        """Whether the state lets this side say such a message now."""
        return (self.state, self.role, type(message)) in _TABLE

    def send(self, message: Message) -> bytes:
        """The frame for a message of ours; the message counts as said.

        Raises UsageError, and nothing is said, if it is too large for a frame. Anything
        that would break the protocol is a mistake of the caller's: ValueError.
        """
        body = packing.pack(to_map(message))
        limit = self._frame_limit()
        if len(body) > limit:
            raise UsageError(f"a message of {len(body)} bytes; the limit is {limit}")
        try:
            self._step(self.role, message)
        except ProtocolError as exc:
            raise ValueError(f"must not be said now: {exc}") from exc
        return _LENGTH.pack(len(body)) + body

    def _frame_limit(self) -> int:
        early = self.state in (State.START, State.GREETED)
        return MAX_HELLO_BYTES if early else MAX_FRAME_BYTES

    def _next_frame(self) -> bytes | Literal[Signal.NEED_DATA, Signal.CLOSED]:
        if len(self._received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received)
            # Checked before the body is awaited: 4 GiB are refused, not collected.
            if length > self._frame_limit():
                raise ProtocolError(f"frame of {length} bytes; the limit is {self._frame_limit()}")
            end = _LENGTH.size + length
            if len(self._received) >= end:
                body = bytes(self._received[_LENGTH.size : end])
                del self._received[:end]
                return body
        if not self._ended:
            return Signal.NEED_DATA
        if self._received:
            raise ProtocolError("closed in the middle of a frame")
        self.state = State.CLOSED
        return Signal.CLOSED

    def _step(self, speaker: Role, message: Message) -> None:
        """Advance by one message, whoever says it. Raises ProtocolError, state unchanged."""
        after = _TABLE.get((self.state, speaker, type(message)))
        if after is None:
            what = type(message).__name__.lower()
            raise ProtocolError(f"{what} from the {speaker.value} in state {self.state.value}")
        if isinstance(message, Request):
            self._open_request(message.id)
        elif isinstance(message, Reply | Failure | Item | Done):
            self._answer(message)
        self.state = after

    def _open_request(self, number: int) -> None:
        if number in self._open:
            raise ProtocolError(f"request {number} is open already")
        if len(self._open) >= MAX_OPEN_REQUESTS:
            raise ProtocolError(f"more than {MAX_OPEN_REQUESTS} requests open")
        self._open.add(number)

    def _answer(self, message: Reply | Failure | Item | Done) -> None:
        if message.id not in self._open:
            raise ProtocolError(f"an answer to request {message.id}, which is not open")
        if isinstance(message, _LAST_ANSWERS):
            self._open.remove(message.id)

    def _meet(self, theirs: Hello) -> None:
        ours = self._hello
        self.peer = theirs
        self.version = min(ours.highest, theirs.highest)
        if self.version < max(ours.lowest, theirs.lowest):
            self.version = None
            self.state = State.BROKEN
            raise ProtocolError(
                f"{theirs.software} speaks protocol {_range(theirs)},"
                f" {ours.software} {_range(ours)}",
                hint="use xtracectl and xtraced of the same release",
            )


def _range(hello: Hello) -> str:
    low, high = hello.lowest, hello.highest
    return f"version {low}" if low == high else f"versions {low} to {high}"
