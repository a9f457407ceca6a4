"""Which segments a store directory holds.

Only regular files with a segment's name count. Symlinks, directories and everything else
are left alone: retention deletes by this list, so what is not on it is safe.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from tracelib.errors import StoreError
from tracelib.store.fsops import translated
from tracelib.store.names import FIRST_SEQUENCE, SegmentName, parse_name

_T = TypeVar("_T")


class SegmentEntry(NamedTuple):
    """One segment file."""

    path: Path
    name: SegmentName
    bytes: int

    @property
    def sequence(self) -> int:
        return self.name.sequence

    @property
    def sealed(self) -> bool:
        """False while it is written, and for what a crash left."""
        return self.name.sealed

    @property
    def sealed_path(self) -> Path:
        """What it is called after its seal."""
        return self.path.with_name(self.name.as_sealed().text)


def list_segments(directory: Path) -> list[SegmentEntry]:
    """Every segment of the store, lowest sequence number first. Raises StoreError."""
    found: list[SegmentEntry] = []
    with translated("list", directory), os.scandir(directory) as entries:
        for entry in entries:
            name = parse_name(entry.name)
            if name is not None and (size := _regular_file_bytes(entry)) is not None:
                found.append(SegmentEntry(directory / entry.name, name, size))
    return sorted(found, key=lambda entry: (entry.sequence, entry.name.text))


def _regular_file_bytes(entry: os.DirEntry[str]) -> int | None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        # Deleted by retention, or renamed at its seal, since the directory was read.
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def open_entry(entry: SegmentEntry, open_path: Callable[[Path], _T]) -> _T | None:
    """`open_path` of a listed segment, also if it was sealed and renamed since the listing;
    None if it was deleted. Raises StoreError for other refusals."""
    for path in (entry.path, entry.sealed_path):
        try:
            return open_path(path)
        except StoreError as exc:
            if exc.errno != errno.ENOENT:
                raise
    return None


def next_sequence(directory: Path) -> int:
    """The number for the next segment: above every name that looks like a segment's,
    whatever kind of file has it. Raises StoreError."""
    with translated("list", directory), os.scandir(directory) as entries:
        names = [parse_name(entry.name) for entry in entries]
    return max((name.sequence + 1 for name in names if name), default=FIRST_SEQUENCE)
