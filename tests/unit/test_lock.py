"""One service per store: the kernel's lock, and the file that names its holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tracelib.errors import LockedError, StoreError
from tracelib.store import fsops
from xtraced.lock import hold_lock

HOLDER = """
import subprocess, sys
from pathlib import Path
from xtraced.lock import hold_lock
with hold_lock(Path(sys.argv[1]), what="the store"):
    helper = subprocess.Popen(["sleep", "60"], close_fds=False)
    print(helper.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock and has a helper that inherits what it can."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path / "lock"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:
        helper = int(process.stdout.readline())
        yield process
        process.kill()
        os.kill(helper, signal.SIGKILL)


def test_names_its_holder_and_is_free_again(tmp_path):
    path = tmp_path / "lock"
    with hold_lock(path, what="the store"):
        assert path.read_text() == f"{os.getpid()}\n"
    assert path.read_text() == ""
    with hold_lock(path, what="the store"):
        pass


def test_second_is_refused_at_once(tmp_path, holder):
    """R29: the second one names the pid of the first and touches nothing."""
    path = tmp_path / "lock"
    with pytest.raises(LockedError) as caught, hold_lock(path, what="the store /x"):
        pass
    assert caught.value.message == f"the store /x is in use by process {holder.pid}"
    assert path.read_text() == f"{holder.pid}\n"


def test_a_killed_holder_is_no_obstacle(tmp_path, holder):
    """R29: kill -9, then start, though a helper of the dead one still lives."""
    path = tmp_path / "lock"
    holder.kill()
    holder.wait()
    assert path.read_text() == f"{holder.pid}\n"
    with hold_lock(path, what="the store"):
        assert path.read_text() == f"{os.getpid()}\n"


@pytest.mark.parametrize("content", ["", "rubbish\n", "-1", "9" * 100])
def test_a_file_of_anybody_is_no_obstacle(tmp_path, content):
    path = tmp_path / "lock"
    path.write_text(content)
    with hold_lock(path, what="the store"):
        assert path.read_text() == f"{os.getpid()}\n"


def test_a_holder_without_a_name(tmp_path):
    path = tmp_path / "lock"
    with hold_lock(path, what="the store"):
        path.write_text("rubbish")
        with (
            pytest.raises(LockedError, match="in use by another process"),
            hold_lock(path, what="the store"),
        ):
            pass


def test_a_symlink_is_not_followed(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError), hold_lock(tmp_path / "lock", what="the store"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_no_directory(tmp_path):
    with (
        pytest.raises(StoreError, match="No such file"),
        hold_lock(tmp_path / "none" / "lock", what="the store"),
    ):
        pass


def test_a_full_disk_does_not_keep_it_from_starting(tmp_path, monkeypatch):
    def refuse(*_, path):
        raise StoreError(f"no space for {path}")

    monkeypatch.setattr(fsops, "write_all", refuse)
    with hold_lock(tmp_path / "lock", what="the store"):
        assert (tmp_path / "lock").read_text() == ""
