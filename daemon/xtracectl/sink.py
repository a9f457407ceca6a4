"""Where a dump goes: standard output, or a file that is whole or not there."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tracelib.errors import UsageError
from tracelib.store import fsops
from xtracectl.places import parse_path
from xtracectl.stopping import held

STANDARD_OUTPUT = "-"

_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,9})")


class Sink(Protocol):
    """Takes bytes, in order."""

    def write(self, data: bytes | memoryview) -> None:
        """All of it, before a signal ends the program, unless nobody takes it: what is given
        as whole lines is left behind as whole lines."""

    def flush(self) -> None:
        """Make what was written visible to a reader."""


class _StandardOutput:
    """Failures of writing are OutputError and BrokenPipeError (xtracectl.output)."""

    def write(self, data: bytes | memoryview) -> None:
        with held():
            sys.stdout.buffer.write(data)

    def flush(self) -> None:
        # What a signal interrupts between the write and its being noted is written again.
        with held():
            sys.stdout.flush()


class _File:
    def __init__(self, descriptor: int, path: Path, *, seekable: bool) -> None:
        self._descriptor = descriptor
        self._path = path
        self._offset = 0 if seekable else None

    def write(self, data: bytes | memoryview) -> None:
        with held():
            if self._offset is not None:
                fsops.write_all(self._descriptor, data, self._offset, path=self._path)
                self._offset += len(data)
                return
            view = memoryview(data)
            with fsops.translated("write", self._path):
                while view:
                    view = view[os.write(self._descriptor, view) :]

    def flush(self) -> None:
        """Nothing is held back here."""

    def finish(self) -> None:
        """Make it durable, without what a signal may have left of a piece."""
        if self._offset is not None:
            fsops.truncate(self._descriptor, self._offset, path=self._path)
        fsops.fdatasync(self._descriptor, path=self._path)


@contextmanager
def opened(path: str, *, binary: bool) -> Iterator[Sink]:
    """`path` is a file, or "-". A regular file gets its name only when all is written, and
    takes the place of one that had it. What names a descriptor that we have, as /dev/stdout
    and bash's >(command) do, is that. Raises UsageError for binary data to a terminal and
    for an empty path; StoreError."""
    number = _descriptor(path)
    if number == 1:
        if binary and sys.stdout.isatty():
            raise _refusal("standard output")
        yield _StandardOutput()
        sys.stdout.flush()
        return
    target = parse_path(path)
    if number is not None:
        yield from _given(number, target, binary=binary)
        return
    try:
        special = not stat.S_ISREG(target.stat().st_mode)
    except OSError:
        special = False
    if special:
        yield from _special(target, binary=binary)
    else:
        yield from _regular(target)


def is_shown(path: str) -> bool:
    """Whether what is written goes, or may go through a pipe, to somebody who watches."""
    if _descriptor(path) != 1:
        return False
    try:
        return not stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except OSError:
        return True


def _descriptor(path: str) -> int | None:
    """Which descriptor of ours a path stands for, if it does. Opening it by that name would
    follow a link of the kernel's, and putting a file in its place would destroy the link."""
    if path == STANDARD_OUTPUT:
        return 1
    match = _DESCRIPTOR.fullmatch(path)
    return _STREAMS.get(path) if match is None else int(match[1])


def _given(number: int, path: Path, *, binary: bool) -> Iterator[Sink]:
    """A descriptor that we were started with."""
    with fsops.translated("write", path):
        descriptor = os.dup(number)
    yield from _in_place(descriptor, path, binary=binary)


def _special(path: Path, *, binary: bool) -> Iterator[Sink]:
    """A device or a pipe."""
    yield from _in_place(fsops.open_existing(path), path, binary=binary)


def _in_place(descriptor: int, path: Path, *, binary: bool) -> Iterator[Sink]:
    """Takes over the descriptor."""
    try:
        if binary and os.isatty(descriptor):
            raise _refusal(str(path))
        yield _File(descriptor, path, seekable=False)
    finally:
        os.close(descriptor)


def _regular(path: Path) -> Iterator[Sink]:
    # Not made of the file's name, which may be as long as names can be.
    temporary = path.with_name(f".xtracectl-{os.urandom(8).hex()}")
    descriptor = fsops.create_exclusive(temporary, shown=path)
    try:
        yield (file := _File(descriptor, path, seekable=True))
        file.finish()
        with fsops.translated("rename to", path):
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _refusal(what: str) -> UsageError:
    return UsageError(
        f"{what} is a terminal, and this format is binary",
        hint="give -o FILE, or send it into a pipe",
    )
