"""Who had a CPU, who waited for one, and for how long."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tracelib.analysis import codes
from tracelib.analysis.analyze import Analysis
from tracelib.analysis.results import (
    By,
    Owner,
    Spread,
    guests,
    owner_of,
    split,
    spread_of,
    unseen_share,
)
from tracelib.analysis.scheduling import Scheduling, scheduling
from tracelib.analysis.vcpus import Cpu
from tracelib.units import IDLE_DOMAIN, CpuId, DomId

STATES = ("running", "runnable", "blocked", "offline", "lost", "unknown")
"""By number: Xen's runstates, and two for what was not seen."""

SPELLS = ("ran", "woken", "preempted", "slept")
"""By number: uninterrupted times on a CPU; waiting for one after a wake-up; after having
been put off one; blocked."""


@dataclass(slots=True)
class StateRow:
    """One vCPU, or a domain's together. Cycles."""

    owner: Owner
    vcpus: int = 0
    times: list[int] = field(default_factory=lambda: [0] * codes.STATES)
    """By state; the sum is the span, once for each vCPU."""
    spells: list[Spread] = field(default_factory=lambda: [Spread() for _ in SPELLS])
    """By kind: those that were seen from beginning to end, untouched by losses."""
    moves: int = 0
    """How often one began to run on another CPU than the one it was on before."""
    contradictions: int = 0
    """Changes from a state that it was not in, as far as seen."""


@dataclass(slots=True)
class CpuRow:
    """One physical CPU. Cycles; the sum of `idle`, `domains`, `switching`, `lost` and
    `unknown` is the span."""

    cpu: CpuId
    idle: int = 0
    switching: int = 0
    """In Xen's scheduler, between two vCPUs."""
    lost: int = 0
    unknown: int = 0
    domains: Counter[DomId] = field(default_factory=Counter)
    steps_back: int = 0
    """How often its time stamps went back."""

    @property
    def busy(self) -> int:
        """With a guest's vCPU on it."""
        return self.domains.total()


@dataclass(frozen=True, slots=True)
class ClockStep:
    """vCPUs that started on one CPU before they had left the other, by their clocks."""

    ahead: CpuId
    behind: CpuId
    cases: int
    most: int
    """The largest step, in cycles."""


@dataclass(slots=True)
class Runstates:
    """The section."""

    by: By
    span: int
    rows: list[StateRow]
    cpus: list[CpuRow]
    steps: list[ClockStep]
    unseen: float | None
    """Share of the vCPUs' time that was lost or unknown."""
    unseen_cpus: float | None
    """The same of the CPUs."""
    scheduling: Scheduling


def runstates(analysis: Analysis, *, by: By, domain: DomId | None = None) -> Runstates:
    """The section; by CPU, its `rows` are those of vCPUs."""
    cpus = cpu_rows(analysis)
    unseen = sum(row.lost + row.unknown for row in cpus)
    span = analysis.span
    return Runstates(
        by, span, _state_rows(analysis, "domain" if by == "domain" else "vcpu", domain), cpus,
        _clock_steps(analysis), unseen_share(guests(analysis, domain)),
        unseen / (span * len(cpus)) if span and cpus else None,
        scheduling(analysis, by=by, domain=domain),
    )


def _state_rows(analysis: Analysis, by: By, domain: DomId | None) -> list[StateRow]:
    rows: dict[Owner, StateRow] = {}
    of: dict[int, StateRow] = {}
    for vcpu in guests(analysis, domain):
        owner = owner_of(vcpu, by)
        row = of[vcpu.index] = rows.setdefault(owner, StateRow(owner))
        row.vcpus += 1
        row.moves += vcpu.moves
        row.contradictions += vcpu.contradictions
        for state, cycles in enumerate(memoryview(vcpu.times).tolist()):
            row.times[state] += cycles
    for index, kind, counters in analysis.engine.states.spells.items():
        if index in of:
            of[index].spells[kind].add(spread_of(analysis, *counters))
    return sorted(rows.values(), key=lambda row: row.owner.order)


def cpu_rows(analysis: Analysis) -> list[CpuRow]:
    """All CPUs with records, ascending."""
    cpus: dict[int, Cpu] = analysis.engine.cpus
    rows = {
        number: CpuRow(CpuId(number), steps_back=cpus[number].steps_back)
        for number in sorted(cpus)
    }
    for number, occupant, (cycles,) in analysis.engine.states.occupied.items():
        row = rows[number]
        domain, _ = split(occupant)
        if occupant == codes.CPU_LOST:
            row.lost += cycles
        elif occupant == codes.CPU_UNKNOWN:
            row.unknown += cycles
        elif occupant == codes.CPU_SWITCH:
            row.switching += cycles
        elif domain == IDLE_DOMAIN:
            row.idle += cycles
        elif cycles:
            row.domains[domain] += cycles
    return list(rows.values())


def _clock_steps(analysis: Analysis) -> list[ClockStep]:
    return sorted(
        (
            ClockStep(CpuId(ahead), CpuId(behind), cases, most)
            for ahead, behind, (cases, _, most, _) in analysis.engine.states.steps.items()
            if cases
        ),
        key=lambda step: (step.ahead, step.behind),
    )
