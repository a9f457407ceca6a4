"""The durability verbs, and the only module that opens files for writing.

Every OSError leaves here as StoreError: what was tried, on which path, the kernel's errno
and words, and a hint where there is something to do about it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import grp
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tracelib.errors import StoreError

FILE_MODE = 0o640
DIRECTORY_MODE = 0o750
"""Traces show what guests do: nobody outside the group looks in."""

_MAX_STUCK_WRITES = 16
"""Writes in a row that may move nothing before we call the file system stuck."""

_HINTS = {
    errno.ENOSPC: "free some space, or lower the store's limits",
    errno.EDQUOT: "raise the quota, or lower the store's limits",
    errno.EROFS: "the file system is mounted read-only",
    errno.EACCES: "check owner and mode of the file and of the directories above it",
    errno.EPERM: "check owner and mode of the file and of the directories above it",
    errno.ENOTDIR: "a part of the path is a file",
    errno.EEXIST: "nothing that exists is overwritten; move it away",
    errno.EIO: "the disk reported an error; see the kernel log",
    errno.EMFILE: "raise the limit on open files",
}


def store_error(verb: str, path: Path, exc: OSError) -> StoreError:
    """The one translation of the kernel's refusals."""
    words = exc.strerror or str(exc)
    number = exc.errno or 0
    name = errno.errorcode.get(number, str(number))
    return StoreError(
        f"cannot {verb} {path}: {words} ({name})", errno=exc.errno, hint=_hint(verb, number)
    )


def _hint(verb: str, number: int) -> str | None:
    if number != errno.ENOENT:
        return _HINTS.get(number)
    making = verb.startswith(("create", "rename"))
    return "create the directory first" if making else "check the path: nothing has that name"


@contextmanager
def translated(verb: str, path: Path) -> Iterator[None]:
    """Run one system call or a few; an OSError becomes StoreError."""
    try:
        yield
    except OSError as exc:
        raise store_error(verb, path, exc) from exc


def find_group(name: str) -> int | None:
    """A group's number; None where there is no such group."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def make_directory(path: Path, *, mode: int = DIRECTORY_MODE, group: int | None = None) -> None:
    """Make sure that a directory is there, with missing parents. One that exists already
    keeps its mode and group: the administrator may have chosen them."""
    with translated("create directory", path):
        if path.is_dir():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        # Made tighter than wanted and then opened up: never looser for an instant.
        path.mkdir(mode=mode & 0o700)
        _give(path, mode, group)


def create_exclusive(
    path: Path, *, mode: int = FILE_MODE, group: int | None = None, direct: bool = False,
    shown: Path | None = None,
) -> int:
    """Create a file that must not exist, for writing; returns the descriptor.

    The mode does not depend on the umask. With `direct`, O_DIRECT is switched on; a file
    system that knows none refuses with errno EINVAL and leaves no file behind. (That it
    took the flag does not mean that it will take writes.)

    `shown` is what messages call the file, if it has another name only for a while.
    """
    with translated("create", shown or path):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        # Never O_DIRECT here: where it is refused, the kernel has created the file by then.
        fd = os.open(path, flags, mode & 0o600)
        try:
            _give(fd, mode, group)
            if direct:
                _switch_direct(fd, on=True)
        except BaseException:
            os.close(fd)
            path.unlink()
            raise
        return fd


def open_existing(path: Path) -> int:
    """Open a file that is there, for writing; never follows a symlink."""
    with translated("open", path):
        return os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)


def open_or_create(path: Path) -> int:
    """Open a file for reading and writing, made empty and private if it is not there; what it
    holds stays. Never follows a symlink."""
    with translated("open", path):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(path, flags, FILE_MODE & 0o600)


def set_direct(fd: int, path: Path, *, on: bool) -> None:
    """Switch O_DIRECT of an open file on or off."""
    with translated("switch direct I/O of", path):
        _switch_direct(fd, on=on)


def _switch_direct(fd: int, *, on: bool) -> None:
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    flags = flags | os.O_DIRECT if on else flags & ~os.O_DIRECT
    fcntl.fcntl(fd, fcntl.F_SETFL, flags)


def _give(file: int | Path, mode: int, group: int | None) -> None:
    """Set group, then mode. Who may not give a file away keeps it in his own group."""
    if group is not None:
        with suppress(PermissionError):
            os.chown(file, -1, group)
    os.chmod(file, mode)  # noqa: PTH101  # a descriptor, mostly


def write_all(
    fd: int, data: bytes | memoryview, offset: int, *, path: Path, align: int = 1
) -> None:
    """Write all of `data` at `offset`, whatever the kernel takes at a time.

    With O_DIRECT give its `align`: after a short write it goes on at the last aligned place,
    writing the same bytes over themselves. Raises StoreError; part of the data may be in
    the file then. errno EINVAL is what a file system says that does not take direct writes,
    also if it took only pieces shorter than `align`.
    """
    view = memoryview(data).cast("B")
    done = stuck = 0
    while done < len(view):
        taken = _write_once(fd, view[done:], offset + done, path)
        step = taken if done + taken == len(view) else taken // align * align
        stuck = 0 if step else stuck + 1
        if stuck > _MAX_STUCK_WRITES:
            number = errno.EINVAL if align > 1 else errno.EIO
            reason = f"only {taken} of {len(view) - done} bytes were taken, again and again"
            raise store_error("write", path, OSError(number, reason))
        done += step


def _write_once(fd: int, view: memoryview, offset: int, path: Path) -> int:
    with translated("write", path):
        try:
            return os.pwrite(fd, view, offset)
        except InterruptedError:
            return 0


def truncate(fd: int, size: int, *, path: Path) -> None:
    """Cut a file, e.g. to take back what a failed write left."""
    with translated("truncate", path):
        os.ftruncate(fd, size)


def fdatasync(fd: int, *, path: Path) -> None:
    """Make a file's data durable, and its length. After an error its unsynced data must be
    taken for lost: the kernel reports it once and may drop the pages."""
    with translated("sync", path):
        os.fdatasync(fd)


def drop_cache(fd: int, *, path: Path) -> None:
    """Let go of a file's cached pages, so that a long capture does not push everybody
    else's out. Only clean pages go: call it after `fdatasync`."""
    with translated("drop the cache of", path):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def close(fd: int, *, path: Path) -> None:
    """Close a descriptor. Some file systems tell of failed writes only here."""
    with translated("close", path):
        os.close(fd)


