"""One service per store, and per hypervisor: a lock on a file that names its holder.

The lock is the kernel's (flock), so it ends with the process however that ends, and a file
that a dead service left is no obstacle. The file itself is never deleted: between a look at
it and its deletion, somebody else may have locked it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tracelib.errors import LockedError, StoreError
from tracelib.store import fsops

_MAX_PID_TEXT = 32


@contextmanager
def hold_lock(path: Path, *, what: str) -> Iterator[None]:
    """Hold the lock on `path` for the time of the block; `what` it stands for is for people.

    The directory must exist. Raises LockedError at once, naming the holder's pid, if another
    process holds it; StoreError if the file cannot be opened.
    """
    # Close-on-exec: a helper process that inherited it would hold the lock on our behalf.
    fd = fsops.open_or_create(path)
    try:
        _lock(fd, path, what)
        _write_pid(fd, path, f"{os.getpid()}\n")
        yield
        _write_pid(fd, path, "")
    finally:
        fsops.close(fd, path=path)


def _lock(fd: int, path: Path, what: str) -> None:
    with fsops.translated("lock", path):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise LockedError(
                f"{what} is in use by {_holder(fd)}", errno=exc.errno, hint=f"it holds {path}"
            ) from exc


def _holder(fd: int) -> str:
    """Who wrote himself into the file; that takes him a moment after he has the lock."""
    text = os.pread(fd, _MAX_PID_TEXT, 0).strip()
    return f"process {text.decode()}" if text.isdigit() else "another process"


def _write_pid(fd: int, path: Path, text: str) -> None:
    """The lock holds without it, and a full disk must not keep the service from starting:
    it is the service that can make room."""
    with suppress(StoreError):
        fsops.truncate(fd, 0, path=path)
        fsops.write_all(fd, text.encode(), 0, path=path)
