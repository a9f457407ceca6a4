"""The control server against real sockets: who is answered what, and what nobody can break."""

from __future__ import annotations

import os
import socket
import struct
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import structlog
import trio

from tests.support.control import AsyncClient, client
from tracelib import packing
from tracelib.control.connection import CLOSED, NEED_DATA
from tracelib.control.messages import Bye, Done, Failure, Hello, Item, Reply, Request
from tracelib.errors import (
    DamageError,
    LockedError,
    RefusedError,
    SourceError,
    StoreError,
    UsageError,
    WorldError,
)
from xtraced.control import ControlSocket, Limits, Peer, Policy, bind_control_socket, serve

ME = Policy(uid=os.geteuid(), group=None)
LIMITS = Limits()


class Fake:
    """A service that answers at once, unless a test puts something in its place."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any], Peer]] = []
        self.methods: dict[str, Callable[[], Awaitable[Any]]] = {}
        self.running = 0
        self.closed = trio.Event()

    async def command(self, name: str, args: dict[str, Any], peer: Peer) -> Any:
        self.calls.append((name, args, peer))
        if name in self.methods:
            return await self.methods[name]()
        if name == "subscribe":
            return self.numbers(args.get("interval", 10**9) / 10**9)
        return {"name": name}

    async def numbers(self, interval: float) -> AsyncIterator[dict[str, Any]]:
        n = 0
        try:
            while True:
                yield {"n": n}
                n += 1
                await trio.sleep(interval)
        finally:
            self.closed.set()


class Rig:
    """A server in the background, its handler, and clients on demand."""

    def __init__(self, bound: ControlSocket) -> None:
        self.path = bound.path
        self.handler = Fake()
        self.clients: list[AsyncClient] = []
        self.serving = trio.CancelScope()
        self.stopped = trio.Event()
        self._socket = bound

    async def serve(self, policy: Policy, limits: Limits) -> None:
        with self.serving:
            await serve(self._socket, self.handler, policy, limits=limits)
        self.stopped.set()

    async def connect(self) -> AsyncClient:
        self.clients.append(AsyncClient(await trio.open_unix_socket(os.fspath(self.path))))
        return self.clients[-1]

    async def client(self) -> AsyncClient:
        return await (await self.connect()).greet()

    async def is_well(self) -> None:
        """Somebody new is answered."""
        client = await self.client()
        assert isinstance(await client.answer("status"), Reply)
        await client.stream.aclose()


@asynccontextmanager
async def rig(
    path: Path, policy: Policy = ME, limits: Limits = LIMITS, *, for_all: bool = False
) -> AsyncIterator[Rig]:
    """In a directory, or at a path that does not exist."""
    path = path / "control.sock" if path.is_dir() else path
    bound = bind_control_socket(path, group=policy.group, for_all=for_all)
    r = Rig(bound)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(r.serve, policy, limits)
            yield r
            r.serving.cancel()
    finally:
        bound.close()
        for one in r.clients:
            await trio.aclose_forcefully(one.stream)


@pytest.fixture
def logs():
    with structlog.testing.capture_logs() as entries:
        yield entries


async def test_a_question_is_answered(tmp_path):
    async with rig(tmp_path) as r:
        client = await r.client()
        assert await client.answer("status") == Reply(0, {"name": "status"})
        assert await client.answer("mask", events=3, cpus="0-3") == Reply(1, {"name": "mask"})
        [(_, no_args, peer), (_, args, _)] = r.handler.calls
        assert (no_args, args) == ({}, {"events": 3, "cpus": "0-3"})
        assert (peer.pid, peer.uid) == (os.getpid(), os.geteuid())


async def test_answers_come_in_any_order(tmp_path):
    async with rig(tmp_path) as r:
        rotated = trio.Event()

        async def rotate() -> dict[str, Any]:
            await rotated.wait()
            return {}

        r.handler.methods["rotate"] = rotate
        client = await r.client()
        await client.ask("rotate")
        assert await client.answer("status") == Reply(1, {"name": "status"})
        rotated.set()
        assert await client.hear() == Reply(0, {})


async def test_a_stream_goes_on_until_its_client_leaves(tmp_path, autojump_clock):
    async with rig(tmp_path) as r:
        client = await r.client()
        assert await client.answer("subscribe", interval=2 * 10**9) == Item(0, {"n": 0})
        start = autojump_clock.current_time()
        assert [await client.hear() for _ in range(3)] == [Item(0, {"n": n}) for n in (1, 2, 3)]
        assert autojump_clock.current_time() - start == 6
        await client.stream.aclose()
        await r.handler.closed.wait()
        await r.is_well()


async def test_a_stream_that_ends(tmp_path):
    async def two() -> AsyncIterator[dict[str, Any]]:
        yield {}
        yield {}

    async with rig(tmp_path) as r:
        async def subscribe() -> Any:
            return two()

        r.handler.methods["subscribe"] = subscribe
        client = await r.client()
        found = [await client.answer("subscribe"), await client.hear(), await client.hear()]
        assert found == [Item(0, {}), Item(0, {}), Done(0)]


async def test_a_stream_that_fails(tmp_path):
    async def failing() -> AsyncIterator[dict[str, Any]]:
        yield {}
        raise StoreError("the disk is gone")

    async with rig(tmp_path) as r:
        async def subscribe() -> Any:
            return failing()

        r.handler.methods["subscribe"] = subscribe
        client = await r.client()
        assert await client.answer("subscribe") == Item(0, {})
        assert await client.hear() == Failure(0, "store", "the disk is gone")


async def test_a_command_outlives_its_client(tmp_path):
    async with rig(tmp_path) as r:
        begun, go, ended = trio.Event(), trio.Event(), trio.Event()

        async def rotate() -> dict[str, Any]:
            begun.set()
            await go.wait()
            ended.set()
            return {}

        r.handler.methods["rotate"] = rotate
        client = await r.client()
        await client.ask("rotate")
        await begun.wait()
        await client.stream.aclose()
        await r.is_well()
        go.set()
        await ended.wait()
        await r.is_well()


@pytest.mark.parametrize(
    ("command", "args", "code"),
    [
        ("snapshot", {}, "unknown_command"),
        ("explode", {}, "unknown_command"),
        ("x" * 100_000, {}, "unknown_command"),
        ("status", {"verbose": 1}, "usage"),
        ("mask", {"events": "all"}, "usage"),
        ("subscribe", {"interval": 1}, "usage"),
    ],
)
async def test_wrong_requests_are_answered_and_the_connection_goes_on(
    tmp_path, command, args, code
):
    async with rig(tmp_path) as r:
        client = await r.client()
        answer = await client.answer(command, **args)
        assert isinstance(answer, Failure)
        assert (answer.id, answer.code) == (0, code)
        assert len(answer.message) < 200
        assert r.handler.calls == []
        assert isinstance(await client.answer("status"), Reply)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("no", hint="do"), "usage"),
        (DamageError("no", hint="do"), "data"),
        (StoreError("no", hint="do"), "store"),
        (SourceError("no", hint="do"), "source"),
        (LockedError("no", hint="do"), "locked"),
        (RefusedError("no", code="paused", hint="do"), "paused"),
        (WorldError("no", hint="do"), "failed"),
    ],
)
async def test_errors_are_answers(tmp_path, error, code):
    async def rotate() -> Any:
        raise error

    async with rig(tmp_path) as r:
        r.handler.methods["rotate"] = rotate
        client = await r.client()
        assert await client.answer("rotate") == Failure(0, code, "no", "do")
        await r.is_well()


async def test_an_answer_too_large_for_a_frame(tmp_path):
    async def large() -> Any:
        return {"text": "x" * (1 << 20)}

    async def stream() -> AsyncIterator[dict[str, Any]]:
        while True:
            yield await large()

    async def subscribe() -> Any:
        return stream()

    async with rig(tmp_path) as r:
        r.handler.methods = {"status": large, "subscribe": subscribe}
        client = await r.client()
        for command in ("status", "subscribe"):
            answer = await client.answer(command)
            assert isinstance(answer, Failure)
            assert answer.code == "too_large"
        del r.handler.methods["status"]
        await r.is_well()


RUBBISH = [
    pytest.param(b"GET / HTTP/1.0\r\n\r\n", "limit is 4096", id="another protocol"),
    pytest.param(struct.pack("<I", 0xFFFFFFFF), "4294967295", id="4 GiB"),
    pytest.param(struct.pack("<I", 5) + b"\xff" * 5, "not a packed value", id="rubbish"),
    pytest.param(struct.pack("<I", 0), "not a packed value", id="empty"),
    pytest.param(struct.pack("<I", 1) + b"\x80", "no known kind", id="empty map"),
]


@pytest.mark.parametrize(("data", "reason"), RUBBISH)
async def test_rubbish_ends_the_connection_and_nothing_else(tmp_path, logs, data, reason):
    async with rig(tmp_path) as r:
        other = await r.client()
        client = await r.connect()
        await client.stream.send_all(data)
        client.connection.send(client.connection.hello())
        bye = await client.hear()
        assert isinstance(bye, Bye)
        assert bye.code == "protocol"
        assert reason in bye.message
        assert await client.hear() is CLOSED
        assert isinstance(await other.answer("status"), Reply)
    [entry] = [entry for entry in logs if entry["event"] == "control_client_dropped"]
    assert (entry["why"], entry["log_level"], entry["pid"]) == ("protocol", "warning", os.getpid())


@pytest.mark.parametrize(("data", "reason"), RUBBISH[1:])
async def test_rubbish_after_the_hello(tmp_path, data, reason):
    async with rig(tmp_path) as r:
        client = await r.client()
        await client.stream.send_all(data)
        bye = await client.hear()
        assert isinstance(bye, Bye)
        assert reason in bye.message
        await r.is_well()


@pytest.mark.parametrize("seed", range(20))
async def test_any_bytes_at_any_time(tmp_path, seed):
    """Some bytes, or a good beginning with some bytes in it; the next client is answered."""
    random = Random(seed)
    async with rig(tmp_path) as r:
        for _ in range(20):
            client = await (r.client() if random.random() < 0.5 else r.connect())
            good = packing.pack({"id": 1, "command": "status", "args": {}})
            data = bytearray(struct.pack("<I", len(good)) + good)
            for _ in range(random.randrange(4)):
                data[random.randrange(len(data))] = random.randrange(256)
            await client.stream.send_all(data[: random.randrange(1, len(data) + 1)])
            await client.stream.aclose()
        await r.is_well()


def usage() -> tuple[int, int]:
    """Open descriptors and living tasks."""
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return descriptors, trio.lowlevel.current_statistics().tasks_living


async def test_thousands_of_clients_leave_nothing_behind(tmp_path):
    """R71: descriptors and tasks are flat."""
    async with rig(tmp_path) as r:
        await r.is_well()
        await trio.testing.wait_all_tasks_blocked()
        before = usage()
        for _ in range(1000):
            await r.is_well()
            r.clients.clear()
        await trio.testing.wait_all_tasks_blocked()
        after = usage()
        assert after == before


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x10\0\0\0\x81"])
async def test_a_client_that_leaves_in_the_middle(tmp_path, data):
    async with rig(tmp_path) as r:
        client = await r.connect()
        if data:
            await client.stream.send_all(data)
        await client.stream.aclose()
        await r.is_well()


async def test_a_client_that_never_says_hello(tmp_path, autojump_clock):
    """Not even one that dribbles: the hello as a whole has a time-out."""
    async with rig(tmp_path) as r:
        start = autojump_clock.current_time()
        client = await r.connect()
        for byte in (b"\x20", b"\0", b"\0", b"\0"):
            await trio.sleep(1)
            await client.stream.send_all(byte)
        client.connection.send(client.connection.hello())
        assert await client.hear() == Bye("idle", "nothing asked for too long")
        assert autojump_clock.current_time() - start == 5


async def test_an_idle_client_goes_and_one_that_waits_stays(tmp_path, autojump_clock):
    async with rig(tmp_path) as r:
        async def rotate() -> Any:
            await trio.sleep(1000)
            return {}

        r.handler.methods["rotate"] = rotate
        idle, waiting = await r.client(), await r.client()
        await waiting.ask("rotate")
        start = autojump_clock.current_time()
        assert isinstance(await idle.hear(), Bye)
        assert autojump_clock.current_time() - start == 60
        assert await waiting.hear() == Reply(0, {})
        assert autojump_clock.current_time() - start == 1000


async def test_idle_connections_over_the_limit(tmp_path, autojump_clock, logs):
    async with rig(tmp_path) as r:
        clients = [await r.client() for _ in range(64)]
        late = await r.connect()
        late.connection.send(late.connection.hello())
        assert await late.hear() == Bye(
            "too_many_connections", "the service has too many clients already"
        )
        assert await late.hear() is CLOSED
        assert isinstance(await clients[63].answer("status"), Reply)
        await clients[0].stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        await r.is_well()
        autojump_clock.jump(61)
        await trio.testing.wait_all_tasks_blocked()
        several = [await r.client() for _ in range(64)]
        assert isinstance(await several[63].answer("status"), Reply)
    assert [e["why"] for e in logs if e["event"] == "control_client_dropped"] == [
        "too_many_connections"
    ]


async def test_a_client_that_never_reads_is_dropped(tmp_path, autojump_clock, logs):
    """It delays nobody meanwhile, and its stream is closed."""
    async with rig(tmp_path) as r:
        async def subscribe() -> Any:
            return big()

        async def big() -> AsyncIterator[dict[str, Any]]:
            try:
                while True:
                    yield {"text": "x" * 100_000}
                    await trio.sleep(1)
            finally:
                r.handler.closed.set()

        r.handler.methods["subscribe"] = subscribe
        client = await r.client()
        await client.ask("subscribe")
        for _ in range(10):
            await r.is_well()
            await trio.sleep(1)
        await r.handler.closed.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert 10 <= autojump_clock.current_time() <= 20
    assert [e["why"] for e in logs if e["event"] == "control_client_dropped"] == ["slow"]


async def test_one_slow_reader_does_not_hold_up_the_others(tmp_path):
    async def large() -> Any:
        return {"text": "x" * 1_000_000}

    async with rig(tmp_path) as r:
        r.handler.methods["status"] = large
        slow = await r.client()
        await slow.ask("status")
        await trio.testing.wait_all_tasks_blocked()
        await r.is_well()


async def test_more_requests_than_may_be_open_end_the_connection(tmp_path):
    async with rig(tmp_path) as r:
        r.handler.methods["rotate"] = trio.sleep_forever
        client = await r.client()
        for _ in range(16):
            await client.ask("rotate")
        client.connection._open.clear()
        await client.ask("rotate")
        bye = await client.hear()
        assert isinstance(bye, Bye)
        assert bye.message == "more than 16 requests open"
        await r.is_well()


async def test_commands_and_streams_are_limited_over_all_clients(tmp_path):
    async with rig(tmp_path, limits=Limits(commands=2, streams=2)) as r:
        done = trio.Event()

        async def rotate() -> Any:
            await done.wait()
            return {}

        r.handler.methods["rotate"] = rotate
        clients = [await r.client() for _ in range(3)]
        for client in clients:
            await client.ask("rotate")
        refused = await clients[2].hear()
        assert isinstance(refused, Failure)
        assert refused.code == "busy"
        done.set()
        assert await clients[0].hear() == Reply(0, {})
        assert await clients[2].answer("rotate") == Reply(1, {})
        assert await clients[0].answer("subscribe") == Item(1, {"n": 0})
        assert await clients[1].hear() == Reply(0, {})
        assert await clients[1].answer("subscribe") == Item(1, {"n": 0})
        refused = await clients[2].answer("subscribe")
        assert isinstance(refused, Failure)
        assert refused.code == "busy"
        assert isinstance(await clients[2].answer("status"), Reply)
        await clients[0].stream.aclose()
        await r.handler.closed.wait()
        assert await clients[2].answer("subscribe") == Item(4, {"n": 0})


async def test_clients_are_told_that_the_service_stops(tmp_path):
    async with rig(tmp_path) as r:
        client = await r.client()
        subscribed = await r.client()
        await subscribed.answer("subscribe")
        r.serving.cancel()
        assert await client.hear() == Bye("stopping", "the service stops")
        assert await client.hear() is CLOSED
        assert await subscribed.hear() == Bye("stopping", "the service stops")
    assert not r.path.exists()


async def test_a_stop_does_not_wait_for_clients_that_do_not_read(tmp_path, autojump_clock):
    async def large() -> Any:
        return {"text": "x" * 1_000_000}

    async with rig(tmp_path) as r:
        r.handler.methods["status"] = large
        client = await r.client()
        for _ in range(4):
            await client.ask("status")
        await trio.testing.wait_all_tasks_blocked()
        start = autojump_clock.current_time()
        r.serving.cancel()
        await r.stopped.wait()
        assert autojump_clock.current_time() - start == 0


ROOT, SERVICE, MEMBER, OTHER = (
    Peer(1, 0, frozenset([0])), Peer(1, 990, frozenset([990])),
    Peer(1, 1000, frozenset([1000, 27, 991])), Peer(1, 1001, frozenset([1001, 27])),
)


@pytest.mark.parametrize(
    ("group", "for_all", "command", "ask"),
    [
        (991, False, {ROOT, SERVICE, MEMBER}, {ROOT, SERVICE, MEMBER}),
        (991, True, {ROOT, SERVICE, MEMBER}, {ROOT, SERVICE, MEMBER, OTHER}),
        (None, False, {ROOT, SERVICE}, {ROOT, SERVICE}),
        (None, True, {ROOT, SERVICE}, {ROOT, SERVICE, MEMBER, OTHER}),
    ],
)
def test_who_may_do_what(group, for_all, command, ask):
    """R62: peer credentials decide."""
    policy = Policy(uid=990, group=group, status_for_all=for_all)
    everybody = {ROOT, SERVICE, MEMBER, OTHER}
    assert {peer for peer in everybody if policy.may_command(peer)} == command
    assert {peer for peer in everybody if policy.may_ask(peer)} == ask


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Where other users can get to; tmp_path is in a private directory."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def as_user(uid: int, groups: list[int], path: Path, command: str) -> str:
    """What another user's process is told: the code of a bye or failure, or the kind of
    message, or the kernel's word. A fork, since others may not even read our interpreter."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups(groups[1:])
            os.setgid(groups[0])
            os.setuid(uid)
            os.write(write, ask_blocking(path, command).encode())
        finally:
            os._exit(0)
    os.close(write)
    await trio.lowlevel.wait_readable(read)
    told = os.read(read, 4096).decode()
    os.close(read)
    os.waitpid(child, 0)
    return told


