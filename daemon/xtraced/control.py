"""The control server: what xtracectl talks to.

    serve
      a task a client       reads its requests (controlclient.py)
        a task a question   cancelled when the client leaves; so are streams
      a task a command      outlives its client: half a rotation is worse than an unread answer

Nothing here may cost the collection anything, and it runs in the same loop. So every number
is bounded (clients, requests, streams, bytes of a frame), every wait for a client has a
time-out, and one status is made at a time, with a turn of the loop between two of them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog
import trio

from tracelib.control.commands import COMMANDS, changes, check_args
from tracelib.control.messages import Bye, Done, Failure, Item, Reply, Request
from tracelib.errors import RefusedError, XtraceError
from xtraced.controlclient import Client, Timeouts, failure
from xtraced.controlplaces import Occupancy, Places
from xtraced.controlsocket import ControlSocket, Peer, bind_control_socket, peer_of

__all__ = [
    "Answer", "ControlSocket", "Handler", "Limits", "Peer", "Places", "Policy",
    "bind_control_socket", "serve",
]  # fmt: skip

Answer = dict[str, Any] | AsyncIterator[dict[str, Any]]

_WHO_MAY = "root, the service's own user and members of the group xtraced may"
_NOT_ALLOWED = Bye("not_allowed", "you may not ask this service", _WHO_MAY)
_FULL = Bye("too_many_connections", "the service has too many clients already")
_log = structlog.get_logger()


class Handler(Protocol):
    """Who carries the commands out."""

    async def command(self, name: str, args: dict[str, Any], peer: Peer, /) -> Answer:
        """Carry out one command of tracelib.control.commands; its arguments are checked and
        its peer is allowed to. Commands that stream give items instead of one answer.

        Raises XtraceError, which becomes the answer.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Who may do what. Root and the service's own user may do everything."""

    uid: int
    """The service's own."""
    group: int | None
    """Its members may do everything too; None if the host has no such group."""
    status_for_all: bool = False
    """Whether anybody may ask for the status."""

    def may_command(self, peer: Peer) -> bool:
        return peer.uid in (0, self.uid) or self.group in peer.groups

    def is_stranger(self, peer: Peer) -> bool:
        return not self.may_command(peer)

    def may_ask(self, peer: Peer) -> bool:
        return self.status_for_all or self.may_command(peer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    clients: Places = field(default=Places(64, strangers=32, one_stranger=8))
    streams: Places = field(default=Places(16, strangers=8, one_stranger=2))
    commands: int = 16
    """Commands under way, those of clients that have left included."""
    timeouts: Timeouts = field(default_factory=Timeouts)


async def serve(
    socket: ControlSocket, handler: Handler, policy: Policy, *, limits: Limits | None = None
) -> None:
    """Answer clients until cancelled; they are told then that the service stops."""
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(socket.listening))
    async with trio.open_nursery() as commands:
        server = _Server(handler, policy, limits or Limits(), commands)
        await trio.serve_listeners(server.welcome, [listener])


class _Server:
    """What all clients share."""

    def __init__(
        self, handler: Handler, policy: Policy, limits: Limits, nursery: trio.Nursery
    ) -> None:
        self._handler = handler
        self._policy = policy
        self._limits = limits
        self._nursery = nursery
        self._clients = Occupancy(limits.clients, policy.is_stranger)
        self._streams = Occupancy(limits.streams, policy.is_stranger)
        self._commands = 0
        self._making_status = trio.Lock()

    async def welcome(self, stream: trio.SocketStream) -> None:
        """Serve one client until it leaves or is thrown out."""
        client = Client(stream, peer_of(stream), self._limits.timeouts, self._start)
        if not self._policy.may_ask(client.peer):
            await client.leave(_NOT_ALLOWED)
        elif not self._clients.enter(client.peer):
            await client.leave(_FULL)
        else:
            try:
                await client.run()
            finally:
                self._clients.leave(client.peer)

    def _start(self, client: Client, request: Request) -> None:
        """Have a request carried out by a task. Raises XtraceError if it cannot be."""
        name = request.command
        if name not in COMMANDS:
            raise RefusedError(f"unknown command {name!r:.40}", code="unknown_command")
        check_args(name, request.args)
        if COMMANDS[name].streams:
            _check_room(free=self._streams.enter(client.peer))
            client.questions.start_soon(self._stream, client, request)
        elif not changes(name, request.args):
            client.questions.start_soon(self._question, client, request)
        else:
            self._check_right(client.peer, name)
            _check_room(free=self._commands < self._limits.commands)
            self._commands += 1
            self._nursery.start_soon(self._command, client, request)

    def _check_right(self, peer: Peer, name: str) -> None:
        allowed = self._policy.may_command(peer)
        log = _log.info if allowed else _log.warning
        log("control_command", command=name, allowed=allowed, uid=peer.uid, pid=peer.pid)
        if not allowed:
            raise RefusedError(f"you may not {name}", code="not_allowed", hint=_WHO_MAY)

    async def _question(self, client: Client, request: Request) -> None:
        async with self._making_status:
            answer = await self._answer(client, request)
        # Said without the lock: a slow client makes nobody else wait.
        await client.say(answer)

    async def _command(self, client: Client, request: Request) -> None:
        try:
            answer = await self._answer(client, request)
        finally:
            self._commands -= 1
        await client.say(answer)

    async def _answer(self, client: Client, request: Request) -> Reply | Failure:
        try:
            result = await self._handler.command(request.command, request.args, client.peer)
        except XtraceError as exc:
            return failure(request, exc)
        assert isinstance(result, dict), "only commands that stream give items"
        return Reply(request.id, result)

    async def _stream(self, client: Client, request: Request) -> None:
        try:
            items = await self._handler.command(request.command, request.args, client.peer)
            assert not isinstance(items, dict), "commands that stream give items"
            try:
                async for item in items:
                    if not await client.say(Item(request.id, item)):
                        return
            finally:
                if isinstance(items, AsyncGenerator):
                    await items.aclose()
            await client.say(Done(request.id))
        except XtraceError as exc:
            await client.say(failure(request, exc))
        finally:
            self._streams.leave(client.peer)


def _check_room(*, free: bool) -> None:
    if not free:
        raise RefusedError("too many of its kind are under way already", code="busy")
