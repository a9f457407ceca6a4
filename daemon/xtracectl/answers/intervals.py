"""What `summary --interval` says: what happened in each piece of the time, owner by owner.

The pieces are those of tracelib.analysis.moments: they add up to the whole exactly, and each
is finished before the next one is read, so that memory does not grow with their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from tracelib.analysis import codes
from tracelib.analysis.analyze import NOBODY, Analysis
from tracelib.analysis.exits import Cause
from tracelib.analysis.families import Verdict
from tracelib.analysis.moments import Counters, intervals
from tracelib.analysis.results import By, Owner, owner_at, wanted
from tracelib.chunks import Problem, TraceInfo, TraceReader
from tracelib.clock import NO_RATE_HINT, Clock, Rate
from tracelib.errors import UsageError
from tracelib.events.exits import exit_name
from tracelib.reading import parts
from tracelib.records import record_bytes
from tracelib.units import IDLE_DOMAIN, CpuId, DomId, Nanoseconds, Tsc
from xtracectl.answers.summarizing import Progress, Request, analyzer_of, verdict_of

VCPU_TIMES = ("running", "runnable", "blocked", "offline", "lost", "unknown")
CPU_TIMES = ("busy", "idle", "switching", "lost", "unknown")
"""What a row's times are, by vCPU or domain, and by CPU."""

_CPU_CODES = {codes.CPU_SWITCH: 2, codes.CPU_LOST: 3, codes.CPU_UNKNOWN: 4}
CALLS = ("hypercall", "vmmcall")
"""A PV guest's hypercalls and an HVM guest's; those inside a multicall are not counted."""


@dataclass(slots=True)
class Row:
    """One owner in one interval; or all together."""

    times: list[int]
    """Cycles, by VCPU_TIMES or CPU_TIMES."""
    exits: int = 0
    paired: int = 0
    cost: int = 0
    """VM exits that happened; those that ended, and what they cost, in cycles."""
    reasons: Counter[Cause] = field(default_factory=Counter)
    """Cycles by reason."""
    often: Counter[Cause] = field(default_factory=Counter)
    """VM exits that happened, by reason."""
    runs: int = 0
    waits: int = 0
    waited: int = 0
    """Times on a CPU that ended; waits for one that ended, and their cycles: those that were
    seen from beginning to end, untouched by losses."""
    hypercalls: int = 0
    records: int = 0
    bytes: int = 0
    gaps: int = 0
    lost: int = 0
    uncounted: int = 0
    """Gaps that ended, the records in them as far as their number is known, and gaps of
    which it is not. These five are of CPUs: a vCPU's or domain's row has none."""

    def add(self, other: Row) -> None:
        """What another owner did, too. Times must be of the same kind."""
        self.times = [old + new for old, new in zip(self.times, other.times, strict=True)]
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reasons.update(other.reasons)
        self.often.update(other.often)


_NUMBERS = (
    "exits", "paired", "cost", "runs", "waits", "waited", "hypercalls", "records", "bytes",
    "gaps", "lost", "uncounted",
)  # fmt: skip


@dataclass(slots=True)
class Interval:
    """A piece of one boot's time."""

    info: TraceInfo
    boot: tuple[int, int]
    """Which one, of how many."""
    clock: Clock
    rate: Rate
    verdict: Verdict
    """Whose exit reasons these are, as far as seen by then."""
    by: By
    first: Tsc
    last: Tsc
    whole: Row
    """The whole machine, whatever domain is asked for."""
    rows: dict[Owner, Row] = field(default_factory=dict)
    """In order. A vCPU has rows from the interval on in which it turns up."""


