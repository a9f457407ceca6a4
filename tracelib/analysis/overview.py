"""What a trace is, in a few numbers; and of its sections what stands out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tracelib.analysis import codes
from tracelib.analysis.analyze import Analysis
from tracelib.analysis.exits import ExitRow, Exits
from tracelib.analysis.results import Spread, guests, split
from tracelib.analysis.runstates import Runstates, StateRow
from tracelib.units import DomId

FIRST = 3
"""So many rows stand out."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What there is, whatever part of it is asked for."""

    cpus: int
    """With records."""
    domains: dict[DomId, int]
    """Guests, and how many vCPUs of each were seen; a process of KVM is one too."""
    records: int
    lost: int
    """Records that are known to be lost."""
    gaps: int
    uncounted: int
    """Gaps of which nobody knows how many records are missing."""


def facts(analysis: Analysis) -> Facts:
    """Of what was read and counted."""
    vcpus = Counter(split(vcpu.who)[0] for vcpu in guests(analysis, None))
    sums = analysis.gaps.sums.values()
    return Facts(
        len(analysis.engine.cpus), dict(sorted(vcpus.items())),
        sum(counters[codes.COUNT] for _, _, counters in analysis.engine.volume.items()),
        sum(total.records for total in sums), sum(total.gaps for total in sums),
        sum(total.uncounted for total in sums),
    )


def dearest(section: Exits) -> list[ExitRow]:
    """The reasons that took most time in the hypervisor, of whomever."""
    rows = sorted(section.rows, key=lambda row: -row.cost.sum)
    return [row for row in rows[:FIRST] if row.cost.sum]


def waits(row: StateRow) -> Spread:
    """All waits for a CPU that were seen whole, whatever they followed."""
    both = Spread()
    both.add(row.spells[codes.WOKEN])
    both.add(row.spells[codes.PREEMPTED])
    return both


def waited_most(section: Runstates) -> list[StateRow]:
    """Who was runnable, without a CPU, for the largest share of its time."""
    return _most(section.rows, codes.RUNNABLE)


def busiest(section: Runstates) -> list[StateRow]:
    """Who ran for the largest share of its time."""
    return _most(section.rows, codes.RUNNING)


def _most(rows: Iterable[StateRow], state: int) -> list[StateRow]:
    ordered = sorted(rows, key=lambda row: -row.times[state] / row.vcpus)
    return [row for row in ordered[:FIRST] if row.times[state]]
