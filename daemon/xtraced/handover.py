"""The memory that outlives the process: staging buffers in a memfd that somebody else keeps.

systemd keeps it in its store of file descriptors (FDSTORE=1 of sd_notify(3)) and hands it to
the next process of the unit, as anybody else can by the same convention (sd_listen_fds(3)).
So what a service had taken out of the rings when it was killed is still there, and its
successor stores it first.

    control     who and how many; each buffer's serial and number of blocks; the metadata
    tables      a header of 128 bytes for each block that each buffer has room for
    buffers     as xtraced.staging has them

A block exists from the moment that its buffer's number of blocks counts it: its payload and
its header are there by then, and the ring's consumer index is moved only afterwards.
daemon/DESIGN.md, "Hand-over", goes through the instants at which a service can die.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Mapping, Sequence
from typing import Self

import structlog
import xxhash

from tracelib.errors import DataError
from tracelib.segment.block import HEADER_BYTES, PAGE, BlockHeader, Kind
from tracelib.segment.metadata import Metadata
from tracelib.store.handover import Staged
from xtraced.notify import Notifier
from xtraced.settings import Settings

NAME = "xtraced-staging"
"""Of the descriptor, in the keeper's hands."""

_MAGIC = b"XTRSTAGE"
_VERSION = 1
_HEAD = struct.Struct("<8sIIQ")
"""Magic, layout version, number of buffers, bytes of each."""
_CHECK = struct.Struct("<Q")
_COUNTERS_AT = 1024
"""Two 64-bit numbers a buffer: serial, blocks."""
_METADATA_AT = 8192
_METADATA = struct.Struct("<QI")
"""Checksum, length; the bytes follow."""
_CONTROL = 64 << 10
_MOST_BUFFERS = (_METADATA_AT - _COUNTERS_AT) // 16

_FIRST_FD = 3

log = structlog.get_logger("handover")


class StagingMemory:
    """The memory of one pool, and what lies in it when it comes from a predecessor."""

    def __init__(self, buffers: int, buffer_bytes: int, fd: int | None = None) -> None:
        """Memory for so many buffers, in the memfd `fd`, which then is this object's and holds
        nothing else any more; or in nothing that outlives the process."""
        if buffer_bytes % PAGE:
            raise ValueError(f"a staging buffer is whole pages, not {buffer_bytes} bytes")
        if not 0 < buffers <= _MOST_BUFFERS:
            raise ValueError(f"{buffers} staging buffers")
        size, self._tables_at, self._buffers_at = _layout(buffers, buffer_bytes)
        if fd is not None:
            os.ftruncate(fd, 0)
            os.ftruncate(fd, size)
        self.buffers = buffers
        self.buffer_bytes = buffer_bytes
        self._map = mmap.mmap(-1 if fd is None else fd, size)
        self._view = memoryview(self._map)
        self._counters = _counters(self._view, buffers)
        self._serial = 0
        head = _HEAD.pack(_MAGIC, _VERSION, buffers, buffer_bytes)
        self._view[: len(head) + _CHECK.size] = head + _CHECK.pack(xxhash.xxh3_64_intdigest(head))

    @classmethod
    def of(cls, settings: Settings, fd: int | None = None) -> Self:
        """As large as the settings want it."""
        return cls(settings.writer.buffers, settings.writer.buffer_bytes, fd)

    def buffer(self, number: int) -> memoryview:
        """One buffer's memory, page-aligned."""
        start = self._buffers_at + number * self.buffer_bytes
        return self._view[start : start + self.buffer_bytes]

    def begin(self, number: int) -> None:
        """A buffer is taken into use; it has no blocks."""
        self._serial += 1
        self._counters[2 * number] = self._serial

    def commit(self, number: int, place: int, header: BlockHeader) -> None:
        """A buffer has its `place`-th block, whose payload is there: from now on a successor
        finds it. The header's checksum is taken as it is."""
        at = _entry_at(self._tables_at, self.buffer_bytes, number, place)
        self._view[at : at + HEADER_BYTES] = header.encode(b"")
        self._counters[2 * number + 1] = place + 1

    def empty(self, number: int) -> None:
        """A buffer's blocks are stored, or counted as lost."""
        self._counters[2 * number + 1] = 0

    def release(self, number: int) -> None:
        """Give a buffer's memory back to the kernel; it reads as zeros then."""
        start = self._buffers_at + number * self.buffer_bytes
        self._map.madvise(mmap.MADV_REMOVE, start, self.buffer_bytes)

    def note_run(self, metadata: Metadata) -> None:
        """What this service says of itself, for segments that a successor begins for it."""
        encoded = metadata.encode()
        if len(encoded) <= _CONTROL - _METADATA_AT - _METADATA.size:
            head = _METADATA.pack(xxhash.xxh3_64_intdigest(encoded), len(encoded))
            self._view[_METADATA_AT : _METADATA_AT + len(head) + len(encoded)] = head + encoded


class Legacy:
    """What a service that is gone left in its staging memory."""

    def __init__(
        self, staged: Sequence[Staged], metadata: Metadata | None, *, damaged: bool = False
    ) -> None:
        self.staged = staged
        """Its blocks, in the order in which it took them; views into that memory."""
        self.metadata = metadata
        """None if it had said nothing yet, or was just saying it."""
        self.damaged = damaged
        """Blocks are missing among these. The rings' positions may not tell, since later
        blocks of the same ring can be there."""

    @classmethod
    def read(cls, fd: int | None) -> Self:
        """Of a memfd. None or an empty one is nothing; so is one that is not understood, which
        is logged: its records will be missing, and the rings' positions tell."""
        size = 0 if fd is None else os.fstat(fd).st_size
        if fd is None or size == 0:
            return cls((), None)
        whole = memoryview(mmap.mmap(fd, size, prot=mmap.PROT_READ))
        reason = _not_understood(whole)
        if reason is not None:
            log.error("staging_not_understood", reason=reason)
            return cls((), None)
        staged, damaged = _staged(whole)
        return cls(staged, _metadata(whole), damaged=damaged)


