"""Which check an input gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import tracelib
from tracelib.kvmtrace.layout import Kind
from tracelib.kvmtrace.names import members
from tracelib.kvmtrace.reader import KvmtraceReader
from tracelib.kvmtrace.verify import verify_kvmtrace
from tracelib.reading import is_store
from tracelib.segment.findings import Finding
from tracelib.store.reader import SegmentReader
from tracelib.store.verify import verify_segment, verify_store
from tracelib.xentrace.reader import XentraceReader
from tracelib.xentrace.verify import verify_xentrace


def check(
    path: str, progress: Callable[[int], None], *, kvmtrace_layout: Kind | None = None
) -> Iterator[Finding]:
    """Everything that is wrong with one input; `progress` is told of bytes read. Raises
    StoreError, FormatError, UsageError."""
    if not members(path) and is_store(path):
        yield from verify_store(Path(path), progress)
        return
    with closing(tracelib.open(path, kvmtrace_layout=kvmtrace_layout)) as reader:
        if isinstance(reader, KvmtraceReader):
            yield from verify_kvmtrace(reader, progress)
        elif isinstance(reader, XentraceReader):
            yield from verify_xentrace(reader, progress)
        elif isinstance(reader, SegmentReader):
            yield from verify_segment(reader, progress)
