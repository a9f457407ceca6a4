"""What guests asked of Xen beside exits, and what the machine did: mostly counts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tracelib.analysis.analyze import Analysis
from tracelib.analysis.results import By, guests, unseen_share
from tracelib.analysis.tallies import TallyRow, tallies, unplaced
from tracelib.units import DomId


@dataclass(slots=True)
class Activity:
    """The section "pv"."""

    by: By
    calls: list[TallyRow]
    """Hypercalls by number, and those inside multicalls."""
    entries: list[TallyRow]
    """Traps by number, page faults by error code, emulations."""
    memory: list[TallyRow]
    """Grant and other memory operations, by the domain whose memory it is."""
    interrupts: list[TallyRow]
    power: list[TallyRow]
    """Power states by depth, changes of frequency."""
    others: int
    """Records that found no room in the tables; exits' handlers are counted there too."""
    unseen: float | None
    """Share of the vCPUs' time that was lost or unknown."""


_CALLS = ("hypercall", "hypercall_subcall")


def activity(analysis: Analysis, *, by: By, domain: DomId | None = None) -> Activity:
    """The section. Rows belong to the vCPU that ran on the CPU when the record was written:
    for interrupts and power states that is whom they disturbed, often an idle one."""

    found = tallies(analysis, by=by, domain=domain, groups=("pv", "mem", "irq", "power"))
    group_of = {kind.event: kind.group for kind in analysis.forms.kinds}
    rows: defaultdict[str, list[TallyRow]] = defaultdict(list)
    for row in found:
        rows["calls" if row.event in _CALLS else group_of[row.event]].append(row)
    return Activity(
        by, rows["calls"], rows["pv"], rows["mem"], rows["irq"], rows["power"],
        unplaced(analysis),
        unseen_share(guests(analysis, domain)),
    )
