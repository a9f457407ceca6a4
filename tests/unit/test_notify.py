"""Messages to the service manager, against a real datagram socket."""

from __future__ import annotations

import os
import socket

import pytest

from tracelib.units import Nanoseconds
from xtraced.notify import Notifier, watchdog_interval


@pytest.fixture
def manager(tmp_path):
    """systemd's end: a datagram socket, and its address as NOTIFY_SOCKET has it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
        sock.bind(str(tmp_path / "notify"))
        yield sock


@pytest.fixture
def notifier(manager):
    notifier = Notifier(manager.getsockname())
    yield notifier
    notifier.close()


def test_messages(manager, notifier):
    """R61: READY, STATUS, RELOADING, STOPPING, WATCHDOG as sd_notify(3) writes them."""
    assert notifier.ready("collecting from 4 CPUs")
    assert notifier.status("12.5 MB/s")
    assert notifier.reloading(Nanoseconds(1_234_567_890))
    assert notifier.watchdog()
    assert notifier.stopping("draining", within=Nanoseconds(30 * 10**9))
    assert [manager.recv(4096) for _ in range(5)] == [
        b"READY=1\nSTATUS=collecting from 4 CPUs",
        b"STATUS=12.5 MB/s",
        b"RELOADING=1\nMONOTONIC_USEC=1234567",
        b"WATCHDOG=1",
        b"STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000\nSTATUS=draining",
    ]


def test_abstract_socket():
    """R61: a leading @ is a NUL byte."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(b"\0xtraced-test-%d" % os.getpid())
        notifier = Notifier(f"@xtraced-test-{os.getpid()}")
        assert notifier.watchdog()
        assert manager.recv(4096) == b"WATCHDOG=1"
        notifier.close()


def test_a_status_is_one_line(manager, notifier):
    """Text from elsewhere cannot smuggle in another variable, and cannot fail to encode."""
    assert notifier.status("disk full\nMAINPID=1")
    assert notifier.status("caf\u00e9 \udce9")
    assert manager.recv(4096) == b"STATUS=disk full MAINPID=1"
    assert manager.recv(4096) == "STATUS=caf\u00e9 ?".encode()


@pytest.mark.parametrize("address", [None, "", "@", "/", "relative", "vsock:2:1234"])
def test_no_manager(address):
    """R61: nothing is sent when the variable is unset or means nothing."""
    notifier = Notifier(address)
    assert not notifier.ready("x")
    notifier.close()


@pytest.mark.parametrize("name", ["none", "x" * 200])
def test_nobody_listens(tmp_path, name):
    """R61: a path that is not there, or too long, raises nothing."""
    notifier = Notifier(str(tmp_path / name))
    assert not notifier.ready("x")
    notifier.close()


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_unwritable(tmp_path):
    """R61: a socket that we may not write to raises nothing."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        path.chmod(0o600)
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            os._exit(Notifier(str(path)).ready("x"))
        assert os.waitpid(child, 0)[1] == 0


def test_a_full_queue_never_blocks(manager, notifier):
    """R61: what the manager's queue does not take is dropped; later messages go through."""
    sent = 0
    while notifier.watchdog():
        sent += 1
    assert sent > 0
    for _ in range(sent):
        manager.recv(4096)
    assert notifier.status("later")
    assert manager.recv(4096) == b"STATUS=later"


def test_closed(notifier):
    notifier.close()
    assert not notifier.ready("x")
    notifier.close()


def test_from_environment(manager):
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": manager.getsockname()})
    assert notifier.ready("x")
    notifier.close()


@pytest.mark.parametrize(
    ("environ", "interval"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30 * 10**9),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "77"}, 30 * 10**9),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "78"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-1"}, None),
        ({"WATCHDOG_USEC": "\u0663"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_watchdog_interval(environ, interval):
    assert watchdog_interval(environ, pid=77) == interval
