"""The last rows of a trace, without reading all of it where that can be helped."""

from __future__ import annotations

from collections.abc import Iterator

from tracelib.chunks import TraceReader
from tracelib.store.reader import SegmentReader, StoreReader
from tracelib.units import Tsc

_FIRST_SPAN = 1 << 28
"""Cycles; about a tenth of a second."""
_GROWTH = 8


def starts(reader: TraceReader) -> Iterator[Tsc | None]:
    """Where to begin, nearest to the end first; None, which comes last, is the beginning.
    A trace that cannot skip what is older is read from there at once."""
    extent = reader.tsc_range if isinstance(reader, StoreReader | SegmentReader) else None
    if extent is not None:
        span = _FIRST_SPAN
        while extent[1] - span > extent[0]:
            yield Tsc(extent[1] - span)
            span *= _GROWTH
    yield None
