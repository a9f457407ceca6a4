"""One door to every kind of trace: `tracelib.open`.

Each reader is imported when there is something for it to read: who sums up a small file
would wait for the others longer than for the file.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tracelib import compressed
from tracelib.chunks import StatefulReader, TraceReader
from tracelib.errors import FormatError, UsageError
from tracelib.kvmtrace import names as kvmtrace
from tracelib.kvmtrace.layout import Kind, magic_order
from tracelib.segment.block import MAGIC, PAGE
from tracelib.store.fsops import translated
from tracelib.store.names import FIRST_SEQUENCE, parse_name
from tracelib.units import CpuId, Tsc

if TYPE_CHECKING:
    from tracelib.store.reader import SegmentReader, StoreReader

STANDARD_INPUT = "-"

_LOOK_PAGES = 16


def open(
    path: str | os.PathLike[str], *, kvmtrace_layout: Kind | None = None
) -> TraceReader:
    """Open a store directory, a segment, an xentrace file or pipe, "-" (standard input), or a
    kvmtrace set: by one of its files, or by what they have in common.

    Decided by what is there, not by the name, except that a file named like a segment is
    one, however damaged, and that a kvmtrace file's name says of which CPU it is. Raises
    StoreError if it cannot be read, FormatError if it is nothing we know, UsageError for an
    empty name or a standard input that is closed. The caller closes the reader.
    """
    name = os.fspath(path)
    if name == STANDARD_INPUT:
        return _open_pipe(_standard_input(), name)
    if members := kvmtrace.members(name):
        from tracelib.kvmtrace.reader import KvmtraceReader

        return KvmtraceReader(members, name, kvmtrace_layout)
    place = Path(name)
    if is_store(name):
        return _store(place)
    if parse_name(place.name) is not None:
        return _segment(place)
    with translated("open", place):
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return _open_pipe(descriptor, name)
    return _reader_of(descriptor, name, place)


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether this is a store: a directory. Raises StoreError if there is nothing, or
    nothing that may be looked at; UsageError for an empty name."""
    name = os.fspath(path)
    if name == STANDARD_INPUT:
        return False
    if not name:
        raise UsageError("an empty name is no file", hint="name a store, a segment or a trace")
    with translated("open", Path(name)):
        return stat.S_ISDIR(Path(name).stat().st_mode)


def _standard_input() -> int:
    """A copy of its descriptor."""
    if sys.stdin is None:
        raise UsageError("standard input is closed", hint="send a trace into it, or name a file")
    return os.dup(sys.stdin.fileno())


def _reader_of(descriptor: int, name: str, place: Path) -> TraceReader:
    """The reader for a file with this content; takes over the descriptor."""
    try:
        with translated("read", place):
            start = os.pread(descriptor, compressed.LOOK_BYTES, 0)
        compressed.refuse(start, name)
        if magic_order(start) is not None:
            raise FormatError(
                "it begins as kvmtrace's files do, whose names tell the CPU", file=name, offset=0,
                hint="call it NAME.kvmtrace.CPU, such as x.kvmtrace.0",
            )
        if _has_blocks(descriptor, place):
            return _segment(place)
        from tracelib.xentrace.reader import XentraceReader

        return XentraceReader(os.dup(descriptor), name)
    finally:
        os.close(descriptor)


def _store(path: Path, first: int = FIRST_SEQUENCE, last: int | None = None) -> StoreReader:
    from tracelib.store.reader import StoreReader

    return StoreReader(path, first=first, last=last)


def _segment(path: Path) -> SegmentReader:
    from tracelib.store.reader import SegmentReader

    return SegmentReader(path)


def _open_pipe(descriptor: int, name: str) -> TraceReader:
    """A reader for what comes through a pipe, which it closes."""
    from tracelib.xentrace.spool import spool

    try:
        copy = spool(descriptor, name)
    finally:
        os.close(descriptor)
    # The copy has no name; the kernel lends it one for as long as it is open.
    reader = _reader_of(copy, name, Path(f"/proc/self/fd/{copy}"))
    reader.info.name = name
    return reader


def parts(
    path: str | os.PathLike[str], *, kvmtrace_layout: Kind | None = None
) -> list[Callable[[], TraceReader]]:
    """Like `open`, but a store comes one boot of the hypervisor after the other: time stamps
    of different boots have nothing in common, so each part is merged and dated by itself.

    Each part is to be called for its reader. Raises StoreError, UsageError.
    """
    if kvmtrace.members(os.fspath(path)) or not is_store(path):
        return [partial(open, path, kvmtrace_layout=kvmtrace_layout)]
    with _store(Path(path)) as store:
        boots = store.boots()
    return [partial(_store, Path(path), first, last) for first, last in boots]


def running_at_start(reader: TraceReader) -> dict[CpuId, int]:
    """Who ran on each CPU when the trace began, as domain << 16 | vCPU, where it says so."""
    state = reader.state() if isinstance(reader, StatefulReader) else None
    if state is None:
        return {}
    return {cpu: dom << 16 | vcpu for cpu, (dom, vcpu) in state.cpus.items()}


def skip_before(reader: TraceReader, tsc: Tsc) -> bool:
    """Have the reader leave out what it can tell to be wholly older; False if it cannot."""
    from tracelib.store.reader import SegmentReader, StoreReader

    if not isinstance(reader, StoreReader | SegmentReader):
        return False
    reader.narrow(first=tsc)
    return True


def _has_blocks(descriptor: int, path: Path) -> bool:
    """Whether one of the first pages starts a block: its first one may be damaged."""
    with translated("read", path):
        return any(
            os.pread(descriptor, len(MAGIC), page * PAGE) == MAGIC for page in range(_LOOK_PAGES)
        )
