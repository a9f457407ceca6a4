"""The durability verbs, on a real file system with the kernel's answers tampered with."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.segments import write_file
from tracelib.errors import StoreError
from tracelib.store import fsops

DATA = bytes(range(256)) * 64  # four pages


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "segment"
    fd = fsops.create_exclusive(path)
    yield SimpleNamespace(fd=fd, path=path)
    os.close(fd)


# Creating


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_modes_do_not_depend_on_the_umask(tmp_path, umask):
    """R62: files 0640, directories 0750, whatever the process inherited."""
    before = os.umask(umask)
    try:
        fsops.make_directory(tmp_path / "store")
        os.close(fsops.create_exclusive(tmp_path / "segment"))
    finally:
        os.umask(before)
    assert mode(tmp_path / "store") == 0o750
    assert mode(tmp_path / "segment") == 0o640


def test_a_file_is_never_more_open_than_in_the_end(tmp_path, monkeypatch):
    """R62: from the first instant."""
    seen = []
    real = os.chmod

    def spy(file, bits):
        seen.append(stat.S_IMODE(os.stat(file).st_mode))  # noqa: PTH116  # or a descriptor
        real(file, bits)

    monkeypatch.setattr(fsops.os, "chmod", spy)
    before = os.umask(0)
    try:
        os.close(fsops.create_exclusive(tmp_path / "file"))
        fsops.make_directory(tmp_path / "directory")
    finally:
        os.umask(before)
    assert seen == [0o600, 0o700]


@pytest.mark.parametrize("occupy", ["file", "directory", "symlink", "dangling"])
def test_create_never_touches_what_exists(tmp_path, occupy):
    """R30: existing output is never appended to or overwritten."""
    path, elsewhere = tmp_path / "name", tmp_path / "elsewhere"
    if occupy == "file":
        write_file(path, b"old")
    elif occupy == "directory":
        path.mkdir()
    else:
        path.symlink_to(elsewhere)
        if occupy == "symlink":
            write_file(elsewhere, b"old")
    with pytest.raises(StoreError) as caught:
        fsops.create_exclusive(path)
    assert caught.value.errno == errno.EEXIST
    assert str(path) in str(caught.value)
    assert caught.value.hint
    if occupy in ("file", "symlink"):
        assert path.read_bytes() == b"old"
    assert elsewhere.exists() == (occupy == "symlink")


def test_direct_refused_leaves_no_file(tmp_path, monkeypatch):
    """R08: the kernel would have created it; the caller tries again under the same name."""
    real = fsops.fcntl.fcntl

    def refuse(fd, command, argument=0):
        if argument & os.O_DIRECT and command == fsops.fcntl.F_SETFL:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(fd, command, argument)

    monkeypatch.setattr(fsops.fcntl, "fcntl", refuse)
    before = open_descriptors()
    with pytest.raises(StoreError) as caught:
        fsops.create_exclusive(tmp_path / "segment", direct=True)
    assert caught.value.errno == errno.EINVAL
    assert list(tmp_path.iterdir()) == []
    assert open_descriptors() == before
    os.close(fsops.create_exclusive(tmp_path / "segment"))


def test_an_existing_directory_keeps_its_mode(tmp_path):
    (tmp_path / "store").mkdir(mode=0o700)
    fsops.make_directory(tmp_path / "store")
    assert mode(tmp_path / "store") == 0o700


def test_a_directory_below_a_file(tmp_path):
    write_file(tmp_path / "file", b"")
    with pytest.raises(StoreError) as caught:
        fsops.make_directory(tmp_path / "file" / "store")
    assert caught.value.errno in (errno.ENOTDIR, errno.EEXIST)


def test_a_group_we_may_not_give_is_no_obstacle(tmp_path, monkeypatch):
    def refuse(*_args):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(fsops.os, "chown", refuse)
    os.close(fsops.create_exclusive(tmp_path / "segment", group=0))
    assert mode(tmp_path / "segment") == 0o640


def test_groups():
    assert fsops.find_group("root") == 0
    assert fsops.find_group("no such group here") is None


# Writing


class FaultyWrites:
    """Stands in for os.pwrite; notes where each write started."""

    def __init__(self, monkeypatch, answer):
        self.offsets: list[int] = []
        self.calls = 0
        self._answer = answer
        self._real = os.pwrite
        monkeypatch.setattr(fsops.os, "pwrite", self)

    def __call__(self, fd, data, offset):
        self.calls += 1
        self.offsets.append(offset)
        size = self._answer(self.calls, len(data))
        return self._real(fd, data[:size], offset) if size else 0


def eintr_every_third(call, size):
    if call % 3 == 1:
        raise InterruptedError(errno.EINTR, "Interrupted system call")
    return size // 2 or size


FAULTS = {
    "half": lambda _, size: (size + 1) // 2,
    "512 bytes": lambda _, size: min(size, 512),
    "one byte": lambda _call, _size: 1,
    "0 bytes every other time": lambda call, size: size // 3 or size if call % 2 else 0,
    "EINTR every third time": eintr_every_third,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_short_writes_and_eintr_change_nothing(target, monkeypatch, fault):
    """R38: identical to the unfaulted run."""
    FaultyWrites(monkeypatch, FAULTS[fault])
    fsops.write_all(target.fd, memoryview(DATA), 4096, path=target.path)
    assert target.path.read_bytes() == bytes(4096) + DATA


def crooked(call, size):
    """Half, seven bytes short of everything, nothing, all of it."""
    return [(size + 1) // 2, max(size - 7, 0), 0, size][call % 4]


@pytest.mark.parametrize("fault", [crooked, FAULTS["512 bytes"]])
def test_with_direct_io_every_write_starts_aligned(target, monkeypatch, fault):
    """R38: the retry restarts at an aligned place, over the same bytes; no block twice."""
    writes = FaultyWrites(monkeypatch, fault)
    fsops.write_all(target.fd, memoryview(DATA), 8192, path=target.path, align=512)
    assert all(offset % 512 == 0 for offset in writes.offsets)
    assert target.path.read_bytes() == bytes(8192) + DATA


def test_pieces_smaller_than_the_alignment_are_a_refusal_of_direct_io(target, monkeypatch):
    """R38: with align 4096, a file system that takes 512 bytes at a time gets nowhere. The
    errno is the one that makes the caller fall back to plain writes, which then succeed."""
    FaultyWrites(monkeypatch, FAULTS["512 bytes"])
    with pytest.raises(StoreError) as caught:
        fsops.write_all(target.fd, memoryview(DATA), 0, path=target.path, align=4096)
    assert caught.value.errno == errno.EINVAL
    fsops.write_all(target.fd, memoryview(DATA), 0, path=target.path)
    assert target.path.read_bytes() == DATA


def test_the_last_piece_may_end_anywhere(target, monkeypatch):
    FaultyWrites(monkeypatch, lambda _, size: size)
    fsops.write_all(target.fd, memoryview(DATA[:700]), 0, path=target.path, align=512)
    assert target.path.read_bytes() == DATA[:700]


def test_a_file_system_that_takes_nothing_is_given_up(target, monkeypatch):
    """R38: 0 bytes again and again ends in an error, not in an endless loop."""
    writes = FaultyWrites(monkeypatch, lambda _call, _size: 0)
    with pytest.raises(StoreError) as caught:
        fsops.write_all(target.fd, DATA, 0, path=target.path)
    assert caught.value.errno == errno.EIO
    assert writes.calls < 100


def test_a_fault_after_a_part_is_reported(target, monkeypatch):
    def full(call, size):
        if call == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return size // 2

    FaultyWrites(monkeypatch, full)
    with pytest.raises(StoreError, match="ENOSPC") as caught:
        fsops.write_all(target.fd, DATA, 0, path=target.path)
    assert caught.value.errno == errno.ENOSPC
    assert "limits" in (caught.value.hint or "")


def test_nothing_to_write(target):
    fsops.write_all(target.fd, b"", 0, path=target.path)
    assert target.path.stat().st_size == 0


def test_direct_writes_arrive(tmp_path):
    """R08: the real thing, where this file system takes it."""
    path = tmp_path / "direct"
    try:
        fd = fsops.create_exclusive(path, direct=True)
    except StoreError as exc:
        pytest.skip(f"no direct I/O here: {exc}")
    memory = mmap.mmap(-1, len(DATA))
    memory[:] = DATA
    with memoryview(memory) as view:
        fsops.write_all(fd, view, 4096, path=path, align=4096)
    fsops.set_direct(fd, path, on=False)
    fsops.write_all(fd, b"tail", 4096 + len(DATA), path=path)
    fsops.fdatasync(fd, path=path)
    fsops.drop_cache(fd, path=path)
    fsops.close(fd, path=path)
    assert path.read_bytes() == bytes(4096) + DATA + b"tail"


# Renaming, syncing, space


@pytest.mark.parametrize("known", [True, False])
def test_rename_never_overwrites(tmp_path, monkeypatch, known):
    """R59: with the kernel's own verb, and on file systems that have none."""
    if not known:
        monkeypatch.setattr(fsops, "_renameat2_noreplace", lambda *_: errno.EINVAL)
    source, target = tmp_path / "a.open", tmp_path / "a"
    write_file(source, b"new")
    write_file(target, b"old")
    with pytest.raises(StoreError) as caught:
        fsops.rename_noreplace(source, target)
    assert caught.value.errno == errno.EEXIST
    assert (source.read_bytes(), target.read_bytes()) == (b"new", b"old")
    target.unlink()
    fsops.rename_noreplace(source, target)
    assert target.read_bytes() == b"new"
    assert not source.exists()


