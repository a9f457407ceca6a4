"""Disks that misbehave: one in the test's hand, and file systems of every kind to mount."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

import pytest

HERE = Path(__file__).parent


class Shape(IntEnum):
    """What every third write does."""

    WHOLE = 0
    HALF = 1
    SECTOR = 2
    """512 bytes."""
    NOTHING = 3
    INTERRUPTED = 4


class _Control(ctypes.Structure):
    """struct control of disk.c."""

    _fields_ = (
        ("frozen", ctypes.c_uint32),
        ("write_error", ctypes.c_uint32),
        ("sync_error", ctypes.c_uint32),
        ("sync_errors", ctypes.c_uint32),
        ("shape", ctypes.c_uint32),
        ("held", ctypes.c_uint32),
        ("direct_error", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
        ("rate", ctypes.c_uint64),
        ("writes", ctypes.c_uint64),
    )


class TestDisk:
    """Stands between a service and the segments it writes below `directory`.

    Give `environ` to the service's process. The knobs work at once, while it runs.
    """

    __test__ = False

    def __init__(self, scratch: Path, directory: Path) -> None:
        """Skips the test where there is no C compiler."""
        library, page = scratch / "disk.so", scratch / "disk.control"
        _build(library)
        page.write_bytes(bytes(ctypes.sizeof(_Control)))
        directory.mkdir(parents=True, exist_ok=True)
        with page.open("r+b") as file:
            self._control = _Control.from_buffer(mmap.mmap(file.fileno(), 0))
        self.environ = {
            "LD_PRELOAD": str(library), "TEST_DISK_CONTROL": str(page),
            "TEST_DISK_DIRECTORY": str(directory),
        }  # fmt: skip

    def freeze(self) -> None:
        """Hold every write and sync from now on."""
        self._control.frozen = 1

    def thaw(self) -> None:
        self._control.frozen = 0

    @property
    def held(self) -> int:
        """Calls that are being held."""
        return int(self._control.held)

    def refuse(self, number: int) -> None:
        """Every write fails with this errno; 0 for no more."""
        self._control.write_error = number

    def refuse_direct(self, number: int) -> None:
        """Every write with O_DIRECT fails with this errno."""
        self._control.direct_error = number

    def refuse_syncs(self, number: int, count: int) -> None:
        """The next `count` syncs fail with this errno."""
        self._control.sync_error = number
        self._control.sync_errors = count

    def limit(self, rate: int) -> None:
        """Bytes a second; 0 for as many as the real disk takes."""
        self._control.rate = rate

    def shape(self, shape: Shape) -> None:
        self._control.shape = shape

    def heal(self) -> None:
        """A disk like any other again."""
        ctypes.memset(ctypes.addressof(self._control), 0, _Control.held.offset)
        self._control.direct_error = 0
        self._control.rate = 0


def _build(library: Path) -> None:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("needs a C compiler")
    command = [compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", str(library), str(HERE / "disk.c"), "-ldl"], check=True)


# File systems of their own; needs root


def need(*programs: str) -> None:
    """Skip the test unless it runs as root and these programs are there."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")


@contextmanager
def loop_device(image: Path, size: int | None, *, sector: int = 512) -> Iterator[Path]:
    """A block device backed by a new sparse file of `size` bytes, or by one that is there."""
    need("losetup")
    if size is not None:
        with image.open("wb") as file:
            file.truncate(size)
    attach = ["losetup", "--find", "--show", "--sector-size", str(sector), str(image)]
    device = subprocess.run(attach, capture_output=True, text=True, check=False)
    if device.returncode:
        pytest.skip(f"no loop device: {device.stderr.strip()}")
    path = Path(device.stdout.strip())
    try:
        yield path
    finally:
        subprocess.run(["losetup", "--detach", str(path)], check=True)


@contextmanager
def mounted(where: Path, kind: str, device: str, options: str = "defaults") -> Iterator[Path]:
    """Something mounted at `where`, as mount(8) has it."""
    need("mount", "umount")
    where.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", kind, "-o", options, device, str(where)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount {kind}: {done.stderr.strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", str(where)], check=True)


@contextmanager
def filesystem(
    scratch: Path, kind: str, size: int, *, sector: int = 512, make: tuple[str, ...] = ()
) -> Iterator[Path]:
    """A new file system: tmpfs, overlay, or ext4 or xfs on a loop device of `size` bytes.

    `make` are more arguments for mkfs.
    """
    where = scratch / kind
    if kind == "tmpfs":
        with mounted(where, "tmpfs", "tmpfs", f"size={size}") as path:
            yield path
    elif kind == "overlay":
        with _overlay(scratch, where) as path:
            yield path
    else:
        need(f"mkfs.{kind}")
        with loop_device(scratch / f"{kind}.image", size, sector=sector) as device:
            quiet = ("-q",)
            subprocess.run([f"mkfs.{kind}", *quiet, *make, str(device)], check=True)
            with mounted(where, kind, str(device)) as path:
                yield path


@contextmanager
def _overlay(scratch: Path, where: Path) -> Iterator[Path]:
    """Over a directory of the file system that the test runs on."""
    names = [scratch / name for name in ("lower", "upper", "work")]
    for name in names:
        name.mkdir()
    options = ",".join(f"{name.name}dir={name}" for name in names)
    with mounted(where, "overlay", "overlay", options) as path:
        yield path


@contextmanager
def frozen(mount: Path) -> Iterator[None]:
    """The file system takes no writes meanwhile: they wait in the kernel (FIFREEZE)."""
    need("fsfreeze")
    subprocess.run(["fsfreeze", "--freeze", str(mount)], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(mount)], check=False)


@contextmanager
def public_directory() -> Iterator[Path]:
    """A directory that other users can get to, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="xtraced-test-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path
