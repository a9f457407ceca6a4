"""The head of a summary for people: what the trace is, and what stands out in it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from tracelib.analysis import codes
from tracelib.analysis.exits import ExitRow, Exits
from tracelib.analysis.overview import Facts, busiest, dearest, waited_most, waits
from tracelib.analysis.results import By, Owner
from tracelib.analysis.runstates import Runstates
from tracelib.chunks import TraceInfo
from tracelib.events.values import domain_name
from tracelib.units import DomId
from xtracectl.answers.summarizing import Report
from xtracectl.render.durations import duration, percent, share
from xtracectl.render.table import WIDTH, count, indented, number_of

_LABEL = 13
_DOMAINS = 6
"""So many are named."""
_HYPERVISORS = {"xentrace": "Xen", "kvmtrace": "KVM"}
"""Who writes such files, which do not say."""
_VENDORS = {"vmx": "Intel", "svm": "AMD", "ppc": "PowerPC"}


def facts_text(report: Report) -> list[str]:
    """How much there is, of whom, and by which hypervisor it was written."""
    much = (
        f"{number_of(report.facts.records, 'record')} of {_who(report.facts)}; "
        f"{_lost(report.facts, report.info)}"
    )
    return [*indented(much, 2).split("\n"), *indented(_machine(report), 2).split("\n")]


def _who(facts: Facts) -> str:
    named = [_domain(*entry) for entry in list(facts.domains.items())[:_DOMAINS]]
    if len(facts.domains) > _DOMAINS:
        named.append(f"{number_of(len(facts.domains) - _DOMAINS, 'domain')} more")
    whom = ", ".join(named) or "no domain named"
    return f"{number_of(facts.cpus, 'CPU')}; {whom}"


def _domain(domain: DomId, vcpus: int) -> str:
    return f"{domain_name(domain)} ({number_of(vcpus, 'vCPU')})"


def _lost(facts: Facts, info: TraceInfo) -> str:
    if info.losses_unknown is not None:
        return "whether any were lost is unknown"
    if not facts.gaps:
        return "none lost"
    text = f"{count(facts.lost)} lost" if facts.lost else "some lost"
    text += f" in {number_of(facts.gaps, 'gap')}"
    return text + f", {count(facts.uncounted)} of unknown size" if facts.uncounted else text


def _machine(report: Report) -> str:
    """Hypervisor and processor, by the file or by a guess that is called one."""
    info = report.info
    name = info.hypervisor or _HYPERVISORS.get(info.kind, "hypervisor")
    parts = [f"{name} {info.hypervisor_version or ''}".rstrip()]
    if info.hypervisor_version is None:
        parts[0] += " of unknown version"
    exits = report.sections.get("exits")
    if info.cpu_vendor is not None:
        parts.append(f"CPU by {info.cpu_vendor}")
    elif isinstance(exits, Exits) and exits.rows and exits.verdict.family is not None:
        guessed = ", a guess" if exits.verdict.guessed else ""
        parts.append(f"CPU by {_VENDORS[exits.verdict.family]} (its exit reasons{guessed})")
    else:
        parts.append("CPU vendor unknown")
    if info.host is not None:
        parts.append(f"host {info.host}")
    return ", ".join(parts)


def short_text(report: Report) -> list[str]:
    """What stands out, a paragraph for each question; nothing of an empty trace, or without the
    sections that can answer them."""
    if not report.facts.records:
        return []
    lines = []
    for label, text in _answers(report):
        lines += textwrap.wrap(
            text, WIDTH, initial_indent=f"  {label:<{_LABEL}}",
            subsequent_indent=" " * (_LABEL + 2), break_on_hyphens=False,
        )
    return ["In short", *lines] if lines else []


def _answers(report: Report) -> Iterator[tuple[str, str]]:
    exits, states = report.sections.get("exits"), report.sections.get("runstates")
    if isinstance(exits, Exits):
        yield "cost most", _dearest(exits, report)
    if isinstance(states, Runstates) and states.rows:
        yield "waited most", _waited(states, report)
        yield "busiest", _busiest(states)
    if isinstance(states, Runstates):
        yield "not seen", _unseen(states)


def _dearest(section: Exits, report: Report) -> str:
    rows = dearest(section)
    if not rows:
        return "no VM exit with its entry: PV guests have none, or a mask left them out"
    return "; ".join(_exit(row, section, report) for row in rows)


def _exit(row: ExitRow, section: Exits, report: Report) -> str:
    running = section.running.get(row.owner, 0)
    text = (
        f"{owner_title(row.owner, section.by)} {row.cause.name}: "
        f"{duration(row.cost.sum, report.rate)} in {number_of(row.cost.number, 'exit')}"
    )
    if row.owner.domain is None and section.by != "cpu":
        text += ", time off the CPU included"
    elif section.off_cpu_known and running:
        text += f", {share(row.cost.sum, running)} % of its running time"
    return text


def _waited(section: Runstates, report: Report) -> str:
    parts = []
    for row in waited_most(section):
        spread = waits(row)
        text = f"{row.owner.name} {_part(section, row.times[codes.RUNNABLE], row.vcpus)} runnable"
        if spread.number:
            mean = duration(spread.mean, report.rate)
            text += f", {number_of(spread.number, 'wait')}, mean {mean}"
        parts.append(text)
    return "; ".join(parts) or "nobody"


def _busiest(section: Runstates) -> str:
    rows = [
        f"{row.owner.name} {_part(section, row.times[codes.RUNNING], row.vcpus)}"
        for row in busiest(section)
    ]
    parts = [f"running {', '.join(rows)}"] if rows else ["nobody was seen running"]
    if section.cpus:
        busy = sum(row.busy for row in section.cpus)
        parts.append(f"all CPUs {_part(section, busy, len(section.cpus))} busy")
    return "; ".join(parts)


def _unseen(section: Runstates) -> str:
    text = (
        f"{percent(section.unseen)} of the vCPUs' time, "
        f"{percent(section.unseen_cpus)} of the CPUs'"
    )
    if not section.rows:
        text += "; no record says who ran where: trace the events sched.min too"
    return text


def _part(section: Runstates, cycles: int, times: int) -> str:
    whole = section.span * times
    return percent(cycles / whole if whole else None)


def owner_title(owner: Owner, by: By) -> str:
    """The name of an owner of exits, also if nobody knows who it was."""
    if owner.domain is None and by != "cpu":
        return f"unknown vCPUs on {owner.name}"
    return owner.name
