"""Clients of the control server that break rules, dawdle, or come in crowds: none of them
hurts anybody else."""

from __future__ import annotations

import os
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import structlog
import trio

from tests.support.controlserver import rig
from tracelib import packing
from tracelib.control.connection import CLOSED
from tracelib.control.messages import Bye, Failure, Item, Reply
from xtraced.control import Limits, Places


@pytest.fixture
def logs():
    with structlog.testing.capture_logs() as entries:
        yield entries


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
    async with rig(tmp_path, limits=Limits(commands=2, streams=Places(2, 2, 2))) as r:
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
