"""What the scheduler recorded of its own decisions: counts by event, and on whose behalf."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tracelib.analysis.analyze import Analysis
from tracelib.analysis.results import By
from tracelib.analysis.tallies import tallies
from tracelib.units import DomId

SCHEDULERS = {
    "csched_": "credit", "csched2_": "credit2", "rtds_": "rtds", "null_": "null",
}  # fmt: skip
"""By the beginning of their events' names."""

_NO_DOMAIN = 0xFFFF
"""-1, as the null scheduler has it for a CPU without a unit; domains have 15 bits."""


@dataclass(slots=True)
class Decision:
    """One event of a scheduler's."""

    event: str
    count: int = 0
    domains: Counter[DomId] = field(default_factory=Counter)
    """Whose units its records name; the sum is `count` where each record names one."""

    @property
    def own(self) -> bool:
        """Whether only one scheduler has such events."""
        return self.event.startswith(tuple(SCHEDULERS))


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Part of the section "runstates"."""

    schedulers: list[str]
    """Those whose events occur, by name."""
    decisions: list[Decision]
    """The most frequent first."""


def scheduling(
    analysis: Analysis, *, by: By, domain: DomId | None = None
) -> Scheduling:
    """Of all CPUs; with `domain`, only what names it. `by` is how the analysis was made."""
    found: dict[str, Decision] = {}
    for row in tallies(analysis, by=by, domain=None, groups=("sched",)):
        named = None if row.value is None or row.value == _NO_DOMAIN else DomId(row.value)
        if domain is not None and named != domain:
            continue
        decision = found.setdefault(row.event, Decision(row.event))
        decision.count += row.count
        if named is not None:
            decision.domains[named] += row.count
    names = {
        scheduler for start, scheduler in SCHEDULERS.items()
        if any(event.startswith(start) for event in found)
    }  # fmt: skip
    ordered = sorted(found.values(), key=lambda decision: (-decision.count, decision.event))
    return Scheduling(sorted(names), ordered)
