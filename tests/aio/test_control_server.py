"""The control server against real sockets: who is answered what."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from tests.support.controlserver import rig
from tracelib.control.connection import CLOSED
from tracelib.control.messages import Bye, Done, Failure, Item, Reply
from tracelib.errors import (
    DamageError,
    LockedError,
    RefusedError,
    SourceError,
    StoreError,
    UsageError,
    WorldError,
)


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
        ("picture", {}, "unknown_command"),
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
