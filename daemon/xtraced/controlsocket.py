"""The control socket as a file, and who is at its other end.

Its mode has to be right from the first instant, whatever the umask, and the umask cannot be
touched: it belongs to the whole process, and the writer's thread creates files beside us.
bind(2) takes the mode from the umask, and chmod(2) afterwards is an instant too late (or,
with a tight umask, leaves it too tight for an instant). So it is bound and set right inside
a directory that only the service can enter, and then linked into its place, listening and
complete. link(2), unlike rename(2), never replaces what is there.

What is there may be the socket of a service that died: it is removed only if nobody
answers on it, while the run directory is locked, and only if it is a socket.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from tracelib.errors import LockedError, UsageError, WorldError
from tracelib.store import fsops
from xtraced.parsers import MAX_SOCKET_PATH

BACKLOG = 1024
"""Connections that wait to be accepted. A crowd is turned away one by one; while this queue
is full, the kernel turns away everybody, whoever he is."""

_SO_PEERGROUPS = 59
"""socket(7), Linux 4.13; the socket module has no name for it."""
_GROUPS_ASKED = (64, 256)
"""Room to offer for supplementary groups; Python's getsockopt takes no more than 1024 bytes.
Whoever is in more groups counts as being in none: he can become root, or leave some."""
_UCRED = struct.Struct("iII")


class Peer(NamedTuple):
    """The process at the other end, as the kernel saw it connect."""

    pid: int
    uid: int
    groups: frozenset[int]
    """Its effective group and its supplementary ones."""


class HasOptions(Protocol):
    """A plain socket, or trio's stream around one."""

    def getsockopt(self, level: int, option: int, buffersize: int, /) -> bytes: ...


def peer_of(sock: HasOptions) -> Peer:
    """Whoever called connect(2) on the other end (or listen(2), for a client)."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, gid = _UCRED.unpack(credentials)
    return Peer(pid, uid, frozenset([gid, *_supplementary_groups(sock)]))


def _supplementary_groups(sock: HasOptions) -> tuple[int, ...]:
    for room in _GROUPS_ASKED:
        with suppress(OSError):
            data = sock.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * room)
            return struct.unpack(f"{len(data) // 4}I", data)
    return ()


class ControlSocket:
    """A listening socket in its place in the file system."""

    def __init__(self, listening: socket.socket, path: Path, inode: tuple[int, int]) -> None:
        self.listening = listening
        self.path = path
        self._inode = inode

    def close(self) -> None:
        """Stop listening and take the file away, unless it is somebody else's by now."""
        self.listening.close()
        with suppress(OSError):
            if _inode(self.path) == self._inode:
                self.path.unlink()


def bind_control_socket(
    path: Path, *, group: int | None = None, for_all: bool = False
) -> ControlSocket:
    """Listen on `path`: 0660 in a directory 0750, or 0666 in 0755 when everybody may ask.

    A directory that exists keeps its mode. `group` gets both; None leaves it to the kernel.
    Raises LockedError if another service answers there, UsageError or WorldError (StoreError
    from the directory) if there can be no socket. Call it with the store's lock held.
    """
    length = len(os.fsencode(path))
    if length > MAX_SOCKET_PATH:
        raise UsageError(
            f"{path}: {length} bytes are too long for a socket; {MAX_SOCKET_PATH} fit"
        )
    fsops.make_directory(path.parent, mode=0o755 if for_all else 0o750, group=group)
    with _translated(path), _locked_directory(path) as directory:
        _remove_stale(path)
        return _bind(directory, path, group, 0o666 if for_all else 0o660)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        words = exc.strerror or str(exc)
        raise WorldError(
            f"no control socket at {path}: {words}", errno=exc.errno,
            hint="--socket PATH chooses another place",
        ) from exc


@contextmanager
def _locked_directory(path: Path) -> Iterator[int]:
    """The descriptor of the directory that holds `path`, locked against other services."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mode = os.fstat(directory).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise UsageError(
                f"anybody may replace files in {path.parent}, the control socket too",
                hint=f"chmod o-w {path.parent}",
            )
        try:
            # Not waited for: whoever may read the directory could hold it for ever.
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(f"another service is just starting in {path.parent}") from None
        yield directory
    finally:
        os.close(directory)


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise WorldError(
            f"no control socket at {path}: something that is no socket is there",
            hint="move it away, or choose another place with --socket PATH", errno=errno.EEXIST,
        )
    holder = _who_answers(path)
    if holder is not None:
        raise LockedError(
            f"{holder} on {path}",
            hint="is the service running already? --socket PATH chooses another place",
        )
    path.unlink()


def _who_answers(path: Path) -> str | None:
    """Whoever listens on the socket, for a message; None if nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return None
        except BlockingIOError:
            return "somebody listens, too busy to say who,"
        return f"process {peer_of(probe).pid} answers"


def _bind(directory: int, path: Path, group: int | None, mode: int) -> ControlSocket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _private_directory(directory, f".{path.name[:200]}.new") as private:
            # Through /proc, since the whole path may be too long with the private part in it.
            inside = f"/proc/self/fd/{directory}/{private}/s"
            listening.bind(inside)
            if group is not None:
                # Who may not give a file away keeps it in his own group.
                with suppress(PermissionError):
                    os.chown(inside, -1, group)
            os.chmod(inside, mode)  # noqa: PTH101  # names beside a descriptor, not a Path
            listening.listen(BACKLOG)
            os.link(f"{private}/s", path.name, src_dir_fd=directory, dst_dir_fd=directory)
        return ControlSocket(listening, path, _inode(path))
    except BaseException:
        listening.close()
        raise


@contextmanager
def _private_directory(directory: int, name: str) -> Iterator[str]:
    _remove_private(directory, name)  # Left by a service that was killed just here.
    os.mkdir(name, 0o700, dir_fd=directory)
    try:
        yield name
    finally:
        _remove_private(directory, name)


def _remove_private(directory: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(f"{name}/s", dir_fd=directory)
    with suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=directory)


def _inode(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino
