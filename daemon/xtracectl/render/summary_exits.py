"""The section "exits" for people."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby

from tracelib.analysis.exits import ExitRow, Exits
from tracelib.analysis.results import PERCENTILE_ERROR, Owner
from tracelib.analysis.tallies import TallyRow
from xtracectl.answers.summarizing import Report
from xtracectl.render.durations import duration, per_second, percent, share
from xtracectl.render.summary_activity import more_values, summed, tally_label
from xtracectl.render.summary_overview import owner_title
from xtracectl.render.table import count, indented, number_of

_NAME = 20
_TITLE = "VM exits: cost in the hypervisor, on a CPU, from exit to entry"
_TITLE_WITH_OFF_TIME = "VM exits: time from exit to entry"

FAMILY: dict[str | None, str] = {
    "vmx": "Intel's", "svm": "AMD's", "ppc": "PowerPC's", None: "unknown, so numbers",
}
"""Whose exit reasons those are."""


def exits_text(section: Exits, report: Report, top: int) -> list[str]:
    """A table for each owner, and what its exits were about."""
    lines = [_TITLE if section.off_cpu_known else _TITLE_WITH_OFF_TIME]
    lines.append(f"  not seen: {percent(section.unseen)} of the vCPUs' time")
    if not section.off_cpu_known:
        lines += indented(
            "nothing in the trace tells when a vCPU is off its CPU: what an exit cost has that "
            "time in it, such as a halted guest's sleep", 2,
        ).split("\n")
    if not section.rows:
        return [*lines, "  none"]
    lines.append(f"  reasons are {FAMILY[section.verdict.family]}: {section.verdict.source}")
    lines += indented(_legend(section), 2).split("\n")
    details: defaultdict[Owner, list[TallyRow]] = defaultdict(list)
    for handler in section.handlers:
        details[handler.owner].append(handler)
    for owner, rows in groupby(section.rows, lambda row: row.owner):
        lines += ["", *_owner(owner, list(rows), section, report)]
        if owner in details:
            lines += ["", *_details(details[owner], section, report, top)]
    if section.others:
        lines.append(f"  {count(section.others)} exits more, of too many kinds to list")
    return lines


def _legend(section: Exits) -> str:
    text = f"percentiles are within {100 * PERCENTILE_ERROR:.1f} %"
    if not section.off_cpu_known:
        return text
    return (
        "%run: cost as a share of the time that the owner ran; off: time off the CPU between "
        f"exit and entry, waiting or blocked, in no other column; {text}"
    )


def _owner(owner: Owner, rows: list[ExitRow], section: Exits, report: Report) -> list[str]:
    running = section.running.get(owner, 0)
    seen = sum(row.seen for row in rows)
    cost = sum(row.cost.sum for row in rows)
    rate = per_second(seen, report.span, report.rate)
    often = "" if report.rate is None else f" ({rate}/s)"
    lines = [
        f"{owner_title(owner, section.by)}: {number_of(seen, 'exit')}{often}, "
        f"{duration(cost, report.rate)} in the hypervisor"
    ]
    if section.off_cpu_known and running:
        lines[0] += f", {share(cost, running)} % of {duration(running, report.rate)} running"
    if owner.domain is None and section.by != "cpu":
        lines += indented(
            "no record says who ran there: paired by CPU, so the cost includes time in which "
            "the vCPU was off it", 2,
        ).split("\n")
    lines.append(
        f"{'reason':<{_NAME}}{'exits':>10}{'/s':>7}{'%run':>6}"
        f"{'mean':>6}{'p50':>6}{'p95':>6}{'p99':>6}{'max':>6}{'off':>6}"
    )
    lines += [line for row in rows for line in _row(row, running, section, report)]
    return lines + _apart(owner, rows, section)


def _off_known(owner: Owner, section: Exits) -> bool:
    """Whether time off the CPU was seen, where there was any."""
    return section.off_cpu_known and (owner.domain is not None or section.by == "cpu")


def _row(row: ExitRow, running: int, section: Exits, report: Report) -> list[str]:
    cost = row.cost
    off = duration(row.off_runnable + row.off_blocked, report.rate)
    cells = [cost.mean, *(cost.percentile(percent) for percent in (50, 95, 99)), cost.most]
    name = row.cause.name + (" (nested)" if row.cause.nested else "")
    numbers = (
        f"{count(row.seen):>10}{per_second(row.seen, report.span, report.rate):>7}"
        f"{share(cost.sum, running):>6}"
        + "".join(f"{duration(cell, report.rate) if cost.number else '-':>6}" for cell in cells)
        + f"{off if _off_known(row.owner, section) else '-':>6}"
    )
    if len(name) >= _NAME:
        return [name, " " * _NAME + numbers]
    return [f"{name:<{_NAME}}{numbers}"]


def _apart(owner: Owner, rows: list[ExitRow], section: Exits) -> list[str]:
    """Exits without their entry, which are in no average, and entries without their exit."""
    kinds = {
        "cut by a loss": sum(row.cut_loss for row in rows),
        "cut by the end": sum(row.cut_end for row in rows),
        "cut by a move not seen": sum(row.cut_unseen for row in rows),
        "entries without their exit": section.lone_entries.get(owner, 0),
    }
    parts = [f"{what} {count(number)}" for what, number in kinds.items() if number]
    text = f"without a pair, in no average: {', '.join(parts)}"
    return indented(text, 2).split("\n") if parts else []


def _details(
    rows: list[TallyRow], section: Exits, report: Report, top: int
) -> list[str]:
    """What the exits' handlers recorded, the dearest event first."""
    lines = [
        "  cost, mean, off: of the exits that such records belong to",
        f"  {'about':<38}{'count':>10}{'cost':>8}{'mean':>8}{'off':>8}",
    ]
    groups = [list(group) for _, group in groupby(rows, lambda row: row.event)]
    for listed in sorted(groups, key=lambda group: -sum(row.cost for row in group)):
        lines += [_detail(row, tally_label(row), section, report) for row in listed[:top]]
        if rest := listed[top:]:
            lines.append(_detail(summed(rest), more_values(rest), section, report))
    return lines


def _detail(row: TallyRow, label: str, section: Exits, report: Report) -> str:
    cells = ["-"] * 3
    if row.costed:
        mean = (row.cost + row.costed // 2) // row.costed
        cells = [duration(value, report.rate) for value in (row.cost, mean, row.off)]
    if not _off_known(row.owner, section):
        cells[2] = "-"
    return f"  {label:<38.38}{count(row.count):>10}" + "".join(f"{cell:>8}" for cell in cells)