class Pieces:
    """Turns counters into rows."""

    def __init__(self, analysis: Analysis, by: By, domain: DomId | None = None) -> None:
        self._analysis = analysis
        self._by = by
        self._domain = domain
        self._times = CPU_TIMES if by == "cpu" else VCPU_TIMES

    def rows(self, piece: Counters, verdict: Verdict) -> tuple[Row, dict[Owner, Row]]:
        """All together, and by owner those that are asked for."""
        whole, found = self._new(), dict[Owner, Row]()
        if self._by == "cpu":
            self._occupied(piece, whole, found)
        else:
            self._states(piece, whole, found)
            self._spells(piece, whole, found)
        self._exits(piece, verdict, whole, found)
        self._hypercalls(piece, whole, found)
        self._records(piece, whole, found)
        return whole, self._chosen(found)

    def occupancy(self, piece: Counters) -> tuple[Row, dict[Owner, Row]]:
        """By CPU, whatever exits are kept by: who had it, and its records and losses."""
        whole, found = self._new(), dict[Owner, Row]()
        self._occupied(piece, whole, found)
        self._records(piece, whole, found)
        return whole, self._chosen(found)

    def _chosen(self, found: dict[Owner, Row]) -> dict[Owner, Row]:
        chosen = (owner for owner in found if wanted(owner, self._domain))
        return {owner: found[owner] for owner in sorted(chosen, key=lambda o: o.order)}

    def _new(self) -> Row:
        return Row([0] * len(self._times))

    def _row(self, found: dict[Owner, Row], owner: Owner) -> Row:
        return found.setdefault(owner, self._new())

    def _states(self, piece: Counters, whole: Row, found: dict[Owner, Row]) -> None:
        vcpus = self._analysis.engine.states.vcpus
        for index, times in piece.times.items():
            who = vcpus[index].who
            if who == NOBODY or who >> 16 == IDLE_DOMAIN:
                continue
            for row in (whole, self._row(found, owner_at(self._analysis, index, self._by))):
                row.times = [old + new for old, new in zip(row.times, times, strict=True)]

    def _spells(self, piece: Counters, whole: Row, found: dict[Owner, Row]) -> None:
        vcpus = self._analysis.engine.states.vcpus
        for (index, kind), (number, cycles, *_) in piece.spells.items():
            who = vcpus[index].who
            if kind == codes.SLEPT or who == NOBODY or who >> 16 == IDLE_DOMAIN:
                continue
            for row in (whole, self._row(found, owner_at(self._analysis, index, self._by))):
                if kind == codes.RAN:
                    row.runs += number
                else:
                    row.waits += number
                    row.waited += cycles

    def _occupied(self, piece: Counters, whole: Row, found: dict[Owner, Row]) -> None:
        for (cpu, who), cycles in piece.occupied.items():
            idle = who >> 16 == IDLE_DOMAIN
            place = _CPU_CODES.get(who, 1 if idle else 0)
            for row in (whole, self._row(found, Owner(cpu=CpuId(cpu)))):
                row.times[place] += cycles

    def _exits(
        self, piece: Counters, verdict: Verdict, whole: Row, found: dict[Owner, Row]
    ) -> None:
        for (key, reason), counters in piece.exits.items():
            owner = owner_at(self._analysis, key >> codes.KIND_BITS, self._by)
            family = "svm" if key & codes.SVM_EVENT else verdict.family
            cause = Cause(exit_name(family, reason), reason, bool(key & codes.NESTED))
            for row in (whole, self._row(found, owner)):
                row.exits += counters[codes.SEEN]
                row.paired += counters[codes.PAIRED]
                row.cost += counters[codes.CYCLES]
                row.reasons[cause] += counters[codes.CYCLES]
                row.often[cause] += counters[codes.SEEN]

    def _hypercalls(self, piece: Counters, whole: Row, found: dict[Owner, Row]) -> None:
        kinds = self._analysis.forms.kinds
        for (key, _), counters in piece.tallies.items():
            if kinds[key & 0xFFFFFFFF].event in CALLS:
                owner = owner_at(self._analysis, key >> 32, self._by)
                for row in (whole, self._row(found, owner)):
                    row.hypercalls += counters[codes.COUNT]

    def _records(self, piece: Counters, whole: Row, found: dict[Owner, Row]) -> None:
        for (cpu, header), number in piece.records.items():
            for row in self._of_cpu(cpu, whole, found):
                row.records += number
                row.bytes += number * record_bytes(header)
        for (cpu, _), (gaps, lost, uncounted, _) in piece.gaps.items():
            for row in self._of_cpu(cpu, whole, found):
                row.gaps += gaps
                row.lost += lost
                row.uncounted += uncounted

    def _of_cpu(self, cpu: int, whole: Row, found: dict[Owner, Row]) -> tuple[Row, ...]:
        if self._by == "cpu":
            return whole, self._row(found, Owner(cpu=CpuId(cpu)))
        return (whole,)


def series(
    path: str, request: Request, every: Nanoseconds, progress: Progress,
    take_problems: Callable[[Sequence[Problem]], None],
) -> Iterator[Interval]:
    """The intervals of an input, one boot of the hypervisor after the other; what could not
    be read is told at the end of each. Raises StoreError, FormatError, UsageError (no clock
    rate), and what ends a run (Stopped)."""
    found = parts(path, kvmtrace_layout=request.kvmtrace_layout)
    for place, part in enumerate(found, start=1):
        with closing(part()) as reader:
            yield from _intervals(reader, (place, len(found)), request, every, progress)
            take_problems(reader.problems)


def _intervals(
    reader: TraceReader, boot: tuple[int, int], request: Request, every: Nanoseconds,
    progress: Progress,
) -> Iterator[Interval]:
    analyzer, clock = analyzer_of(reader, request, timed=True)
    if clock.rate is None:
        raise UsageError("--interval is in seconds: it needs the clock rate", hint=NO_RATE_HINT)
    cycles = max(1, every * clock.rate.hz // 10**9)
    pieces = Pieces(analyzer.analysis, request.by, request.domain)
    for piece in intervals(analyzer, cycles, progress):
        verdict = verdict_of(analyzer.analysis, request, reader.info)
        whole, rows = pieces.rows(piece, verdict)
        yield Interval(
            reader.info, boot, clock, clock.rate, verdict, request.by, piece.first, piece.last,
            whole, rows,
        )
