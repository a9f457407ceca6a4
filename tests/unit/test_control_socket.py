"""The control socket as a file: its mode from the first instant, and what it never removes."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tracelib.errors import LockedError, UsageError, WorldError
from xtraced.controlsocket import bind_control_socket, peer_of

POLLER = """
import os, select, sys
modes, path = set(), sys.argv[1]
print("ready", flush=True)
polls = 0
while polls < 10_000 or not select.select([sys.stdin], [], [], 0)[0]:
    polls += 1
    try:
        modes.add(oct(os.stat(path).st_mode & 0o7777))
    except FileNotFoundError:
        modes.add("missing")
print(*sorted(modes))
"""


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def connect(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.fspath(path))
    return sock


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_modes_do_not_depend_on_the_umask(tmp_path, mask):
    """R62: and the umask of data files is unaffected."""
    path = tmp_path / "run" / "control.sock"
    with umask(mask):
        bound = bind_control_socket(path)
        assert os.umask(mask) == mask
    assert mode(path.parent) == 0o750
    assert mode(path) == 0o660
    assert names(path.parent) == ["control.sock"]
    bound.close()
    assert names(path.parent) == []


def test_modes_when_everybody_may_ask(tmp_path):
    path = tmp_path / "run" / "control.sock"
    with umask(0o077):
        bound = bind_control_socket(path, for_all=True)
    assert mode(path.parent) == 0o755
    assert mode(path) == 0o666
    bound.close()


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_the_mode_is_right_from_the_first_instant(tmp_path, mask):
    """R62: another process polls the mode while the socket comes and goes."""
    path = tmp_path / "control.sock"
    poller = subprocess.Popen(
        [sys.executable, "-c", POLLER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )
    assert poller.stdout is not None
    assert poller.stdout.readline() == "ready\n"
    with umask(mask):
        for _ in range(500):
            bind_control_socket(path).close()
        bound = bind_control_socket(path)
    seen, _ = poller.communicate("\n")
    bound.close()
    assert set(seen.split()) - {"missing"} == {"0o660"}


def test_the_group_is_given(tmp_path):
    path = tmp_path / "run" / "control.sock"
    group = 4242 if os.geteuid() == 0 else os.getgid()
    bound = bind_control_socket(path, group=group)
    assert (path.stat().st_gid, path.parent.stat().st_gid) == (group, group)
    bound.close()


def test_it_listens_when_it_appears(tmp_path, monkeypatch):
    """A client that sees the file can connect to it."""
    path = tmp_path / "control.sock"
    link = os.link

    def linked(*args, **kwargs):
        link(*args, **kwargs)
        connect(path).close()

    monkeypatch.setattr(os, "link", linked)
    bind_control_socket(path).close()


def test_the_socket_of_a_dead_service_is_replaced(tmp_path):
    path = tmp_path / "control.sock"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(os.fspath(path))
    dead.close()
    bound = bind_control_socket(path)
    connect(path).close()
    bound.close()


def test_the_socket_of_a_living_service_is_left_alone(tmp_path):
    path = tmp_path / "control.sock"
    living = bind_control_socket(path)
    with pytest.raises(LockedError, match=f"process {os.getpid()} answers on {path}"):
        bind_control_socket(path)
    connect(path).close()
    living.close()


def test_a_service_that_does_not_get_to_its_clients_is_alive(tmp_path):
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(os.fspath(path))
        busy.listen(0)
        with connect(path), pytest.raises(LockedError, match="too busy to say who"):
            bind_control_socket(path)
    assert path.is_socket()


@pytest.mark.parametrize("what", ["file", "directory", "symlink", "fifo"])
def test_nothing_but_a_socket_is_ever_removed(tmp_path, what):
    path = tmp_path / "control.sock"
    match what:
        case "file":
            path.write_text("precious")
        case "directory":
            path.mkdir()
        case "symlink":
            path.symlink_to(tmp_path / "elsewhere")
        case "fifo":
            os.mkfifo(path)
    before = path.lstat()
    with pytest.raises(WorldError, match="something that is no socket is there") as caught:
        bind_control_socket(path)
    assert caught.value.hint is not None
    assert path.lstat() == before
    assert names(tmp_path) == ["control.sock"]


def test_what_appears_at_the_last_instant_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "control.sock"
    link = os.link

    def late(*args, **kwargs):
        path.write_text("precious")
        link(*args, **kwargs)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(WorldError, match="File exists"):
        bind_control_socket(path)
    assert path.read_text() == "precious"
    assert names(tmp_path) == ["control.sock"]


def test_leftovers_of_a_killed_start_are_cleared(tmp_path):
    private = tmp_path / ".control.sock.new"
    private.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.fspath(private / "s"))
    bind_control_socket(tmp_path / "control.sock").close()
    assert names(tmp_path) == []


def test_two_services_do_not_start_in_one_directory_at_once(tmp_path):
    directory = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    with pytest.raises(LockedError, match="another service is just starting"):
        bind_control_socket(tmp_path / "control.sock")
    os.close(directory)
    bind_control_socket(tmp_path / "control.sock").close()


def test_closing_leaves_a_successors_socket(tmp_path):
    path = tmp_path / "control.sock"
    first = bind_control_socket(path)
    path.unlink()
    second = bind_control_socket(path)
    first.close()
    connect(path).close()
    second.close()
    assert not path.exists()


def test_a_directory_that_exists_keeps_its_mode(tmp_path):
    tmp_path.chmod(0o711)
    bind_control_socket(tmp_path / "control.sock").close()
    assert mode(tmp_path) == 0o711


def test_a_directory_where_anybody_may_replace_the_socket_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(UsageError, match="anybody may replace files"):
        bind_control_socket(tmp_path / "control.sock")
    tmp_path.chmod(0o1777)
    bind_control_socket(tmp_path / "control.sock").close()


def test_a_path_too_long_for_a_socket(tmp_path):
    room = 107 - len(os.fsencode(tmp_path)) - 1
    longest = tmp_path / ("x" * room)
    bound = bind_control_socket(longest)
    connect(longest).close()
    bound.close()
    with pytest.raises(UsageError, match="108 bytes are too long for a socket; 107 fit"):
        bind_control_socket(tmp_path / ("x" * (room + 1)))


def test_who_is_at_the_other_end():
    here, there = socket.socketpair()
    with here, there:
        peer = peer_of(here)
    assert (peer.pid, peer.uid) == (os.getpid(), os.geteuid())
    assert peer.groups == frozenset([os.getegid(), *os.getgroups()])
