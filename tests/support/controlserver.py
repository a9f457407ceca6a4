"""A control server in the background of a test, and who answers behind it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from tests.support.control import AsyncClient
from tracelib.control.messages import Reply
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
