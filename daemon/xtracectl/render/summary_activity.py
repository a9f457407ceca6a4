"""The section "pv" for people."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tracelib.analysis.activity import Activity
from tracelib.analysis.labels import value_text
from tracelib.analysis.results import Owner
from tracelib.analysis.tallies import TallyRow
from xtracectl.render.durations import per_second, percent
from xtracectl.render.table import count, indented, number_of
from xtracectl.summarizing import Report

_OWNER = 10
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
    lines = [f"{section.by:<{_OWNER}}{title:<44}{'count':>13}{'/s':>13}"]
    for (owner, _), group in groupby(rows, lambda row: (row.owner, row.event)):
        listed = list(group)
        for row in listed[:top]:
            lines.append(_line(_owner(owner, section), tally_label(row), row.count, report))
        if rest := listed[top:]:
            number = sum(row.count for row in rest)
            lines.append(_line(_owner(owner, section), more_values(rest), number, report))
    return lines


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


def _line(name: str, label: str, number: int, report: Report) -> str:
    rate = per_second(number, report.span, report.rate)
    return f"{name:<{_OWNER}}{label:<44.44}{count(number):>13}{rate:>13}"
