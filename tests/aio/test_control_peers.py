"""Whose control socket it is: file modes and the peer's credentials (R62)."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import structlog
import trio

from tests.support.control import client
from tests.support.controlserver import rig
from tracelib.control.connection import NEED_DATA
from tracelib.control.messages import Hello, Item, Request
from xtraced.control import Limits, Peer, Places, Policy
from xtraced.controlplaces import Occupancy


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


@asynccontextmanager
async def silent_crowd(uid: int, number: int, path: Path) -> AsyncIterator[None]:
    """So many connections of another user who never says anything, and never leaves."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(uid)
            os.setuid(uid)
            crowd = [socket.socket(socket.AF_UNIX) for _ in range(number)]
            for one in crowd:
                one.connect(os.fspath(path))
            os.write(write, b"!")
            signal.pause()
        finally:
            os._exit(0)
    os.close(write)
    try:
        await trio.lowlevel.wait_readable(read)
        assert os.read(read, 1) == b"!"
        yield
    finally:
        os.close(read)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
async def test_a_silent_crowd_keeps_nobody_else_out(open_directory, logs):
    """R62: places are kept for those who may command, and for other strangers."""
    path = open_directory / "control.sock"
    policy = Policy(uid=990, group=GROUP, status_for_all=True)
    async with rig(path, policy, for_all=True) as r, silent_crowd(1001, 200, path):
        assert await as_user(1001, [1001], path, "status") == "too_many_connections"
        assert await as_user(1002, [1002], path, "status") == "Reply"
        assert await as_user(1002, [GROUP], path, "rotate") == "Reply"
        await r.is_well()
    turned_away = [e for e in logs if e["event"] == "control_client_dropped"]
    assert [(e["why"], e["uid"]) for e in turned_away] == [("too_many_connections", 1001)] * 193


STRANGERS = [Peer(1, uid, frozenset([uid])) for uid in range(1001, 1101)]
POLICY = Policy(uid=990, group=991, status_for_all=True)


def test_places_of_strangers():
    """R62: one stranger, all strangers, and everybody, each up to their own number."""
    places = Occupancy(Places(10, strangers=6, one_stranger=2), POLICY.is_stranger)
    assert [places.enter(STRANGERS[0]) for _ in range(4)] == [True, True, False, False]
    assert [places.enter(one) for one in STRANGERS[1:6]] == [True] * 4 + [False]
    assert [places.enter(MEMBER) for _ in range(5)] == [True] * 4 + [False]
    places.leave(MEMBER)
    assert not places.enter(STRANGERS[9])
    places.leave(STRANGERS[0])
    assert places.enter(STRANGERS[9])
    assert [places.enter(ROOT), places.enter(SERVICE)] == [True, False]


def test_places_are_all_free_again():
    places = Occupancy(Places(10, strangers=6, one_stranger=2), POLICY.is_stranger)
    for one in [*STRANGERS, ROOT, MEMBER] * 3:
        assert places.enter(one)
        places.leave(one)
    assert [places.enter(ROOT) for _ in range(11)] == [True] * 10 + [False]


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
async def test_streams_of_strangers_leave_some_for_those_who_may_command(open_directory):
    path = open_directory / "control.sock"
    policy = Policy(uid=990, group=None, status_for_all=True)
    limits = Limits(streams=Places(4, strangers=0, one_stranger=0))
    async with rig(path, policy, limits, for_all=True) as r:
        assert await as_user(1001, [1001], path, "subscribe") == "busy"
        assert await (await r.client()).answer("subscribe") == Item(0, {"n": 0})
