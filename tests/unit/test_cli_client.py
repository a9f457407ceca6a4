"""The blocking client: nobody there, somebody says no, and all the ways of not knowing."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.control import FakeService, deliver, service
from tracelib.control.connection import Connection, Role
from tracelib.control.messages import Bye
from tracelib.errors import NotRunningError, RefusedError, ServiceError, UsageError
from xtracectl.client import Client


def echo(command, args):
    return {"command": command, **args}


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "control.sock"


def test_it_asks_and_is_answered(path):
    with FakeService(path, echo), Client(path) as client:
        assert client.ask("status") == {"command": "status"}
        assert client.ask("mask", {"events": 5}) == {"command": "mask", "events": 5}


def test_it_reads_a_stream(path):
    with FakeService(path, lambda *_: [{"n": 0}, {"n": 1}]), Client(path) as client:
        items = client.stream("subscribe", {}, patience=5)
        assert [next(items), next(items)] == [{"n": 0}, {"n": 1}]
        with pytest.raises(ServiceError, match="answered with done"):
            next(items)


def test_it_waits_until_the_service_has_gone(path):
    with FakeService(path, echo), Client(path) as client:
        assert not client.wait_closed(0.01)
        client.ask("stop")
        assert client.wait_closed(60)


def test_a_refusal_is_told_apart(path):
    def refuse(*_):
        raise RefusedError("you may not rotate", code="not_allowed", hint="become root")

    with FakeService(path, refuse), Client(path) as client:
        with pytest.raises(RefusedError, match="you may not rotate") as caught:
            client.ask("rotate")
        assert (caught.value.code, caught.value.hint) == ("not_allowed", "become root")
        with pytest.raises(RefusedError):
            client.ask("status")


def test_nobody_there(path):
    """R10: not running."""
    with pytest.raises(NotRunningError, match=f"nobody listens on {path}") as caught:
        Client(path)
    assert "systemctl start" in caught.value.hint


def test_the_socket_of_a_dead_service(path):
    """R10: not running."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
    with pytest.raises(NotRunningError):
        Client(path)


def test_something_else_in_its_place(path):
    path.write_text("")
    with pytest.raises(ServiceError, match="is not a socket") as caught:
        Client(path)
    assert not isinstance(caught.value, NotRunningError)


def test_a_part_of_the_path_that_is_a_file(path):
    path.write_text("")
    with pytest.raises(ServiceError, match="Not a directory"):
        Client(path / "control.sock")


def test_a_path_too_long_for_any_socket(path):
    with pytest.raises(UsageError, match="too long"):
        Client(path / ("x" * 200))


@contextmanager
def becoming(uid: int):
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_a_socket_that_may_not_be_used(path):
    """R10: cannot tell. A service runs, but we are not let in."""
    with FakeService(path, echo):
        path.chmod(0o600)
        for directory in (path.parent, path.parent.parent, path.parent.parent.parent):
            directory.chmod(0o755)
        with becoming(1001), pytest.raises(ServiceError, match="may not connect") as caught:
            Client(path)
        assert not isinstance(caught.value, NotRunningError)
        assert "group xtraced" in caught.value.hint


def test_a_service_that_accepts_nobody(path):
    """R10: cannot tell. It listens, but its queue of clients is full."""
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(os.fspath(path))
        busy.listen(0)
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(os.fspath(path))
            with pytest.raises(ServiceError, match="does not answer"):
                Client(path, timeout=0.05)


def test_a_service_that_is_silent(path):
    """R10: cannot tell. Nobody answers in time, not even the hello."""
    with socket.socket(socket.AF_UNIX) as frozen:
        frozen.bind(os.fspath(path))
        frozen.listen()
        with pytest.raises(ServiceError, match="does not answer") as caught:
            Client(path, timeout=0.05)
        assert not isinstance(caught.value, NotRunningError)


def test_an_answer_that_does_not_come(path):
    with FakeService(path, echo), Client(path) as client:
        client._request = lambda *_: None
        with pytest.raises(ServiceError, match="does not answer"):
            client.ask("status", timeout=0.05)


def refusal(code: str, message: str) -> bytes:
    return service().send(Bye(code, message))


def hello_of_version(version: int) -> bytes:
    """The hello of a service that speaks this version only."""
    asking = Connection(Role.CLIENT, "x", lowest=version, highest=version)
    answering = Connection(Role.SERVICE, "xtraced 9", lowest=version, highest=version)
    deliver(asking.send(asking.hello()), answering)
    return answering.send(answering.hello())


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "closed the connection without an answer"),
        (b"\x10\0\0\0\x81", "closed in the middle of a frame"),
        (b"HTTP/1.0 400 Bad Request\r\n", "makes no sense: frame of 1347703880 bytes"),
        (struct.pack("<I", 0xFFFFFFFF), "makes no sense: frame of 4294967295 bytes"),
        (struct.pack("<I", 4) + b"\xff" * 4, "makes no sense: not a packed value"),
        (hello_of_version(9), "xtraced 9 speaks protocol version 9, xtracectl .* version 1"),
        (refusal("too_many_connections", "full"), "hung up: full"),
        (refusal("later", "who knows"), "hung up: who knows"),
    ],
)
def test_an_answer_that_makes_no_sense(path, raw, message):
    """R10: cannot tell."""
    with FakeService(path, echo, raw=raw):
        with pytest.raises(ServiceError, match=message) as caught:
            Client(path)
        assert not isinstance(caught.value, NotRunningError | RefusedError)


def test_an_answer_without_what_was_asked_for(path):
    with (
        FakeService(path, echo),
        Client(path) as client,
        pytest.raises(ServiceError, match="the answer to flush lacks bytes"),
    ):
        client.ask("flush", gives=("command", "bytes"))
