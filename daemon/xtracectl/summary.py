"""What `info` says of one trace, as a value: computed here, rendered elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracelib.chunks import Problem, TraceInfo, TraceReader
from tracelib.clock import Clock, Rate, find_rate
from tracelib.counting import Counts, count
from tracelib.units import Nanoseconds


@dataclass(frozen=True, slots=True)
class Summary:
    """One trace."""

    info: TraceInfo
    counts: Counts
    problems: tuple[Problem, ...]
    rate: Rate | None
    span: Nanoseconds | None
    """From the first time stamp to the last; None if the rate is unknown."""
    started_at: Nanoseconds | None
    """CLOCK_REALTIME of the first time stamp; None without clock anchors."""


def describe(reader: TraceReader, *, cpu_hz: int | None) -> Summary:
    """Read a trace through and sum it up."""
    counts = count(reader)
    rate = find_rate(reader.info, cpu_hz)
    span = started_at = None
    if counts.first_tsc is not None and counts.last_tsc is not None:
        clock = Clock(counts.first_tsc, rate, reader.info.anchors)
        ends = np.array([counts.first_tsc, counts.last_tsc], np.uint64)
        span = Nanoseconds(int(clock.elapsed(ends)[1])) if rate else None
        started_at = Nanoseconds(int(clock.realtime(ends)[0])) if clock.dated else None
    return Summary(reader.info, counts, tuple(reader.problems), rate, span, started_at)