def ask_blocking(path: Path, command: str) -> str:
    connection = client()
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.connect(os.fspath(path))
        except PermissionError:
            return "EACCES"
        # Who is refused may be told so before he has said anything.
        with suppress(BrokenPipeError):
            sock.sendall(connection.send(connection.hello()))
        while True:
            event = connection.next_event()
            if event is NEED_DATA:
                connection.receive_data(sock.recv(4096))
            elif isinstance(event, Hello):
                sock.sendall(connection.send(Request(1, command, {})))
            else:
                return getattr(event, "code", type(event).__name__)


GROUP = 4242


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
@pytest.mark.parametrize(
    ("for_all", "uid", "groups", "status", "rotate"),
    [
        (False, 1001, [1001], "EACCES", "EACCES"),
        (False, 1001, [1001, 7, GROUP], "Reply", "Reply"),
        (False, 1001, [GROUP], "Reply", "Reply"),
        (False, 990, [990, GROUP], "Reply", "Reply"),
        (True, 1001, [1001, 7], "Reply", "not_allowed"),
        (True, 1001, [1001, 7, GROUP], "Reply", "Reply"),
    ],
)
async def test_other_users(open_directory, for_all, uid, groups, status, rotate):
    """R62: a stranger, and a member of the group, by the kernel's modes and by credentials."""
    path = open_directory / "run" / "control.sock"
    policy = Policy(uid=990, group=GROUP, status_for_all=for_all)
    async with rig(path, policy, for_all=for_all):
        assert await as_user(uid, groups, path, "status") == status
        assert await as_user(uid, groups, path, "rotate") == rotate


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
async def test_credentials_decide_where_modes_let_everybody_in(open_directory, logs):
    """R62: a socket made world-writable by hand lets nobody command."""
    path = open_directory / "control.sock"
    async with rig(path, Policy(uid=990, group=GROUP)):
        path.chmod(0o666)
        assert await as_user(1001, [1001], path, "status") == "not_allowed"
        assert await as_user(1001, [1001], path, "stop") == "not_allowed"
    assert [(e["why"], e["uid"]) for e in logs] == [("not_allowed", 1001)] * 2


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
async def test_strangers_cannot_keep_out_those_who_may_command(open_directory):
    path = open_directory / "control.sock"
    policy = Policy(uid=990, group=None, status_for_all=True)
    async with rig(path, policy, Limits(strangers=0), for_all=True) as r:
        assert await as_user(1001, [1001], path, "status") == "too_many_connections"
        await r.is_well()
