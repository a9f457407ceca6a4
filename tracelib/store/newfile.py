"""A file that has its name only when all of it is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracelib.store import fsops


class NewFile:
    """Takes bytes, in order."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path
        self.size = 0

    def write(self, data: bytes | memoryview) -> None:
        """Raises StoreError."""
        fsops.write_all(self._descriptor, data, self.size, path=self._path)
        self.size += len(data)


@contextmanager
def new_file(path: Path) -> Iterator[NewFile]:
    """Durable and named `path` at the end of the block; gone if an exception ends it. Never
    takes the place of a file that is there. Raises StoreError."""
    # Not made of the file's name, which may be as long as names can be.
    temporary = path.with_name(f".xtracectl-{os.urandom(8).hex()}")
    descriptor = fsops.create_exclusive(temporary, shown=path)
    try:
        yield NewFile(descriptor, path)
        fsops.fdatasync(descriptor, path=path)
        fsops.rename_noreplace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    fsops.sync_directory(path.parent)
