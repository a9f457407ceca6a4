"""The formats of `dump` that have a row for each record, behind one face.

A format is one for all inputs; `trace` makes what writes the rows of one of them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from tracelib.columns import Columns
from tracelib.errors import UsageError
from tracelib.export import perfetto
from tracelib.export.groups import Catalogue
from tracelib.export.lines import CSV, JSON, TEXT, LineWriter, Style
from tracelib.export.perfetto import Timeline
from tracelib.export.rules import Rules, RuleWriter
from tracelib.export.timebase import Base, TimeBase
from tracelib.losses import Loss
from tracelib.selection import Selection
from xtracectl.dump.request import Request

Pieces = Iterator[bytes | memoryview]
"""What to write; each is valid until the next step."""

Rows = Callable[[Columns, Sequence[Loss]], Pieces]
"""Writes a batch; the losses are those that its rows of tracelib.gaps refer to."""

_STYLES: dict[str, Style] = {"text": TEXT, "json": JSON, "csv": CSV}


class Format(Protocol):
    """What goes around the rows, and who writes them."""

    @property
    def whole(self) -> str | None:
        """What to call it, if it can hold only one trace."""

    def begin(self) -> bytes:
        """What comes before the first row."""

    def trace(self, times: TimeBase, catalogue: Catalogue, selection: Selection) -> Rows:
        """For one more trace."""

    def clock(self, times: TimeBase) -> str:
        """Which clock a reader sees."""

    def end(self) -> Pieces:
        """What comes behind the last row."""


def row_format(request: Request) -> Format | None:
    """The format asked for; None if it is xentrace's, which has windows, not rows. Raises
    UsageError if it needs a library that is not there."""
    if request.rules is not None:
        return _Ruled(request.rules)
    if request.format == "parquet":
        return _Parquet()
    if request.format == "perfetto":
        return _Perfetto()
    style = _STYLES.get(request.format)
    return None if style is None else _Lines(style, request.time)


class _Lines:
    whole: str | None = None

    def __init__(self, style: Style, base: Base | None) -> None:
        self._style = style
        self._base = base

    def begin(self) -> bytes:
        return self._style.head(self._base).encode()

    def trace(self, times: TimeBase, catalogue: Catalogue, selection: Selection) -> Rows:
        return LineWriter(self._style, times, catalogue, selection).lines

    def clock(self, times: TimeBase) -> str:
        rate = times.clock.rate
        if times.base is Base.WALL:
            return "times are in UTC, by the trace's clock anchors"
        if times.base is Base.ELAPSED:
            return f"times are in seconds since the first record, at {rate}"
        if times.asked:
            return "times are in cycles of the time stamp counter"
        return "the clock rate is not known: times are in cycles (see --cpu-hz)"

    def end(self) -> Pieces:
        return iter(())


class _Ruled:
    whole: str | None = None

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def begin(self) -> bytes:
        return b""

    def trace(self, times: TimeBase, catalogue: Catalogue, selection: Selection) -> Rows:
        del times, catalogue
        return RuleWriter(self._rules, selection).lines

    def clock(self, times: TimeBase) -> str:
        del times
        return "times are in cycles of the time stamp counter"

    def end(self) -> Pieces:
        return iter(())


class _Parquet:
    """A file with an index at its end, which several traces may share."""

    whole: str | None = None

    def __init__(self) -> None:
        if importlib.util.find_spec("pyarrow") is None:
            raise UsageError(
                "--format parquet needs pyarrow, which is not installed",
                hint="pip install 'xtraced[parquet]'; --format csv needs nothing",
            )
        from tracelib.export.parquet import ParquetFile

        self._file = ParquetFile()

    def begin(self) -> bytes:
        return b""

    def trace(self, times: TimeBase, catalogue: Catalogue, selection: Selection) -> Rows:
        return self._file.trace(times, catalogue, selection).rows

    def clock(self, times: TimeBase) -> str:
        rate = times.clock.rate
        if rate is None:
            return "the clock rate is not known: ns is empty (see --cpu-hz)"
        return f"ns are nanoseconds since the first record, at {rate}"

    def end(self) -> Pieces:
        return self._file.end()


class _Perfetto:
    """Needs to know what is open when the trace ends."""

    whole: str | None = "a timeline"

    def __init__(self) -> None:
        self._timeline: Timeline | None = None

    def begin(self) -> bytes:
        return perfetto.BEGIN.encode()

    def trace(self, times: TimeBase, catalogue: Catalogue, selection: Selection) -> Rows:
        self._timeline = Timeline(times, catalogue, selection)
        return self._timeline.rows

    def clock(self, times: TimeBase) -> str:
        return f"times are since the first record, at {times.clock.rate}"

    def end(self) -> Pieces:
        if self._timeline is not None:
            yield self._timeline.end()
        yield perfetto.END.encode()
