"""Which repair an input gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import tracelib
from tracelib.chunks import watched
from tracelib.errors import UsageError
from tracelib.reading import STANDARD_INPUT, is_store
from tracelib.ring.fastpath import scan
from tracelib.store.newfile import new_file
from tracelib.store.repair import Repaired, repair_segment, repair_store
from tracelib.store.segment import SegmentReader
from tracelib.xentrace.encoder import encode_chunks
from tracelib.xentrace.reader import XentraceReader


def repair(path: str, target: Path, progress: Callable[[int], None]) -> Iterator[Repaired]:
    """What became of each file of the input; `progress` is told of bytes read. Raises
    StoreError, FormatError, UsageError."""
    if is_store(path):
        yield from repair_store(Path(path), target, progress)
        return
    with closing(tracelib.open(path)) as reader:
        if isinstance(reader, XentraceReader):
            yield _repair_xentrace(reader, target, progress)
        elif isinstance(reader, SegmentReader) and path != STANDARD_INPUT:
            yield repair_segment(Path(path), target, progress)
        else:
            raise UsageError(
                f"{path}: a {reader.info.kind} cannot be repaired",
                hint="name a store, a segment's file or an xentrace file",
            )


def _repair_xentrace(
    reader: XentraceReader, target: Path, progress: Callable[[int], None]
) -> Repaired:
    """Its windows with their whole records. The format has no way to state a loss."""
    result = Repaired(reader.info.name, str(target))
    with new_file(target) as new:
        for chunk in watched(reader.chunks(), progress):
            words = chunk.payload.cast("B").cast("I")
            result.records += scan(words, 0, len(words), chunk.cpu, None).records
            for window in encode_chunks([chunk]):
                new.write(window)
    result.gaps = [
        (problem.offset, problem.missing_bytes or 0, problem.reason)
        for problem in reader.problems
    ]
    return result
