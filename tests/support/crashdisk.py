"""A disk that crashes: records what a program asks of the file system, and yields every
state in which a crash may leave it.

The rules are those that a journalling file system gives, and no more: what was synced is
there; of a file's writes since its last sync there is any number of the first ones, the last
of them perhaps only in part, or the file has its new length and zeros in place of one page
or of all; of a directory's changes since its last sync there is any number of the first ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pytest

from tracelib.store import fsops

SECTOR = 512
PAGE = 4096


@dataclass
class Operation:
    """One thing asked of the file system: a verb and what it concerns."""

    verb: str
    file: int = -1
    name: str = ""
    target: str = ""
    offset: int = 0
    data: bytes = b""


@dataclass
class _File:
    """What a crash may leave of one file."""

    synced: bytes = b""
    pending: list[Operation] = field(default_factory=list)

    def content(self, operations: list[Operation]) -> bytes:
        data = bytearray(self.synced)
        for operation in operations:
            if operation.verb == "truncate":
                del data[operation.offset :]
                continue
            data.extend(bytes(max(0, operation.offset - len(data))))
            data[operation.offset : operation.offset + len(operation.data)] = operation.data
        return bytes(data)

    def states(self) -> list[bytes]:
        """Without doubles."""
        found = {self.content(self.pending[:n]) for n in range(len(self.pending) + 1)}
        for n, last in enumerate(self.pending):
            for torn in (SECTOR, *range(PAGE, len(last.data), PAGE)):
                part = Operation("write", offset=last.offset, data=last.data[:torn])
                found.add(self.content([*self.pending[:n], part]))
        whole = self.content(self.pending)
        found.add(self.synced[: len(whole)].ljust(len(whole), b"\0"))
        for page in range(len(self.synced) // PAGE * PAGE, len(whole), PAGE):
            found.add(whole[:page] + bytes(len(whole[page : page + PAGE])) + whole[page + PAGE :])
        return sorted(found)


class CrashDisk:
    """Notes the operations of fsops in one directory, while they are done for real."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.operations: list[Operation] = []
        self._directory = directory
        self._files: dict[int, int] = {}
        self._inodes: dict[str, int] = {}
        self._initial = {path.name: path.read_bytes() for path in directory.iterdir()}
        for number, name in enumerate(sorted(self._initial)):
            self._inodes[name] = number
        self._initial_inodes = dict(self._inodes)
        self._patch(monkeypatch)

    def _patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for verb in ("open", "pwrite", "ftruncate", "fdatasync", "fsync", "unlink"):
            replacement = getattr(self, f"_{verb}")
            monkeypatch.setattr(os, verb, replacement(getattr(os, verb)))
        rename = self._rename(fsops._renameat2_noreplace)  # type: ignore[no-untyped-call]
        monkeypatch.setattr(fsops, "_renameat2_noreplace", rename)

    def _note(self, verb: str, **what: object) -> None:
        self.operations.append(Operation(verb, **what))  # type: ignore[arg-type]

    def _ours(self, path: object) -> str | None:
        place = Path(os.fspath(path))  # type: ignore[call-overload]
        return place.name if place.parent == self._directory else None

    def _open(self, real):  # type: ignore[no-untyped-def]
        def act(path, flags, *args, **kwargs):  # type: ignore[no-untyped-def]
            fd = real(path, flags, *args, **kwargs)
            name = self._ours(path)
            self._files.pop(fd, None)
            if name is not None and flags & os.O_CREAT and name not in self._inodes:
                self._inodes[name] = 1000 + len(self.operations)
                self._note("create", file=self._inodes[name], name=name)
            if name is not None and name in self._inodes:
                self._files[fd] = self._inodes[name]
            return fd

        return act

    def _pwrite(self, real):  # type: ignore[no-untyped-def]
        def act(fd, data, offset):  # type: ignore[no-untyped-def]
            taken = real(fd, data, offset)
            self._note("write", file=self._files[fd], offset=offset, data=bytes(data[:taken]))
            return taken

        return act

    def _ftruncate(self, real):  # type: ignore[no-untyped-def]
        def act(fd, size):  # type: ignore[no-untyped-def]
            real(fd, size)
            self._note("truncate", file=self._files[fd], offset=size)

        return act

    def _fdatasync(self, real):  # type: ignore[no-untyped-def]
        def act(fd):  # type: ignore[no-untyped-def]
            real(fd)
            self._note("sync", file=self._files[fd])

        return act

    def _fsync(self, real):  # type: ignore[no-untyped-def]
        def act(fd):  # type: ignore[no-untyped-def]
            real(fd)
            if fd in self._files:
                self._note("sync", file=self._files[fd])
            else:
                self._note("sync directory")

        return act

    def _unlink(self, real):  # type: ignore[no-untyped-def]
        def act(path, **kwargs):  # type: ignore[no-untyped-def]
            real(path, **kwargs)
            if (name := self._ours(path)) is not None:
                self._inodes.pop(name)
                self._note("unlink", name=name)

        return act

    def _rename(self, real):  # type: ignore[no-untyped-def]
        def act(source, target):  # type: ignore[no-untyped-def]
            number = real(source, target)
            if number == 0:
                self._inodes[target.name] = self._inodes.pop(source.name)
                self._note("rename", name=source.name, target=target.name)
            return number

        return act

    def crashes(self) -> Iterator[tuple[int, dict[str, bytes]]]:
        """(number of operations done, the directory's files) for every legal state after a
        crash at any moment."""
        for done in range(len(self.operations) + 1):
            for state in self._after(done):
                yield done, state

    def _after(self, done: int) -> Iterator[dict[str, bytes]]:
        files = {
            self._initial_inodes[name]: _File(data) for name, data in self._initial.items()
        }
        names = dict(self._initial_inodes)
        unsynced: list[Operation] = []
        for operation in self.operations[:done]:
            match operation.verb:
                case "create":
                    files[operation.file] = _File()
                    unsynced.append(operation)
                case "write" | "truncate":
                    files[operation.file].pending.append(operation)
                case "sync":
                    file = files[operation.file]
                    file.synced, file.pending = file.content(file.pending), []
                case "sync directory":
                    names = _renamed(names, unsynced)
                    unsynced = []
                case _:
                    unsynced.append(operation)
        for count in range(len(unsynced) + 1):
            left = _renamed(names, unsynced[:count])
            for contents in product(*(files[file].states() for file in left.values())):
                yield dict(zip(left, contents, strict=True))


def _renamed(names: dict[str, int], changes: list[Operation]) -> dict[str, int]:
    names = dict(names)
    for change in changes:
        match change.verb:
            case "create":
                names[change.name] = change.file
            case "unlink":
                names.pop(change.name)
            case "rename":
                names[change.target] = names.pop(change.name)
    return names
