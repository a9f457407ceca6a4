"""What was counted up to a moment, and from one moment to the next: intervals of a pass.

The engine counts on and on; an interval is the difference of two looks at its counters, so
whatever the intervals are, they add up to the whole exactly. A look disturbs nothing: what
is going on, a vCPU that runs, an exit without its entry, is split at the moment (time) or
belongs to the interval in which it ends (exits, waits).

An exact sum has its price: what turns out later, a clock that disagrees or a gap that began
earlier than anybody could see, corrects an earlier interval in a later one, where a time can
then be negative.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tracelib.analysis import codes
from tracelib.analysis.analyze import Analyzer
from tracelib.analysis.gaplist import Missing
from tracelib.analysis.tables import Table
from tracelib.chunks import ignore_progress
from tracelib.units import CpuId, Tsc

_K = TypeVar("_K", bound=Hashable)

Rows = dict[_K, list[int]]
"""Counters by whatever they are kept by; rows that are all 0 may be left out."""

EMPTY_INTERVALS = 1000
"""More intervals without a record than this become one long one: a time stamp that is far
off, by damage, must not cost hours."""

_NO_SUM_OF_EXITS = (codes.LONGEST, codes.EXIT_HISTOGRAM)
_NO_SUM_OF_SPELLS = (codes.MOST, codes.SPELL_HISTOGRAM)


@dataclass(slots=True)
class Counters:
    """From `first` to `last`. Columns are those of tracelib.analysis.codes; maxima and
    histograms, of which there is no difference, are 0."""

    first: Tsc
    last: Tsc
    times: Rows[int] = field(default_factory=dict)
    """By index of the vCPU: cycles by state. They add up to the span; a vCPU that turns up in
    the course of it was unknown or offline before. In earlier ones it has no row."""
    moves: dict[int, int] = field(default_factory=dict)
    """By index of the vCPU: how often it began to run on another CPU than before."""
    spells: Rows[tuple[int, int]] = field(default_factory=dict)
    """By index of the vCPU and kind: spells that ended, and their cycles."""
    exits: Rows[tuple[int, int]] = field(default_factory=dict)
    """By owner << KIND_BITS | kind, and reason."""
    tallies: Rows[tuple[int, int]] = field(default_factory=dict)
    """By owner << 32 | kind of event, and value."""
    occupied: dict[tuple[int, int], int] = field(default_factory=dict)
    """By CPU and occupant (a vCPU's name or a CPU_ code): cycles."""
    gaps: Rows[tuple[CpuId, str]] = field(default_factory=dict)
    """By CPU and cause, of gaps that ended: how many, records, uncounted ones, cycles."""
    records: dict[tuple[int, int], int] = field(default_factory=dict)
    """By CPU and header word."""

    @property
    def span(self) -> int:
        """In cycles."""
        return self.last - self.first

    def since(self, before: Counters) -> Counters:
        """From the end of `before` to the end of this one."""
        return Counters(
            before.last, self.last,
            _times_since(self.times, before),
            _since(self.moves, before.moves),
            _rows_since(self.spells, before.spells),
            _rows_since(self.exits, before.exits),
            _rows_since(self.tallies, before.tallies),
            _since(self.occupied, before.occupied),
            _rows_since(self.gaps, before.gaps),
            _since(self.records, before.records),
        )


def look(analyzer: Analyzer, now: Tsc) -> Counters:
    """All that was counted up to `now`, which the analyzer has advanced to, or finished at."""
    engine = analyzer.analysis.engine
    states = engine.states
    begun = [gap for gap in analyzer.ahead() if gap.first is not None and gap.first < now]
    return Counters(
        Tsc(states.start), now,
        _times(analyzer, now, begun),
        {vcpu.index: vcpu.moves for vcpu in states.vcpus if vcpu.moves},
        _table(states.spells, _NO_SUM_OF_SPELLS),
        _table(engine.pairs.exits, _NO_SUM_OF_EXITS),
        _table(engine.pairs.tallies),
        _occupied(analyzer, now, begun),
        {
            key: [total.gaps, total.records, total.uncounted, total.cycles]
            for key, total in analyzer.analysis.gaps.sums.items()
        },
        {
            (cpu, header): counters[codes.COUNT]
            for cpu, header, counters in engine.volume.items()
        },
    )


def intervals(
    analyzer: Analyzer, cycles: int, progress: Callable[[int], None] = ignore_progress
) -> Iterator[Counters]:
    """Take a whole trace through the analyzer: what happened in each piece of so many cycles
    from the start of the span on; the last one ends with the trace. Raises what `progress`
    raises, after which the analysis is of what was read so far."""
    try:
        analyzer.begin(progress)
        yield from _whole(analyzer, cycles, progress)
    finally:
        analyzer.finish()


def _whole(
    analyzer: Analyzer, cycles: int, progress: Callable[[int], None]
) -> Iterator[Counters]:
    states = analyzer.analysis.engine.states
    more = True
    while more and not states.started:
        more = analyzer.advance(analyzer.next + 1, progress)
    start = before = Counters(Tsc(states.start), Tsc(states.start))
    while more:
        end = before.last + cycles
        empty = max(0, analyzer.next - end) // cycles
        if empty > EMPTY_INTERVALS:
            end += empty * cycles
        more = analyzer.advance(end, progress)
        if more:
            now = look(analyzer, Tsc(end))
            if before.span:
                yield before.since(start)
            start, before = before, now
    analyzer.finish()
    last = look(analyzer, analyzer.analysis.last)
    if last.last == before.last:
        # What there is at the very end is no interval of its own.
        before = last
    if before.span:
        yield before.since(start)
    if last.last > before.last:
        yield last.since(before)


def _times(analyzer: Analyzer, now: int, begun: list[Missing]) -> Rows[int]:
    """The vCPUs' times, with what has passed since their last change."""
    engine = analyzer.analysis.engine
    found: Rows[int] = {}
    for vcpu in engine.states.vcpus:
        times = memoryview(vcpu.times).tolist()
        times[vcpu.state] += max(0, now - vcpu.since)
        found[vcpu.index] = times
    for gap in begun:
        cpu = engine.cpus.get(gap.cpu)
        gone = None if cpu is None else cpu.current
        if gone is not None and gone.cpu == gap.cpu and gone.state == codes.RUNNING:
            lost = max(0, now - max(gap.first or 0, gone.since))
            found[gone.index][codes.RUNNING] -= lost
            found[gone.index][codes.LOST] += lost
    return found


def _occupied(
    analyzer: Analyzer, now: int, begun: list[Missing]
) -> dict[tuple[int, int], int]:
    """The CPUs' times, with what has passed since the last change."""
    engine = analyzer.analysis.engine
    table = engine.states.occupied
    found = {(cpu, who): cycles for cpu, who, (cycles,) in table.items()}
    gaps = {gap.cpu: gap.first or 0 for gap in begun}
    for cpu in engine.cpus.values():
        passed = max(0, now - cpu.since)
        first = gaps.get(CpuId(cpu.number), now)
        lost = min(passed, max(0, now - first))
        key = table.keys(cpu.time_row)
        found[key] = found.get(key, 0) + passed - lost
        if lost:
            key = (cpu.number, codes.CPU_LOST)
            found[key] = found.get(key, 0) + lost
    return found


def _table(table: Table, left_out: tuple[int, ...] = ()) -> Rows[tuple[int, int]]:
    """A table's rows, without the columns that have no sum."""
    found = {}
    for high, low, counters in table.items():
        for column in left_out:
            counters[column] = 0
        found[high, low] = counters
    return found


def _since(now: Mapping[_K, int], before: Mapping[_K, int]) -> dict[_K, int]:
    """What changed."""
    return {
        key: change for key, value in now.items() if (change := value - before.get(key, 0))
    }


def _times_since(now: Rows[int], before: Counters) -> Rows[int]:
    found = _rows_since(now, before.times)
    for index in now.keys() - before.times.keys():
        row = found[index]
        offline = min(row[codes.OFFLINE], before.span)
        row[codes.OFFLINE] -= offline
        row[codes.UNKNOWN] -= before.span - offline
    return found


def _rows_since(now: Mapping[_K, list[int]], before: Mapping[_K, list[int]]) -> Rows[_K]:
    found = {}
    for key, row in now.items():
        old = before.get(key)
        if old is None:
            if any(row):
                found[key] = row[:]
        elif row != old:
            found[key] = [value - past for value, past in zip(row, old, strict=True)]
    return found
