"""Reading blocks out of a segment file, damaged or not, finished or not.

Everything is read with pread: a mapped file would kill the reader with SIGBUS when it is
cut short meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tracelib.errors import DamageError, DataError, FormatError, StoreError
from tracelib.segment.block import HEADER_BYTES, MAGIC, PAGE, BlockHeader, verify_payload
from tracelib.store.fsops import translated

_RESYNC_BYTES = 256 * PAGE
_ZEROS = "zeros where a block should be"


class Buffer:
    """Memory that is used again and again; what it gave before is overwritten."""

    def __init__(self) -> None:
        self._memory = memoryview(bytearray(64 << 10))

    def take(self, size: int) -> memoryview:
        if size > len(self._memory):
            # A new one: the old one cannot grow while somebody still looks at it.
            self._memory = memoryview(bytearray(max(size, 2 * len(self._memory))))
        return self._memory[:size]


class Found(NamedTuple):
    """An intact block."""

    offset: int
    header: BlockHeader
    payload: memoryview
    padding: memoryview
    """Both valid until the next step, and empty if only headers were asked for."""

    @property
    def end(self) -> int:
        return self.offset + self.header.block_bytes


class Gap(NamedTuple):
    """Bytes that hold no intact block."""

    offset: int
    bytes: int
    reason: str

    @property
    def zeros(self) -> bool:
        """Does it start with a page of zeros, as a file has that grew but was not written?"""
        return self.reason == _ZEROS


class BlockFile:
    """A file of blocks, open for reading. `size` is as of `refresh`."""

    def __init__(self, path: Path, fd: int | None = None) -> None:
        """Opens `path`, or takes over a descriptor of it. Raises StoreError; FormatError for
        what is no regular file."""
        self.path = path
        self.name = str(path)
        with translated("open", path):
            # Without O_NONBLOCK, opening a fifo would wait for its writer.
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
            self._fd = os.open(path, flags) if fd is None else fd
            status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise FormatError("not a regular file", file=self.name)
        self.size = status.st_size

    def duplicate(self) -> BlockFile:
        """The same file, whatever has its name by now, open for another reader."""
        with translated("open", self.path):
            return BlockFile(self.path, os.dup(self._fd))

    def is_deleted(self) -> bool:
        """No name leads to it any more."""
        with translated("look at", self.path):
            return os.fstat(self._fd).st_nlink == 0

    def refresh(self) -> bool:
        """Look at the size again; True if the file has grown."""
        before = self.size
        with translated("look at", self.path):
            self.size = os.fstat(self._fd).st_size
        return self.size > before

    def read(self, offset: int, view: memoryview) -> int:
        """Fill `view` from the file; fewer bytes only at its end. Raises DamageError for what
        the disk cannot read any more, StoreError for anything else."""
        done = 0
        try:
            with translated("read", self.path):
                while done < len(view):
                    got = os.preadv(self._fd, [view[done:]], offset + done)
                    if got == 0:
                        break
                    done += got
        except StoreError as exc:
            if exc.errno == errno.EIO:
                raise DamageError(exc.message, file=self.name, offset=offset) from exc
            raise
        return done

    def header(self, offset: int, buffer: Buffer) -> BlockHeader:
        """The header of the block at `offset`, whose payload is in the file as far as the
        file's size says. (The last block's padding may be missing.)

        Raises DamageError, FormatError, StoreError.
        """
        view = buffer.take(HEADER_BYTES)
        header = BlockHeader.decode(view[: self.read(offset, view)])
        if offset + HEADER_BYTES + header.payload_bytes > self.size:
            raise _cut(self.size - offset, header)
        return header

    def block(self, offset: int, size: int, buffer: Buffer) -> Found:
        """The block of `size` bytes at `offset`, header and payload checked.

        Raises DamageError, FormatError, StoreError.
        """
        view = buffer.take(size)
        got = self.read(offset, view)
        header = BlockHeader.decode(view[:got])
        end = HEADER_BYTES + header.payload_bytes
        if end > got:
            raise _cut(got, header)
        verify_payload(view, header)
        return Found(offset, header, view[HEADER_BYTES:end], view[end : header.block_bytes])

    def walk(self, start: int = 0, *, payloads: bool) -> Iterator[Found | Gap]:
        """Every intact block from `start` to the end of the file, and what lies between.

        Where there is no intact block, the walk goes on at the next page that starts one.
        With `payloads` false only headers are read and checked.
        """
        buffer = Buffer()
        offset = start
        while offset < self.size:
            looked = self._look(offset, buffer, payloads=payloads)
            if isinstance(looked, Found):
                found: Found | None = looked
            else:
                resumed, found = self._resync(offset + PAGE, buffer, payloads=payloads)
                yield Gap(offset, resumed - offset, looked)
            if found is None:
                return
            yield found
            offset = found.end

    def _look(self, offset: int, buffer: Buffer, *, payloads: bool) -> Found | str:
        """The intact block at `offset`, or why there is none."""
        try:
            header = self.header(offset, buffer)
            if not payloads:
                return Found(offset, header, buffer.take(0), buffer.take(0))
            return self.block(offset, header.block_bytes, buffer)
        except DataError as exc:
            return self._zeros_or(exc.reason, offset, buffer)

    def _zeros_or(self, reason: str, offset: int, buffer: Buffer) -> str:
        view = buffer.take(PAGE)
        try:
            got = self.read(offset, view)
        except DamageError:
            return reason
        return reason if any(view[:got]) else _ZEROS

    def _resync(
        self, offset: int, buffer: Buffer, *, payloads: bool
    ) -> tuple[int, Found | None]:
        """The next intact block at a page from `offset` on; the file's end if there is none."""
        for candidate in self._magic_pages(offset):
            found = self._look(candidate, buffer, payloads=payloads)
            if isinstance(found, Found):
                return candidate, found
        return self.size, None

    def _magic_pages(self, offset: int) -> Iterator[int]:
        """Offsets of the pages that start like a block. Pages that cannot be read do not."""
        view = memoryview(bytearray(_RESYNC_BYTES))
        while offset < self.size:
            try:
                got = self.read(offset, view)
            except DamageError:
                if len(view) > PAGE:
                    # One bad page spoils a big read; look at each alone from here on.
                    view = view[:PAGE]
                    continue
                got = 0
            for at in range(0, got, PAGE):
                if view[at : at + 4] == MAGIC:
                    yield offset + at
            offset += len(view)

    def close(self) -> None:
        """Idempotent."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def _cut(here: int, header: BlockHeader) -> DamageError:
    return DamageError(f"block cut: {here} of {header.block_bytes} bytes in the file")
