"""A trace from its reader to the engine: chunks, stated losses, preambles, times."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from tracelib.analysis import codes
from tracelib.analysis.engine import Engine
from tracelib.analysis.forms import Forms
from tracelib.analysis.gaplist import UNREADABLE, GapList, Missing
from tracelib.analysis.holes import Holes
from tracelib.chunks import Chunk, StatefulReader, TraceReader
from tracelib.clock import Clock
from tracelib.losses import Cause, Loss
from tracelib.units import CpuId, Tsc
from tracelib.xentrace.reader import XentraceReader

NEVER = (1 << 64) - 1
NOBODY = 0xFFFFFFFF

_SECOND_UNKNOWN = 1 << 31
"""How many cycles a bin of the volume takes where nobody knows how long a second is."""

_LOOK = 4
"""To look through a file for where its windows lie counts for a quarter of reading it."""


@dataclass(slots=True)
class Analysis:
    """What one pass over a trace found; the sections are made of it."""

    engine: Engine
    forms: Forms
    clock: Clock
    first: Tsc
    last: Tsc
    """The span: the times of each vCPU and of each CPU add up to it."""
    dated: bool = False
    """Whether any record has a time stamp."""
    gaps: GapList = field(default_factory=GapList)

    @property
    def span(self) -> int:
        """In cycles."""
        return self.last - self.first


def _ignore(_: int) -> None:
    """Nobody watches."""


class Analyzer:
    """Takes one trace through the engine, from `since` to `until`.

    What came before `since` is read too, since it says who runs where, but not counted.
    """

    def __init__(
        self, reader: TraceReader, clock: Clock, forms: Forms, *, since: Tsc | None = None,
        until: Tsc | None = None, by_cpu: bool = False, noted: int = 0,
        take_notes: Callable[[bytes], None] | None = None,
    ) -> None:
        """`noted` is what to note event by event, a sum of codes.WANT_ bits; `take_notes` is
        given rows (tracelib.analysis.notes) as they come."""
        bin_cycles = _SECOND_UNKNOWN if clock.rate is None else clock.rate.hz
        engine = Engine(forms.learn, bin_cycles, by_cpu=by_cpu, noted=noted)
        self.analysis = Analysis(engine, forms, clock, Tsc(0), Tsc(0))
        self._reader = reader
        self._since = since
        self._until = until
        self._take_notes = take_notes
        self._counted = since is None
        """Whether the span has started, so that notes are of it."""
        self._engine = self.analysis.engine
        self._feeds: dict[int, Iterator[Chunk]] = {}
        self._holes = Holes(reader)
        self._overflow: dict[int, Cause] = {}
        """Why Xen dropped what the lost records loaded for a CPU tell of."""
        self._serial = count()
        self._expected: list[Missing] = []
        self._moments: list[tuple[int, int, Callable[[], None]]] = []
        """What is to be done when the records have got to a TSC: a heap."""
        self._looked = False
        """Whether the file was looked through before it is read."""
        self._complete = False
        """Whether the trace is one that does not grow."""
        self._finished = False

    def run(self, progress: Callable[[int], None] = _ignore) -> None:
        """Read the trace. `progress` is told of bytes read, chunk by chunk; what it raises
        ends the run, after which the analysis is of what was read so far."""
        self._complete = True
        try:
            self.begin(progress)
            self.advance(NEVER, progress)
        finally:
            self.finish()

    def begin(self, progress: Callable[[int], None] = _ignore) -> None:
        """The first step of a run, for those who want to look on the way."""
        self._start(progress)
        if self._since is not None:
            self._go(self._since, progress)
            if self._engine.states.started:
                self._engine.begin(self._since)
                self.analysis.gaps.clear()
        self._counted = True

    def advance(self, stop: int, progress: Callable[[int], None] = _ignore) -> bool:
        """Go on to the first record at or after `stop`, as often as wanted, with `stop` never
        going back; whether there is more."""
        end = NEVER if self._until is None else self._until
        self._go(min(stop, end), progress)
        return self._engine.waiting and stop < end

    def go_on(self, progress: Callable[[int], None] = _ignore) -> None:
        """The trace has grown: CPUs that had no more records may have. To be called before
        `advance`, for readers whose chunks go on after they ended and whose losses are those
        since they were asked last."""
        self._expect_stated()
        for number, cpu in self._engine.cpus.items():
            if cpu.at >= cpu.end:
                self._feed(number, progress)

    @property
    def next(self) -> int:
        """When the next record is, if there is one; 0 while no record had a time."""
        waiting = (cpu for cpu in self._engine.cpus.values() if cpu.at < cpu.end)
        return min((cpu.next_key for cpu in waiting), default=0)

    def ahead(self) -> list[Missing]:
        """Gaps of which the end has not been reached; they may have begun."""
        return [*self._expected, *self._ahead()]

    def _start(self, progress: Callable[[int], None]) -> None:
        if isinstance(self._reader, XentraceReader):
            self._looked = self._reader.look_through(lambda size: progress(size // _LOOK))
        for cpu in self._reader.cpus():
            self._feeds[cpu] = iter(_chunks_of(self._reader, cpu))
            self._engine.load(cpu, memoryview(b"").cast("I"))
            self._feed(cpu, progress)
        self._expect_stated()
        self._preamble()

    def _expect_stated(self) -> None:
        for loss in self._reader.losses():
            if loss.cause is not Cause.RETENTION:
                self._expect(self._missing(loss))

    def _missing(self, loss: Loss) -> Missing:
        """A stated loss. One that has no TSC was noticed at some wall-clock time."""
        last = loss.last_tsc
        if last is None and loss.first_tsc is None and loss.at and self.analysis.clock.dated:
            last = self.analysis.clock.tsc_at_realtime(loss.at)
        return Missing(loss.cpu, loss.cause, loss.records, loss.first_tsc, last, loss.detail)

    def _preamble(self) -> None:
        """Who ran where, as a segment says. A vCPU's state is as of its own TSC, which may be
        later than other CPUs' first records: each ring is drained on its own."""
        reader = self._reader
        state = reader.state() if isinstance(reader, StatefulReader) else None
        if state is None:
            return
        running = {cpu: dom << 16 | vcpu for cpu, (dom, vcpu) in state.cpus.items()}
        for known in state.vcpus:
            who = known.dom << 16 | known.vcpu
            cpu = known.cpu if known.cpu is not None and running.get(known.cpu) == who else None
            self._at(known.tsc, partial(self._place, cpu, who, known.state, known.tsc))

    def _place(self, number: CpuId | None, who: int, state: int, since: Tsc) -> None:
        cpu = None if number is None else self._engine.cpus.get(number)
        self._engine.states.place(cpu, who, state, since)

    def _go(self, stop: int, progress: Callable[[int], None]) -> None:
        """To the first record at or after `stop`."""
        while True:
            until = min(stop, self._moments[0][0]) if self._moments else stop
            hungry = self._engine.run(until)
            self._take_gaps()
            self._pass_notes()
            if hungry != codes.NO_CPU:
                self._feed(hungry, progress)
            elif self._moments and self._moments[0][0] <= min(stop, self._reach):
                heapq.heappop(self._moments)[2]()
            else:
                return

    @property
    def _reach(self) -> int:
        """Up to when there is something to do: a trace that has an end ends with its records."""
        if self._engine.waiting or not self._complete:
            return NEVER
        return self._engine.last

    def _feed(self, cpu: int, progress: Callable[[int], None]) -> None:
        chunk = next(self._feeds[cpu], None)
        if chunk is None:
            return
        state = self._engine.cpus[cpu]
        before = Tsc(state.key)
        self._engine.load(cpu, chunk.payload.cast("B").cast("I"))
        self._overflow[cpu] = Cause.QUEUE_FULL if chunk.queue_full else Cause.RING_FULL
        if self._holes.before(chunk):
            after = Tsc(state.next_key)
            self._expect(Missing(CpuId(cpu), UNREADABLE, None, before, after))
        size = len(chunk.payload)
        progress(size - size // _LOOK if self._looked else size)

    def _expect(self, gap: Missing) -> None:
        """A gap that no lost record tells of: it is dealt with when its end is reached."""
        end = gap.first if gap.last is None else gap.last
        if end is None:
            self.analysis.gaps.add(gap)
        else:
            self._expected.append(gap)
            if gap.first is not None and gap.first < end:
                self._at(gap.first, partial(self._miss, gap.cpu, gap.first))
            self._at(end, partial(self._lose, gap, end))

    def _miss(self, number: CpuId, first: int) -> None:
        cpu = self._engine.cpus.get(number)
        if cpu is not None:
            self._engine.states.gap_begins(cpu, max(first, cpu.key))

    def _lose(self, gap: Missing, end: int) -> None:
        self._expected.remove(gap)
        self.analysis.gaps.add(gap)
        cpu = self._engine.cpus.get(gap.cpu)
        if cpu is not None:
            first = cpu.key if gap.first is None else max(gap.first, cpu.key)
            self._engine.states.gap(cpu, min(first, end), max(end, cpu.key), NOBODY)

    def _take_gaps(self) -> None:
        for cpu, first, last, records in self._engine.gaps:
            self.analysis.gaps.add(
                Missing(CpuId(cpu), self._overflow[cpu], records, Tsc(first), Tsc(last))
            )
        self._engine.gaps = []

    def _pass_notes(self) -> None:
        notes = self._engine.pairs.notes
        if notes.rows:
            rows = notes.take()
            if self._take_notes is not None and self._counted:
                self._take_notes(rows)

    def _at(self, tsc: int, do: Callable[[], None]) -> None:
        heapq.heappush(self._moments, (tsc, next(self._serial), do))

    def finish(self) -> None:
        """The last step: the span ends where the records do, or at `until`. Idempotent."""
        if self._finished:
            return
        self._finished = True
        self._take_gaps()
        engine, analysis = self._engine, self.analysis
        analysis.first = Tsc(engine.states.start)
        analysis.dated = engine.states.started
        # If nothing is left, the trace ended before `until`.
        more = engine.waiting and self._until is not None
        end = self._until if more and self._until is not None else engine.last
        analysis.last = Tsc(max(end, analysis.first)) if analysis.dated else analysis.first
        for gap in self.ahead():
            self._cut(gap, analysis.last)
        engine.finish(analysis.last)

    def _ahead(self) -> Iterator[Missing]:
        """Lost records that come next on their CPU, after the end: what they miss may have
        begun before it."""
        for cpu, first, last in self._engine.gaps_ahead():
            yield Missing(CpuId(cpu), self._overflow[cpu], None, Tsc(first), Tsc(last))

    def _cut(self, gap: Missing, end: int) -> None:
        """The end may lie in a gap: how many of its records are missing before it, nobody knows.
        If it is the end of the trace, the gap is part of it to its own end."""
        inside = gap.first is None or gap.first < end
        if not self._engine.waiting:
            if (gap.last or gap.first or 0) > self.analysis.first:
                self.analysis.gaps.add(gap)
        elif inside:
            self.analysis.gaps.add(replace(gap, records=None, last=Tsc(end)))
        cpu = self._engine.cpus.get(gap.cpu)
        if cpu is not None and inside:
            self._engine.states.gap(cpu, max(gap.first or 0, cpu.key), end, NOBODY)


def _chunks_of(reader: TraceReader, cpu: CpuId) -> Iterator[Chunk]:
    return reader.runs_of(cpu) if isinstance(reader, XentraceReader) else reader.chunks_of(cpu)
