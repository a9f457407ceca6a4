"""Whose control socket it is: file modes and the peer's credentials (R62)."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import structlog
import trio

from tests.support.control import client
from tests.support.controlserver import rig
from tracelib.control.connection import NEED_DATA
from tracelib.control.messages import Hello, Request
from xtraced.control import Limits, Peer, Policy


@pytest.fixture
def logs():
    with structlog.testing.capture_logs() as entries:
        yield entries


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
