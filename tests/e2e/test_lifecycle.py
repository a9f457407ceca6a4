"""The service as systemd sees it: readiness, signals, exit codes, with the unit's rights."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from xtraced.cli import Exit

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up rights")
with_setpriv = pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
PATIENCE = 60.0

UNIT_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
"""CapabilityBoundingSet= and NoNewPrivileges=yes."""
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


class Manager:
    """systemd's end: starts the service and hears what it says."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.store = tmp_path / "store"
        self.config = tmp_path / "xtraced.toml"
        self.config.write_text("")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(tmp_path / "notify"))
        self._socket.settimeout(PATIENCE)

    def arguments(self, *more: str, rights: tuple[str, ...] = ()) -> list[str]:
        return [
            *rights, sys.executable, "-m", "xtraced", "--config", str(self.config),
            "--source", "sim", "--store", str(self.store),
            "--socket", str(self.tmp_path / "run/control.sock"), *more,
        ]  # fmt: skip

    @contextmanager
    def started(self, *more: str, rights: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
        environ = {**os.environ, "NOTIFY_SOCKET": str(self.tmp_path / "notify")}
        with subprocess.Popen(
            self.arguments(*more, rights=rights), env=environ, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def run(self, *more: str, rights: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """A service that is expected to end by itself."""
        return subprocess.run(
            self.arguments(*more, rights=rights),
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )

    def hear(self, first: str) -> list[str]:
        """The lines of the next message that begins like this; others are passed over."""
        while True:
            lines = self._socket.recv(4096).decode().splitlines()
            if lines[0] == first:
                return lines

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path):
    manager = Manager(tmp_path)
    yield manager
    manager.close()


def stop(process: subprocess.Popen[str]) -> tuple[int, str]:
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=PATIENCE)
    return process.returncode, log


def test_ready_reloading_stopping(manager):
    """R61: READY only once a segment is open; reload and stop are announced."""
    with manager.started() as process:
        assert manager.hear("READY=1")[1].startswith("STATUS=")
        assert list(manager.store.glob("*.open"))
        manager.config.write_text('[store]\nmax_bytes = "1G"\n[writer]\nbuffers = 4\n')
        process.send_signal(signal.SIGHUP)
        assert manager.hear("RELOADING=1")[1].startswith("MONOTONIC_USEC=")
        manager.hear("READY=1")
        code, log = stop(process)
        assert manager.hear("STOPPING=1")[1].startswith("EXTEND_TIMEOUT_USEC=")
    assert code == Exit.FINE, log
    assert '"changed": ["store.max_bytes"], "need_restart": ["writer.buffers"]' in log
    assert not list(manager.store.glob("*.open"))


def test_a_bad_reload_changes_nothing_and_ends_nothing(manager):
    with manager.started() as process:
        manager.hear("READY=1")
        manager.config.write_text("[store]\nmax_bytes = 0\n")
        process.send_signal(signal.SIGHUP)
        manager.hear("RELOADING=1")
        manager.hear("READY=1")
        code, log = stop(process)
    assert code == Exit.FINE, log
    assert "xtraced.toml:2: store.max_bytes: 0 B is too little" in log


@as_root
@with_setpriv
@pytest.mark.needs_root
def test_the_units_rights_are_enough(manager):
    """Root without a single capability collects, stores and stops."""
    with manager.started(rights=UNIT_RIGHTS) as process:
        manager.hear("READY=1")
        code, log = stop(process)
    assert code == Exit.FINE, log


def test_second_service_names_the_first(manager):
    """R29: it exits at once, names the pid, touches nothing."""
    with manager.started() as process:
        manager.hear("READY=1")
        second = manager.run()
        assert second.returncode == Exit.LOCKED
        assert f"is in use by process {process.pid}\n" in second.stderr
        code, log = stop(process)
    assert code == Exit.FINE, log


def test_starts_after_a_kill(manager):
    """R29: what a killed service left is no obstacle."""
    with manager.started() as process:
        manager.hear("READY=1")
        process.kill()
    with manager.started() as process:
        manager.hear("READY=1")
        code, log = stop(process)
    assert code == Exit.FINE, log


def test_no_hypervisor(manager):
    """R67: one line, a fixed code, no READY."""
    answer = manager.run("--source", "xen")
    assert answer.returncode == Exit.SOURCE_REFUSED
    assert answer.stderr.splitlines()[0].startswith("xtraced: ")
    assert "Traceback" not in answer.stderr


@as_root
@with_setpriv
@pytest.mark.needs_root
def test_a_store_of_somebody_else(manager):
    """R57: a user who may not write to the store is told at once."""
    manager.tmp_path.chmod(0o755)
    for parent in manager.tmp_path.parents[:2]:
        parent.chmod(0o755)
    manager.store.mkdir(mode=0o755)
    answer = manager.run(rights=NOBODY)
    assert answer.returncode == Exit.STORE_REFUSED, answer.stderr
    assert str(manager.store) in answer.stderr
    assert "Permission denied" in answer.stderr


def test_a_store_that_is_a_file(manager):
    manager.store.write_text("")
    answer = manager.run()
    assert answer.returncode == Exit.STORE_REFUSED, answer.stderr
