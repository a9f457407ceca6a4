"""Both ends of a control connection in memory, and the pieces that tests cut up."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import trio

from tracelib.control.connection import CLOSED, NEED_DATA, Connection, Role, Signal
from tracelib.control.messages import Done, Failure, Hello, Item, Message, Reply, Request
from tracelib.errors import RefusedError
from tracelib.status import (
    CpuStatus,
    Latency,
    LedgerStatus,
    MaskStatus,
    PoolStatus,
    SourceStatus,
    Status,
    StoreStatus,
    WakeStatus,
    WriterStatus,
)

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


Handler = Callable[[str, dict[str, Any]], "dict[str, Any] | list[dict[str, Any]]"]


class FakeService:
    """A service in a thread, for the blocking client: answers requests by a function. A list
    is streamed; RefusedError is an answer; `raw` is said instead of a hello. It goes after
    `stop`, unless it `lingers`."""

    def __init__(
        self, path: Path, handler: Handler, *, raw: bytes | None = None, lingers: bool = False
    ) -> None:
        self._handler = handler
        self._raw = raw
        self._lingers = lingers
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Wakes accept(), which closing does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock:
                self._serve(sock)

    def _serve(self, sock: socket.socket) -> None:
        connection = service()
        if self._raw is not None:
            sock.sendall(self._raw)
            return
        while True:
            event = connection.next_event()
            if event is NEED_DATA:
                connection.receive_data(sock.recv(65536))
            elif event is CLOSED:
                return
            elif isinstance(event, Hello):
                sock.sendall(connection.send(connection.hello()))
            elif isinstance(event, Request):
                messages = self._answers(event)
                sock.sendall(b"".join(map(connection.send, messages)))
                if event.command == "stop" and not self._lingers:
                    return

    def _answers(self, request: Request) -> list[Message]:
        try:
            answer = self._handler(request.command, request.args)
        except RefusedError as exc:
            return [Failure(request.id, exc.code, exc.message, exc.hint)]
        if isinstance(answer, list):
            return [*(Item(request.id, item) for item in answer), Done(request.id)]
        return [Reply(request.id, answer)]


START = 1_796_076_000_000_000_000
"""2026-11-30 22:00:00Z"""
SECOND = 10**9

CPU = CpuStatus(
    cpu=0, ring_bytes=131_064, fill=13_107, high_water=126_000, records=1_234_567,
    bytes=38_000_000, lost={}, lost_unknown=[], last_drain=START + 3599 * SECOND,
    last_wake="event", trouble=None,
)

HEALTHY = Status(
    state="collecting", healthy=True, reasons=[], version="0.1.0", compiled=True, pid=4242,
    started_at=START, uptime=3600 * SECOND, records=2_469_134, bytes=76_000_000, lost={},
    lost_unknown=[],
    source=SourceStatus(
        name="sim", hypervisor="sim 4.17.4", cpu_vendor="GenuineIntel", exit_family="vmx",
        tsc_hz=2_400_000_000, tsc_source="simulated", ring_pages_wanted=32, ring_pages=32,
    ),
    masks=MaskStatus(0x0FFFF000, 0x0FFFF000, "all", "all"),
    cpus=[CPU, replace(CPU, cpu=1, last_wake="timer", last_drain=START + 3595 * SECOND)],
    wakes=WakeStatus(event=1200, timer=720, command=3, missed=0),
    pool=PoolStatus(buffers=8, buffer_bytes=1 << 20, free=7, stalled_since=None, stalled=0),
    writer=WriterStatus(
        direct=True, direct_reason="", queued=1, writes=73, bytes=76_500_000,
        sizes={"1048576": 70, "65536": 3}, latency=Latency(1_200_000, 4_800_000, 12_000_000),
        busy_since=None, last_error=None, last_error_at=None, failing_since=None,
        failed_blocks=0, failed_records=0,
    ),
    store=StoreStatus(
        directory="/var/lib/xtraced", segments=2, bytes=76_500_000, oldest=START,
        open_segment="00000002-20261130T224800Z.xtr.open", open_bytes=9_400_000,
        max_bytes=4 << 30, keep_free=1 << 30, max_age=0, max_segments=0,
        free_bytes=20 << 30, acting=None, deleted_segments=0, deleted_records=0,
        deleted_bytes=0,
    ),
    ledger=LedgerStatus(
        since=START - 86_400 * SECOND, rebuilt=False, records=9_876_543, lost_marks=2,
        lost={"ring_full": 1234}, lost_unknown=["crash"], deleted_segments=3,
        deleted_records=4_000_000, deleted_bytes=192 << 20,
    ),
)  # fmt: skip


def as_map(status: Status) -> dict[str, Any]:
    """A status as it comes over the socket."""
    return asdict(status)
