"""The section "runstates" for people."""

from __future__ import annotations

from collections import Counter

from tracelib.analysis.results import Spread
from tracelib.analysis.runstates import SPELLS, STATES, Runstates, StateRow
from tracelib.analysis.scheduling import Decision, Scheduling
from tracelib.events.values import domain_name
from tracelib.units import DomId
from xtracectl.answers.summarizing import Report
from xtracectl.render.durations import duration, per_second, percent, share
from xtracectl.render.table import count, indented, number_of, table

_SPELL_NAMES = {
    "ran": "ran", "woken": "waited, woken", "preempted": "waited, preempted", "slept": "blocked",
}


_DOMAINS = 3
"""So many have a column of the scheduler's records: 80 columns hold no more."""
_STATES = (
    "runnable: it waits for a CPU; offline: paused, as while a device model answers its I/O, "
    "or its domain is not there; "
    "lost: its CPU's records are missing; unknown: not seen yet; moves: runs begun on another "
    "CPU than the one before"
)


def runstates_text(section: Runstates, report: Report, top: int) -> list[str]:
    """What vCPUs did, how long they waited, what the CPUs did, where clocks disagree."""
    lines = [
        "Runstates: percent of the span",
        f"  not seen: {percent(section.unseen)} of the vCPUs' time, "
        f"{percent(section.unseen_cpus)} of the CPUs'",
    ]
    if section.rows and section.by != "cpu":
        lines += indented(_STATES, 2).split("\n")
        lines += ["", *_states(section), "", *_spells(section, report)]
    if section.cpus:
        lines += ["", "  switch: Xen itself, between two vCPUs", *_cpus(section)]
    return lines + _remarks(section, report) + _scheduling(section.scheduling, report, top)


def _states(section: Runstates) -> list[str]:
    rows = []
    for row in section.rows:
        whole = section.span * row.vcpus
        shares = [share(cycles, whole) for cycles in row.times]
        rows.append([row.owner.name, *shares, count(row.moves)])
    return table([section.by, *STATES, "moves"], rows, left=(0,)).split("\n")


def _spells(section: Runstates, report: Report) -> list[str]:
    heads = [section.by, "how long it", "times", "mean", "p50", "p95", "p99", "max"]
    rows = [
        [row.owner.name, _SPELL_NAMES[name], *_spread(spread, report)]
        for row in section.rows
        for name, spread in zip(SPELLS, row.spells, strict=True)
        if spread.number
    ]
    return table(heads, rows, left=(0, 1)).split("\n") if rows else []


def _spread(spread: Spread, report: Report) -> list[str]:
    cells = [spread.mean, *(spread.percentile(percent) for percent in (50, 95, 99)), spread.most]
    return [count(spread.number), *(duration(cell, report.rate) for cell in cells)]


def _cpus(section: Runstates) -> list[str]:
    rows = []
    for row in section.cpus:
        parts = [row.busy, row.idle, row.switching, row.lost, row.unknown]
        domains = ", ".join(
            f"d{domain} {share(cycles, section.span)}"
            for domain, cycles in row.domains.most_common()
        )
        rows.append([f"cpu{row.cpu}", *(share(part, section.span) for part in parts), domains])
    heads = ["cpu", "busy", "idle", "switch", "lost", "unknown", "by domain"]
    return [line[:80] for line in table(heads, rows, left=(0, 6)).split("\n")]


def _remarks(section: Runstates, report: Report) -> list[str]:
    remarks = [_doubts(row) for row in section.rows if row.contradictions]
    remarks += [
        f"clock disagreement p{step.ahead}/p{step.behind}: "
        f"{duration(step.most, report.rate)} at most, {number_of(step.cases, 'case')}"
        for step in section.steps
    ]
    remarks += [
        f"cpu{row.cpu}: time stamps went back {number_of(row.steps_back, 'time')}"
        for row in section.cpus
        if row.steps_back
    ]
    if not remarks:
        return []
    return ["", *(line for text in remarks for line in indented(text, 2).split("\n"))]


def _scheduling(found: Scheduling, report: Report, top: int) -> list[str]:
    """A row for each event, with a column for each of the domains that most are about."""
    if not found.decisions:
        return []
    totals: Counter[DomId] = Counter()
    for decision in found.decisions:
        totals.update(decision.domains)
    domains = sorted(domain for domain, _ in totals.most_common(_DOMAINS))
    own = [decision for decision in found.decisions if decision.own]
    common = [decision for decision in found.decisions if not decision.own]
    rows = [
        [
            decision.event, count(decision.count),
            per_second(decision.count, report.span, report.rate),
            *(_about(decision, domain) for domain in domains),
        ]
        for decision in common[:top] + own[:top]
    ]
    heads = ["event", "count", "/s", *(domain_name(domain) for domain in domains)]
    kind = " and ".join(found.schedulers) or "of no kind that its events tell"
    lines = ["", f"  scheduler: {kind}; its records, by the domain that they are about"]
    lines += table(heads, rows, left=(0,)).split("\n")
    left = len(found.decisions) - len(rows)
    return [*lines, f"and {number_of(left, 'event')} more"] if left else lines


def _about(decision: Decision, domain: DomId) -> str:
    # A record of the whole scheduler is not one about none of the domains.
    return count(decision.domains[domain]) if decision.domains else "-"


def _doubts(row: StateRow) -> str:
    return (
        f"{row.owner.name}: {number_of(row.contradictions, 'change')} from a state it was not "
        "in, as far as seen (records missing, or a CPU that is not traced)"
    )
