"""Asking the service: a blocking client of the control protocol.

Three outcomes have to be told apart, since they get three exit codes: nobody listens
(NotRunningError), the service said no (RefusedError), and anything else, in which case
nobody knows how the service is (ServiceError).
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tracelib.control.connection import CLOSED, NEED_DATA, Connection, Role, Signal
from tracelib.control.messages import Bye, Failure, Hello, Item, Message, Reply, Request
from tracelib.errors import (
    NotRunningError,
    ProtocolError,
    RefusedError,
    ServiceError,
    UsageError,
)
from tracelib.version import VERSION

TIMEOUT = 5.0
"""Seconds until a service that does not answer counts as one that nobody can ask."""

COMMAND_TIMEOUT = 60.0
"""Of commands that wait for the disk."""

_CHUNK = 65536
_SAME_RELEASE = "use xtracectl and xtraced of the same release"
_WHO_MAY = "ask as root or as a member of the group xtraced"

_M = TypeVar("_M", Hello, Reply, Item)


class Client:
    """A connection to the service, both hellos said.

    Raises NotRunningError, ServiceError or UsageError (a path no socket can have).
    """

    def __init__(self, path: Path, *, timeout: float = TIMEOUT) -> None:
        self._path = path
        self._connection = Connection(Role.CLIENT, f"xtracectl {VERSION}")
        self._requests = 0
        self._socket = _connect(path, timeout)
        try:
            self._say(self._connection.hello())
            self._expect(Hello, timeout)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    def ask(
        self, command: str, args: dict[str, Any] | None = None, *,
        gives: Sequence[str] = (), timeout: float = TIMEOUT,
    ) -> dict[str, Any]:
        """The answer to one request; it has the keys in `gives`.

        Raises RefusedError if the service says no, ServiceError for anything else.
        """
        self._request(command, args or {})
        result = self._expect(Reply, timeout).result
        missing = [key for key in gives if key not in result]
        if missing:
            raise ServiceError(
                f"the answer to {command} lacks {', '.join(missing)}", hint=_SAME_RELEASE
            )
        return result

    def stream(
        self, command: str, args: dict[str, Any], *, patience: float
    ) -> Iterator[dict[str, Any]]:
        """The items of a command that streams; `patience` is the longest wait for one."""
        self._request(command, args)
        while True:
            yield self._expect(Item, patience).item

    def wait_closed(self, timeout: float) -> bool:
        """Wait until the service closes the connection; False if it has not in time."""
        deadline = time.monotonic() + timeout
        try:
            while self._next(deadline) is not CLOSED:
                pass
        except TimeoutError:
            return False
        return True

    def _request(self, command: str, args: dict[str, Any]) -> None:
        self._requests += 1
        self._say(Request(self._requests, command, args))

    def _say(self, message: Message) -> None:
        data = self._connection.send(message)
        try:
            self._socket.sendall(data)
        except TimeoutError as exc:
            raise _no_answer(self._path) from exc
        except ConnectionError:
            # It may have said why before it closed; that is what is read next.
            return

    def _expect(self, kind: type[_M], timeout: float) -> _M:
        """The next message, which has to be of this kind unless something is wrong."""
        try:
            event = self._next(time.monotonic() + timeout)
        except TimeoutError as exc:
            raise _no_answer(self._path) from exc
        match event:
            case kind():
                return event
            case Failure():
                raise RefusedError(event.message, code=event.code, hint=event.hint)
            case Bye():
                raise ServiceError(f"the service hung up: {event.message}", hint=event.hint)
            case Signal.CLOSED:
                raise ServiceError("the service closed the connection without an answer")
        raise ServiceError(f"the service answered with {type(event).__name__.lower()}")

    def _next(self, deadline: float) -> Message | Signal:
        """The next message or CLOSED. Raises TimeoutError, or ServiceError for nonsense."""
        try:
            while (event := self._connection.next_event()) is NEED_DATA:
                self._connection.receive_data(self._receive(deadline))
        except ProtocolError as exc:
            raise ServiceError(
                f"the answer from {self._path} makes no sense: {exc}",
                hint=exc.hint or _SAME_RELEASE,
            ) from exc
        return event

    def _receive(self, deadline: float) -> bytes:
        # 0 would mean non-blocking.
        self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            return self._socket.recv(_CHUNK)
        except ConnectionError:
            return b""


def _connect(path: Path, timeout: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        sock.connect(os.fspath(path))
    except OSError as exc:
        sock.close()
        raise _not_connected(path, exc) from exc
    return sock


def _not_connected(path: Path, exc: OSError) -> ServiceError | UsageError:
    """What it means that connect(2) failed."""
    if isinstance(exc, PermissionError):
        return ServiceError(f"you may not connect to {path}", errno=exc.errno, hint=_WHO_MAY)
    if exc.errno is None:
        return UsageError(f"{path} is too long for a socket's path")
    # EAGAIN: its queue of connections is full.
    if isinstance(exc, TimeoutError | BlockingIOError):
        return _no_answer(path)
    if isinstance(exc, ConnectionRefusedError) and not path.is_socket():
        return ServiceError(f"{path} is not a socket", errno=exc.errno)
    if isinstance(exc, FileNotFoundError | ConnectionRefusedError):
        return NotRunningError(
            f"the service is not running: nobody listens on {path}", errno=exc.errno,
            hint="systemctl start xtraced; or --socket PATH if it listens elsewhere",
        )
    return ServiceError(f"cannot connect to {path}: {exc.strerror}", errno=exc.errno)


def _no_answer(path: Path) -> ServiceError:
    return ServiceError(
        f"the service at {path} does not answer", errno=errno.ETIMEDOUT,
        hint="its log may say why: journalctl -u xtraced",
    )
