"""What `info` says of one trace, as a value: computed here, rendered elsewhere."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from tracelib.chunks import Problem, TraceInfo, TraceReader
from tracelib.clock import Clock, Rate, find_rate
from tracelib.counting import Counts, count
from tracelib.kvmtrace.layout import Kind
from tracelib.reading import parts
from tracelib.units import Nanoseconds
from xtracectl.progress import Progress


@dataclass(slots=True)
class Summary:
    """One input, all boots of the hypervisor together."""

    info: TraceInfo
    """The newest part's."""
    rate: Rate | None
    """The newest part's."""
    counts: Counts = field(default_factory=Counts)
    problems: list[Problem] = field(default_factory=list)
    boots: int = 0
    segments: int = 0
    span: int | None = 0
    """Nanoseconds from the first time stamp to the last of each boot; None if a rate is unknown."""
    started_at: Nanoseconds | None = None
    """CLOCK_REALTIME of the first time stamp; None without clock anchors."""


def summarize(
    path: str, *, cpu_hz: int | None, kvmtrace_layout: Kind | None = None
) -> Summary:
    """Read an input through and sum it up. Raises StoreError, FormatError."""
    summary = Summary(TraceInfo("", path), None)
    with Progress(path) as progress:
        for part in parts(path, kvmtrace_layout=kvmtrace_layout):
            with closing(part()) as reader:
                _add(summary, reader, cpu_hz, progress)
    return summary


def _add(
    summary: Summary, reader: TraceReader, cpu_hz: int | None, progress: Progress
) -> None:
    counts = count(reader, progress.add)
    summary.info = reader.info
    summary.rate = find_rate(reader.info, cpu_hz)
    summary.problems += reader.problems
    summary.boots += 1
    summary.segments += reader.info.segments
    if counts.first_tsc is not None and counts.last_tsc is not None:
        clock = Clock(counts.first_tsc, summary.rate, reader.info.anchors)
        ends = np.array([counts.first_tsc, counts.last_tsc], np.uint64)
        if summary.rate is None or summary.span is None:
            summary.span = None
        else:
            summary.span += int(clock.elapsed(ends)[1])
        if clock.dated and not summary.counts.records:
            summary.started_at = Nanoseconds(int(clock.realtime(ends)[0]))
    summary.counts.add(counts)
