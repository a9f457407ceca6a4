"""VM exits: what each reason cost whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tracelib.analysis import codes
from tracelib.analysis.analyze import Analysis
from tracelib.analysis.families import Verdict, judge
from tracelib.analysis.results import (
    By,
    Owner,
    Spread,
    guests,
    owner_at,
    owner_of,
    spread_of,
    unseen_share,
    wanted,
)
from tracelib.analysis.runstates import cpu_rows
from tracelib.analysis.tallies import TallyRow, tallies
from tracelib.events.exits import exit_name
from tracelib.units import DomId


class Cause(NamedTuple):
    """Why a vCPU left guest mode."""

    name: str
    reason: int
    nested: bool
    """Out of a guest's guest."""


@dataclass(slots=True)
class ExitRow:
    """One reason's exits of one owner. Cycles."""

    owner: Owner
    cause: Cause
    seen: int = 0
    """All exits; each is in `cost` or one of the three below."""
    cost: Spread = field(default_factory=Spread)
    """In the hypervisor, from exit to entry, without time off the CPU."""
    off_runnable: int = 0
    off_blocked: int = 0
    """Between exit and entry, but off the CPU: waiting for one, or not wanting one."""
    cut_loss: int = 0
    """Records were lost before the entry."""
    cut_end: int = 0
    """The trace, or the domain, ended before the entry."""
    cut_unseen: int = 0
    """The vCPU moved unseen, or exited again without having entered."""

    def add(self, counters: list[int], cost: Spread) -> None:
        self.seen += counters[codes.SEEN]
        self.cost.add(cost)
        self.off_runnable += counters[codes.OFF_RUNNABLE]
        self.off_blocked += counters[codes.OFF_BLOCKED]
        self.cut_loss += counters[codes.CUT_LOSS]
        self.cut_end += counters[codes.CUT_END]
        self.cut_unseen += counters[codes.CUT_UNSEEN]


@dataclass(slots=True)
class Exits:
    """The section."""

    by: By
    verdict: Verdict
    rows: list[ExitRow]
    """By owner, the dearest reason first."""
    others: int
    """Exits that found no room in the table."""
    running: dict[Owner, int]
    """Cycles that each owner ran, as far as seen: what shares are of."""
    lone_entries: dict[Owner, int]
    """Entries whose exit was not seen, where there are any."""
    handlers: list[TallyRow]
    """What the exits were about: registers, ports, pages, vectors."""
    unseen: float | None
    """Share of the vCPUs' time that was lost or unknown; None if that cannot be told."""
    off_cpu_known: bool = True
    """Whether the trace shows when vCPUs are off their CPUs; if not, costs include it."""


def exits(
    analysis: Analysis, *, by: By, domain: DomId | None = None, vendor: str | None = None,
    stated: str | None = None,
) -> Exits:
    """The section. `vendor` is the user's word for whose exit reasons these are, `stated`
    the file's. If `by` is "cpu", the analysis must have been made so."""
    engine = analysis.engine
    found = list(engine.pairs.exits.items())
    verdict = judge(((key & codes.SVM_EVENT, reason) for key, reason, row in found if row[0]),
                    vendor=vendor, stated=stated)
    rows = list(_rows(analysis, found, verdict, by, domain))
    rows.sort(key=lambda row: (row.owner.order, -row.cost.sum, -row.seen, row.cause))
    return Exits(
        by, verdict, rows, engine.pairs.exits.others()[codes.SEEN],
        _running(analysis, by), _lone_entries(analysis, by, domain),
        tallies(analysis, by=by, domain=domain, groups=("hvm", "emul")),
        None if analysis.forms.kvm else unseen_share(guests(analysis, domain)),
        off_cpu_known=not analysis.forms.kvm,
    )


def _rows(
    analysis: Analysis, found: list[tuple[int, int, list[int]]], verdict: Verdict, by: By,
    domain: DomId | None,
) -> Iterator[ExitRow]:
    rows: dict[tuple[Owner, Cause], ExitRow] = {}
    for key, reason, counters in found:
        owner = owner_at(analysis, key >> codes.KIND_BITS, by)
        if not counters[codes.SEEN] or not wanted(owner, domain):
            continue
        family = "svm" if key & codes.SVM_EVENT else verdict.family
        cause = Cause(exit_name(family, reason), reason, bool(key & codes.NESTED))
        row = rows.setdefault((owner, cause), ExitRow(owner, cause))
        row.add(counters, spread_of(
            analysis, counters[codes.PAIRED], counters[codes.CYCLES], counters[codes.LONGEST],
            counters[codes.EXIT_HISTOGRAM],
        ))
    yield from rows.values()


def _running(analysis: Analysis, by: By) -> dict[Owner, int]:
    """By CPU, it is the time that any vCPU but an idle one had it."""
    running: Counter[Owner] = Counter()
    if by == "cpu":
        for row in cpu_rows(analysis):
            running[Owner(cpu=row.cpu)] += row.busy
        return running
    for vcpu in analysis.engine.states.vcpus:
        running[owner_of(vcpu, by)] += vcpu.times[codes.RUNNING]
    return running


def _lone_entries(analysis: Analysis, by: By, domain: DomId | None) -> dict[Owner, int]:
    counts: Counter[Owner] = Counter()
    for vcpu in analysis.engine.states.vcpus:
        owner = owner_of(vcpu, "vcpu" if by == "cpu" else by)
        if vcpu.lone_entries and wanted(owner, domain):
            counts[owner] += vcpu.lone_entries
    return counts
