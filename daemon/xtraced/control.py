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
from xtraced.controlsocket import ControlSocket, Peer, bind_control_socket, peer_of

__all__ = [
    "Answer", "ControlSocket", "Handler", "Limits", "Peer", "Policy", "bind_control_socket", "serve"
]

Answer = dict[str, Any] | AsyncIterator[dict[str, Any]]

_WHO_MAY = "root, the service's own user and members of the group xtraced may"
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

    def may_ask(self, peer: Peer) -> bool:
        return self.status_for_all or self.may_command(peer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    clients: int = 64
    strangers: int = 32
    """Of these, clients that may only ask: they cannot keep out those who may command."""
    streams: int = 16
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
        self._clients: set[Client] = set()
        self._streams = 0
        self._commands = 0
        self._making_status = trio.Lock()

    async def welcome(self, stream: trio.SocketStream) -> None:
        """Serve one client until it leaves or is thrown out."""
        client = Client(stream, peer_of(stream), self._limits.timeouts, self._start)
        refusal = self._refusal(client.peer)
        if refusal is not None:
            await client.leave(refusal)
            return
        self._clients.add(client)
        try:
            await client.run()
        finally:
            self._clients.remove(client)

    def _refusal(self, peer: Peer) -> Bye | None:
        if not self._policy.may_ask(peer):
            return Bye("not_allowed", "you may not ask this service", _WHO_MAY)
        full = len(self._clients) >= self._limits.clients
        if not self._policy.may_command(peer):
            strangers = sum(not self._policy.may_command(other.peer) for other in self._clients)
            full = full or strangers >= self._limits.strangers
        if full:
            return Bye("too_many_connections", "the service has too many clients already")
        return None

    def _start(self, client: Client, request: Request) -> None:
        """Have a request carried out by a task. Raises XtraceError if it cannot be."""
        name = request.command
        if name not in COMMANDS:
            raise RefusedError(f"unknown command {name!r:.40}", code="unknown_command")
        check_args(name, request.args)
        if COMMANDS[name].streams:
            _check_room(self._streams, self._limits.streams)
            self._streams += 1
            client.questions.start_soon(self._stream, client, request)
        elif not changes(name, request.args):
            client.questions.start_soon(self._question, client, request)
        else:
            self._check_right(client.peer, name)
            _check_room(self._commands, self._limits.commands)
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
            self._streams -= 1


def _check_room(running: int, limit: int) -> None:
    if running >= limit:
        raise RefusedError(f"{running} of its kind are under way already", code="busy")