def sync_directory(path: Path) -> None:
    """Make creations, renames and deletions in a directory durable."""
    with translated("sync directory", path):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def unlink(path: Path) -> None:
    """Delete a file; durable after `sync_directory`."""
    with translated("delete", path):
        path.unlink()


def rename_noreplace(source: Path, target: Path) -> None:
    """Rename without overwriting: errno EEXIST if `target` is there. Durable after
    `sync_directory`; sync the file's data first, or a crash may leave it empty."""
    with translated(f"rename {source.name} to", target):
        number = _renameat2_noreplace(source, target)
        if number in (errno.ENOSYS, errno.EINVAL):
            # Some file systems know no such rename. Segment names have one writer, the
            # holder of the store's lock, so a look beforehand is nearly as good.
            number = errno.EEXIST if os.path.lexists(target) else 0
            if not number:
                source.rename(target)
        if number:
            raise OSError(number, os.strerror(number))


def link(source: Path, target: Path) -> None:
    """A second name for a file, which must be free. Durable after `sync_directory`."""
    with translated(f"link {source.name} to", target):
        target.hardlink_to(source)


def replace(source: Path, target: Path) -> None:
    """Rename over whatever has the name. Durable after `sync_directory`; sync the file's data
    first."""
    with translated(f"rename {source.name} to", target):
        source.replace(target)


def _renameat2_noreplace(source: Path, target: Path) -> int:
    """The system call of that name; 0 or an errno."""
    at_fdcwd, noreplace = -100, 1
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        call = libc.renameat2
    except AttributeError:
        return errno.ENOSYS
    result = call(at_fdcwd, os.fsencode(source), at_fdcwd, os.fsencode(target), noreplace)
    return 0 if result == 0 else ctypes.get_errno()


class FreeSpace(NamedTuple):
    """Room on a file system, in bytes."""

    available: int
    """For us: f_bavail * f_frsize."""
    free: int
    """The reserve for root included: f_bfree * f_frsize."""


def free_space(path: Path) -> FreeSpace:
    with translated("ask the free space of", path):
        answer = os.statvfs(path)
    return FreeSpace(answer.f_bavail * answer.f_frsize, answer.f_bfree * answer.f_frsize)


def free_bytes(path: Path) -> int:
    """Bytes that are left for us on the file system of `path`."""
    return free_space(path).available

