"""`xtracectl top` on a terminal: keys, sizes, and the terminal afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from tests.support import captures
from tests.support.service import PATIENCE, ServiceProcess
from tests.support.xtracectl import COMMAND
from xtracectl.exits import Exit

pytest.importorskip("curses")

REDRAW = "\x0c"
_ESCAPES = re.compile(r"\x1b(?:[()].|\[[0-9;?]*[A-Za-z]|[=>78])|[\x0e\x0f]")


class Terminal:
    """A pseudo-terminal with `top` on it."""

    def __init__(self, *words, term="xterm", rows=24, columns=80):
        self._ours, theirs = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        self._heard = ""
        """What it wrote since something was waited for: only what changes on the screen."""
        self.process = subprocess.Popen(
            [*COMMAND, "top", *map(str, words)], stdin=theirs, stdout=theirs, stderr=theirs,
            env={**os.environ, "TERM": term}, start_new_session=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self.theirs)

    def resize(self, rows, columns):
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, *keys):
        os.write(self._ours, "".join(keys).encode())

    def wait(self, wanted):
        """Until a text has been written since the last one that was waited for."""
        deadline = time.monotonic() + PATIENCE
        while re.search(wanted, self._text()) is None:
            assert time.monotonic() < deadline, self._text()
            self._hear(1.0)
        self._heard = ""

    def _text(self):
        return _ESCAPES.sub(" ", self._heard)

    def _hear(self, seconds):
        if select.select([self._ours], [], [], seconds)[0]:
            self._heard += os.read(self._ours, 65536).decode(errors="replace")

    def end(self):
        """The exit code, when all that it still writes was taken."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            self._hear(0.05)
        self._hear(0.05)
        return self.process.returncode

    def is_restored(self):
        return termios.tcgetattr(self.theirs) == self.before


@pytest.fixture
def capture(tmp_path):
    """A file with vCPUs and no end of intervals."""
    return captures.write("all4.trace", tmp_path), f"--cpu-hz={captures.TSC_HZ}", "-d200ms"


@pytest.fixture
def service(tmp_path):
    with ServiceProcess(
        tmp_path / "store", tmp_path / "socket", settings={"store.keep_free": "0"}
    ).wait_ready() as process:
        yield process


def places(service):
    return "--socket", service.socket, "--store", service.store, "-d", "200ms"


def test_keys(capture):
    """Each does at once what it says; q ends, and the terminal is as it was."""
    with Terminal(*capture) as top:
        top.wait(r"top: 0\.00 to 0\.20 s")
        top.press("V", REDRAW)
        top.wait("d0v0 ")
        top.press(" ", REDRAW)
        top.wait(r"top: 0\.20 to 0\.40 s")
        top.press("b", REDRAW)
        top.wait(r"top: 0\.00 to 0\.20 s")
        top.press("1", REDRAW)
        top.wait("cpu0 ")
        top.press("h", REDRAW)
        top.wait("sort by name")
        top.press("x", "D", ">", REDRAW)
        top.wait(r"\*WAIT")
        assert not top.is_restored()
        top.press("q")
        assert top.end() == Exit.OK
        assert top.is_restored()


def test_the_end_of_an_input(capture):
    with Terminal(*capture[:2], "-d1h") as top:
        top.wait("NAME")
        top.press(" ", REDRAW)
        top.wait("this is the end")
        top.press("q")
        assert top.end() == Exit.OK


def test_live(service):
    """Samples come by themselves; another delay is asked for; other sizes are drawn."""
    with Terminal(*places(service), "--by=vcpu") as top:
        top.wait(r"\d\d:\d\d:\d\dZ, the last")
        top.press("d", "x")
        top.wait("delay")
        top.press("\x7f", "0.1\r", REDRAW)
        top.wait("every 100")
        top.resize(8, 60)
        top.process.send_signal(signal.SIGWINCH)
        top.wait("rows 1 to 2 of")
        top.press("\x1bOB", REDRAW)
        top.wait("rows 2 to 3 of")
        top.press("q")
        assert top.end() == Exit.OK
        assert top.is_restored()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals(service, number):
    """As good an end as q: the terminal is restored, nothing is said."""
    with Terminal(*places(service)) as top:
        top.wait("NAME")
        top.process.send_signal(number)
        assert top.end() == Exit.OK
        assert top.is_restored()


def test_so_many(service):
    with Terminal(*places(service), "-n", "2") as top:
        assert top.end() == Exit.OK
        assert top.is_restored()


def test_a_service_that_goes(service):
    """It is said above the last sample, which stays."""
    with Terminal(*places(service)) as top:
        top.wait("NAME")
        service.stop()
        top.wait("! the service is not running")
        top.press(REDRAW)
        top.wait("d0 ")
        top.press("q")
        assert top.end() == Exit.OK


@pytest.mark.parametrize("term", ["dumb", "", "no-such-terminal"])
def test_terminals_that_cannot_be_drawn_on(capture, term):
    """Plain lines."""
    with Terminal(*capture, "-n2", term=term) as top:
        top.wait(r"top: 0\.20 to 0\.40 s.*\r\n")
        assert top.end() == Exit.OK
        assert top.is_restored()


def test_batch_on_a_terminal(capture):
    """Nothing is drawn: no escape is written."""
    with Terminal(*capture, "-b", "-n1") as top:
        assert top.end() == Exit.OK
        assert "NAME" in top._heard
        assert "\x1b" not in top._heard