def keep(kept: int | None, notifier: Notifier) -> int | None:
    """The memfd to stage in: the one that came to us, or a new one for the manager to keep.
    None where nobody would keep it, or the kernel gives none."""
    if kept is not None or not notifier.active:
        return kept
    try:
        fd = os.memfd_create(NAME, os.MFD_CLOEXEC)
    except OSError as exc:
        log.warning("no_hand_over", reason=f"memfd_create: {exc.strerror}")
        return None
    notifier.keep(fd, NAME)
    return fd


def inherited(environ: Mapping[str, str] = os.environ, pid: int | None = None) -> int | None:
    """The descriptor of staging memory that came with the environment (sd_listen_fds(3)),
    made close-on-exec; None if there is none."""
    mine = str(os.getpid() if pid is None else pid)
    count = environ.get("LISTEN_FDS", "")
    if environ.get("LISTEN_PID") != mine or not (count.isascii() and count.isdigit()):
        return None
    names = environ.get("LISTEN_FDNAMES", "").split(":")
    found = None
    for place, name in zip(range(int(count)), names, strict=False):
        fd = _FIRST_FD + place
        if name != NAME:
            continue
        if found is not None:
            log.warning("staging_twice", fd=fd)
            continue
        reason = _not_memory(fd)
        if reason is not None:
            log.error("staging_not_understood", reason=f"descriptor {fd}: {reason}")
            continue
        os.set_inheritable(fd, False)
        found = fd
    return found


def _not_memory(fd: int) -> str | None:
    """Why a descriptor is no memory to stage in. A file with a name is somebody's: it would
    be emptied."""
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
        writable = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
        named = os.fstat(fd).st_nlink > 0
    except OSError as exc:
        return f"no memfd: {exc.strerror}"
    if named:
        return "no memfd, but a file with a name"
    if seals & ~fcntl.F_SEAL_SEAL:
        return "it is sealed"
    return None if writable else "it is not open for writing"


def _layout(buffers: int, buffer_bytes: int) -> tuple[int, int, int]:
    """Bytes in all, and where tables and buffers start."""
    table = -(-buffer_bytes // PAGE * HEADER_BYTES // PAGE) * PAGE
    tables_at = _CONTROL
    buffers_at = tables_at + buffers * table
    return buffers_at + buffers * buffer_bytes, tables_at, buffers_at


def _entry_at(tables_at: int, buffer_bytes: int, number: int, place: int) -> int:
    table = -(-buffer_bytes // PAGE * HEADER_BYTES // PAGE) * PAGE
    return tables_at + number * table + place * HEADER_BYTES


def _counters(view: memoryview, buffers: int) -> memoryview:
    return view[_COUNTERS_AT : _COUNTERS_AT + 16 * buffers].cast("Q")


def _not_understood(whole: memoryview) -> str | None:
    if len(whole) < _CONTROL:
        return f"{len(whole)} bytes are too few"
    head = bytes(whole[: _HEAD.size])
    magic, version, buffers, buffer_bytes = _HEAD.unpack(head)
    if magic != _MAGIC or _CHECK.unpack_from(whole, _HEAD.size)[0] != xxhash.xxh3_64_intdigest(
        head
    ):
        return "no staging memory"
    if version != _VERSION:
        return f"layout version {version}; this release knows {_VERSION}"
    if buffers > _MOST_BUFFERS or _layout(buffers, buffer_bytes)[0] != len(whole):
        return f"{buffers} buffers of {buffer_bytes} bytes in {len(whole)} bytes"
    return None


def _staged(whole: memoryview) -> tuple[list[Staged], bool]:
    """The blocks that count, and whether some of them cannot be read."""
    _, _, buffers, buffer_bytes = _HEAD.unpack_from(whole)
    _, tables_at, buffers_at = _layout(buffers, buffer_bytes)
    counters = _counters(whole, buffers).tolist()
    found, damaged = [], False
    for number in sorted(range(buffers), key=lambda number: counters[2 * number]):
        offset = buffers_at + number * buffer_bytes
        end = offset + buffer_bytes
        for place in range(min(counters[2 * number + 1], buffer_bytes // PAGE)):
            at = _entry_at(tables_at, buffer_bytes, number, place)
            try:
                header = BlockHeader.decode(whole[at : at + HEADER_BYTES])
            except DataError as exc:
                log.error("staging_damaged", buffer=number, block=place, reason=str(exc))
                damaged = True
                break
            payload = whole[offset + HEADER_BYTES : offset + HEADER_BYTES + header.payload_bytes]
            if header.kind != Kind.RECORDS or offset + header.block_bytes > end:
                log.error("staging_damaged", buffer=number, block=place, reason="no such block")
                damaged = True
                break
            found.append(Staged(header, payload))
            offset += header.block_bytes
    return found, damaged


def _metadata(whole: memoryview) -> Metadata | None:
    check, length = _METADATA.unpack_from(whole, _METADATA_AT)
    start = _METADATA_AT + _METADATA.size
    if not length or start + length > _CONTROL:
        return None
    encoded = bytes(whole[start : start + length])
    if xxhash.xxh3_64_intdigest(encoded) != check:
        return None
    try:
        return Metadata.decode(encoded)
    except DataError:
        return None
