"""The section "pv" for people."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tracelib.analysis.activity import Activity
from tracelib.analysis.labels import value_text
from tracelib.analysis.tallies import TallyRow
from xtracectl.render.durations import per_second, percent
from xtracectl.render.table import count, number_of
from xtracectl.summarizing import Report


def activity_text(section: Activity, report: Report, top: int) -> list[str]:
    """A table for each group of events that occurs."""
    lines = [
        "Hypercalls and other activity: counts",
        f"  not seen: {percent(section.unseen)} of the vCPUs' time",
    ]
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
    if section.others:
        lines.append(f"  {count(section.others)} records more, of too many kinds to list")
    return lines


def _table(
    title: str, rows: Sequence[TallyRow], section: Activity, report: Report, top: int
) -> list[str]:
    lines = [f"{section.by:<10}{title:<44}{'count':>13}{'/s':>13}"]
    for (owner, event), group in groupby(rows, lambda row: (row.owner, row.event)):
        listed = list(group)
        for row in listed[:top]:
            lines.append(_line(owner.name, _label(row), row.count, report))
        if rest := sum(row.count for row in listed[top:]):
            more = f"{event}: {number_of(len(listed) - top, 'value')} more"
            lines.append(_line(owner.name, more, rest, report))
    return lines


def _label(row: TallyRow) -> str:
    return f"{row.event} {value_text(row.event, row.value)}".rstrip()


def _line(name: str, label: str, number: int, report: Report) -> str:
    rate = per_second(number, report.span, report.rate)
    return f"{name:<10}{label:<44.44}{count(number):>13}{rate:>13}"
