"""What `top` shows: pieces of time, each by domain, by vCPU and by CPU.

The pieces are those of tracelib.analysis.moments, so samples of a whole trace add up to its
summary exactly, and memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from tracelib.analysis import codes
from tracelib.analysis.analyze import Analysis
from tracelib.analysis.families import Verdict
from tracelib.analysis.moments import Counters, intervals
from tracelib.analysis.results import Owner
from tracelib.chunks import Problem, TraceInfo
from tracelib.clock import NO_RATE_HINT, Clock, Rate
from tracelib.errors import UsageError
from tracelib.reading import parts
from tracelib.units import Nanoseconds, Tsc
from xtracectl.answers.intervals import Pieces, Row
from xtracectl.answers.summarizing import Progress, Request, analyzer_of, verdict_of


class Load(NamedTuple):
    """One owner in one sample."""

    owner: Owner
    vcpus: int
    """How many are in the row; 0 for a CPU."""
    row: Row


@dataclass(slots=True)
class Sample:
    """A piece of time."""

    info: TraceInfo
    boot: tuple[int, int]
    """Which boot of the hypervisor, of how many."""
    rate: Rate
    verdict: Verdict
    """Whose exit reasons these are, as far as seen by then."""
    start: Tsc
    """What seconds are counted from."""
    first: Tsc
    last: Tsc
    whole: Row
    """All vCPUs but the idle ones, whatever domain is asked for."""
    machine: Row
    """All CPUs."""
    vcpus: dict[Owner, Row]
    cpus: dict[Owner, Row]
    at: Nanoseconds | None = None
    """When it ended, CLOCK_REALTIME; None for a trace of the past."""
    notes: tuple[str, ...] = ()
    """What the user should know of it, in words."""

    @property
    def span(self) -> int:
        """In cycles."""
        return self.last - self.first

    def loads(self, by: str) -> list[Load]:
        """By "vcpu", "domain" or "cpu", in order; without the vCPUs that were offline all
        the time, as those of a domain are that is gone."""
        if by == "cpu":
            return [Load(owner, 0, row) for owner, row in self.cpus.items()]
        online = [Load(owner, 1, row) for owner, row in self.vcpus.items() if _is_online(row)]
        return online if by == "vcpu" else _by_domain(online)


def _is_online(row: Row) -> bool:
    return bool(row.exits or row.hypercalls or sum(row.times) > row.times[codes.OFFLINE])


def _by_domain(vcpus: list[Load]) -> list[Load]:
    found: dict[Owner, Load] = {}
    for load in vcpus:
        owner = Owner(load.owner.domain)
        before = found.get(owner) or Load(owner, 0, Row([0] * len(load.row.times)))
        before.row.add(load.row)
        found[owner] = before._replace(vcpus=before.vcpus + 1)
    return list(found.values())


class Sampler:
    """Turns the counters of one analysis into samples."""

    def __init__(
        self, analysis: Analysis, clock: Clock, request: Request, info: TraceInfo,
        boot: tuple[int, int] = (1, 1),
    ) -> None:
        """Raises UsageError if nobody knows the clock's rate."""
        if clock.rate is None:
            raise UsageError("top shows rates: it needs the clock's", hint=NO_RATE_HINT)
        self.rate = clock.rate
        self._analysis = analysis
        self.start = clock.start
        """What seconds are counted from."""
        self._request = request
        self._info = info
        self._boot = boot
        self._vcpus = Pieces(analysis, "vcpu", request.domain)
        self._cpus = Pieces(analysis, "cpu")

    def sample(
        self, piece: Counters, at: Nanoseconds | None = None, notes: Sequence[str] = ()
    ) -> Sample:
        """What happened in a piece."""
        verdict = verdict_of(self._analysis, self._request, self._info)
        whole, vcpus = self._vcpus.rows(piece, verdict)
        machine, cpus = self._cpus.occupancy(piece)
        return Sample(
            self._info, self._boot, self.rate, verdict, self.start, piece.first, piece.last,
            whole, machine, vcpus, cpus, at, (*notes, *_missing(machine)),
        )


def _missing(machine: Row) -> list[str]:
    """What there is to say where no time is known of any CPU."""
    busy, idle = machine.times[:2]
    if not machine.records or busy or idle:
        return []
    return ["no scheduler events: nobody knows who ran (xtracectl mask shows what is traced)"]


def replay(
    path: str, request: Request, every: Nanoseconds, progress: Progress,
    take_problems: Callable[[Sequence[Problem]], None],
) -> Iterator[Sample]:
    """The samples of an input, one boot of the hypervisor after the other; what could not be
    read is told at the end of each. Raises StoreError, FormatError, UsageError (no clock
    rate), and what ends a run (Stopped)."""
    found = parts(path)
    for place, part in enumerate(found, start=1):
        with closing(part()) as reader:
            analyzer, clock = analyzer_of(reader, request, timed=True)
            sampler = Sampler(
                analyzer.analysis, clock, request, reader.info, (place, len(found))
            )
            cycles = max(1, every * sampler.rate.hz // 10**9)
            for piece in intervals(analyzer, cycles, progress):
                yield sampler.sample(piece)
            take_problems(reader.problems)
