"""What `xtracectl status` answers about services in every condition, and its exit codes."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import disks
from tests.support.rig import Rig
from tracelib.losses import Cause
from xtracectl.exits import Exit

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@pytest.fixture
def rig(tmp_path):
    with Rig(tmp_path) as rig:
        yield rig


def ask(socket: Path, *more: str, rights: tuple[str, ...] = ()):
    command = [*rights, sys.executable, "-m", "xtracectl", "--socket", str(socket), "status", *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_healthy_degraded_not_running(rig):
    """R10: every write fails: degraded, with last error, its time, and what is not stored;
    then the service is gone: another code."""
    disk = rig.disk
    rig.boot(rate=4_000_000)
    service = rig.start({"writer.retry": "100ms", "writer.buffer_bytes": "64K"})
    assert ask(service.socket).returncode == Exit.OK
    disk.refuse(errno.EIO)
    service.wait_status(lambda status: status["lost"].get(Cause.WRITE_FAILED))
    answer = ask(service.socket)
    assert answer.returncode == Exit.PROBLEMS
    assert "degraded" in answer.stdout
    assert "Input/output error" in answer.stdout
    full = json.loads(ask(service.socket, "--json").stdout)
    writer = full["writer"]
    assert writer["last_error_at"] >= writer["failing_since"] > full["started_at"]
    assert writer["failed_blocks"] > 0
    assert writer["failed_records"] == full["lost"][Cause.WRITE_FAILED]
    service.kill()
    gone = ask(service.socket)
    assert gone.returncode == Exit.NOT_RUNNING
    assert "not running" in gone.stderr


@pytest.mark.needs_root
def test_a_socket_that_one_may_not_ask(tmp_path):
    """R10: cannot tell is neither of the two."""
    del tmp_path
    disks.need("setpriv")
    with disks.public_directory() as public, Rig(public) as rig:
        service = rig.start()
        answer = ask(service.socket, rights=NOBODY)
        assert answer.returncode == Exit.CANNOT_TELL
        assert str(service.socket) in answer.stderr
        assert answer.stdout == ""
        assert service.stop() == 0


@pytest.mark.slow
def test_a_service_that_does_not_answer(rig):
    """R10: it exists and says nothing."""
    service = rig.start()
    service.process.send_signal(signal.SIGSTOP)
    assert ask(service.socket).returncode == Exit.CANNOT_TELL
    service.process.send_signal(signal.SIGCONT)
    assert service.stop() == 0
