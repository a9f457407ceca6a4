"""Which check an input gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import tracelib
from tracelib.reading import is_store
from tracelib.segment.findings import Finding
from tracelib.store.reader import SegmentReader
from tracelib.store.verify import verify_segment, verify_store
from tracelib.xentrace.reader import XentraceReader
from tracelib.xentrace.verify import verify_xentrace


def check(path: str) -> Iterator[Finding]:
    """Everything that is wrong with one input. Raises StoreError, FormatError, UsageError."""
    if is_store(path):
        yield from verify_store(Path(path))
        return
    with closing(tracelib.open(path)) as reader:
        if isinstance(reader, XentraceReader):
            yield from verify_xentrace(reader)
        elif isinstance(reader, SegmentReader):
            yield from verify_segment(reader)