def test_rename_of_what_is_not_there(tmp_path):
    with pytest.raises(StoreError) as caught:
        fsops.rename_noreplace(tmp_path / "a", tmp_path / "b")
    assert caught.value.errno == errno.ENOENT


@pytest.mark.parametrize(
    ("call", "act"),
    [
        ("fdatasync", lambda t: fsops.fdatasync(t.fd, path=t.path)),
        ("ftruncate", lambda t: fsops.truncate(t.fd, 0, path=t.path)),
        ("fsync", lambda t: fsops.sync_directory(t.path.parent)),
        ("posix_fadvise", lambda t: fsops.drop_cache(t.fd, path=t.path)),
        ("statvfs", lambda t: fsops.free_bytes(t.path)),
    ],
)
def test_every_refusal_names_errno_and_path(target, monkeypatch, call, act):
    def refuse(*_args):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fsops.os, call, refuse)
    with pytest.raises(StoreError, match="EIO") as caught:
        act(target)
    assert caught.value.errno == errno.EIO
    assert str(target.path.parent) in str(caught.value)
    assert caught.value.hint


def test_free_space_is_what_is_left_for_us(monkeypatch, tmp_path):
    """R39: f_bavail * f_frsize; neither f_bfree (root's reserve) nor f_bsize (not its unit)."""
    answer = SimpleNamespace(f_bavail=10, f_bfree=30, f_frsize=512, f_bsize=65536)
    monkeypatch.setattr(fsops.os, "statvfs", lambda _: answer)
    assert fsops.free_bytes(tmp_path) == 5120
    assert fsops.free_space(tmp_path) == (5120, 15360)
