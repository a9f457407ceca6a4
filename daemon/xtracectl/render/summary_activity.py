"""The section "pv" for people."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tracelib.analysis.activity import Activity
from tracelib.analysis.labels import value_text
from tracelib.analysis.results import Owner
from tracelib.analysis.tallies import TallyRow
from xtracectl.answers.summarizing import Report
from xtracectl.render.durations import duration, per_second, percent
from xtracectl.render.table import count, indented, number_of

_OWNER = 10
_LABEL = 49
_TIME = 8
_NO_TIMES = (
    "PV hypercalls have no record of their end, so no time; those of HVM and PVH guests are "
    "among their exits, with it"
)


def activity_text(section: Activity, report: Report, top: int) -> list[str]:
    """A table for each group of events that occurs."""
    lines = [
        "Hypercalls and other activity: counts",
        f"  not seen: {percent(section.unseen)} of the vCPUs' time",
    ]
    if section.calls:
        lines += indented(_NO_TIMES, 2).split("\n")
    groups = (
        ("hypercalls", section.calls), ("traps, faults, emulations", section.entries),
        ("memory and grants", section.memory), ("interrupts", section.interrupts),
        ("power", section.power),
    )  # fmt: skip
    for title, rows in groups:
        if rows:
            lines += ["", *_table(title, rows, section, report, top)]
    if not any(rows for _, rows in groups):
        lines.append("  none")
    rows = [row for _, group in groups for row in group]
    if section.by != "cpu" and any(row.owner.domain is None for row in rows):
        lines += ["", "  (?): nobody knows which vCPU ran there then"]
    if section.others:
        lines.append(f"  {count(section.others)} records more, of too many kinds to list")
    return lines


def _table(
    title: str, rows: Sequence[TallyRow], section: Activity, report: Report, top: int
) -> list[str]:
    """With columns of time if any of the rows has one."""
    timed = any(row.costed for row in rows)
    wide = _LABEL - 2 * _TIME if timed else _LABEL
    times = f"{'time':>{_TIME}}{'mean':>{_TIME}}" if timed else ""
    lines = [f"{section.by:<{_OWNER}}{title:<{wide}}{'count':>12}{'/s':>9}{times}"]
    for (owner, _), group in groupby(rows, lambda row: (row.owner, row.event)):
        listed = list(group)
        labelled = [(row, tally_label(row)) for row in listed[:top]]
        if rest := listed[top:]:
            labelled.append((summed(rest), more_values(rest)))
        for row, label in labelled:
            rate = per_second(row.count, report.span, report.rate)
            name = f"{_owner(owner, section):<{_OWNER}}{label:<{wide}.{wide}}"
            lines.append(f"{name}{count(row.count):>12}{rate:>9}{_times(row, timed, report)}")
    return lines


def _times(row: TallyRow, timed: bool, report: Report) -> str:
    if not timed:
        return ""
    cells = ["-"] * 2
    if row.costed:
        mean = (row.cost + row.costed // 2) // row.costed
        cells = [duration(row.cost, report.rate), duration(mean, report.rate)]
    return "".join(f"{cell:>{_TIME}}" for cell in cells)


def summed(rows: Sequence[TallyRow]) -> TallyRow:
    """Rows of one event that are not shown, as one."""
    whole = TallyRow(rows[0].owner, rows[0].event, None, values=0)
    for row in rows:
        whole.add(row.count, row.costed, row.cost, row.off)
    return whole


def _owner(owner: Owner, section: Activity) -> str:
    """A CPU by its number where nobody knows who ran there."""
    return f"{owner.name} (?)" if owner.domain is None and section.by != "cpu" else owner.name


def tally_label(row: TallyRow) -> str:
    """What a row counts."""
    if row.values > 1:
        return f"{row.event}: {number_of(row.values, 'value')} more"
    return f"{row.event} {value_text(row.event, row.value)}".rstrip()


def more_values(rest: Sequence[TallyRow]) -> str:
    """A name for rows of one event that are not shown."""
    return f"{rest[0].event}: {number_of(sum(row.values for row in rest), 'value')} more"

