"""The section "where" for people."""

from __future__ import annotations

from tracelib.analysis.where import Where, WhereRow, by_owner
from xtracectl.answers.summarizing import Report
from xtracectl.render.durations import duration, percent
from xtracectl.render.table import count, number_of


def where_text(section: Where, report: Report, top: int) -> list[str]:
    """For each owner the addresses that cost most."""
    lines = [
        "Where the guests were: code addresses at exits, traps and faults",
        f"  not seen: {percent(section.unseen)} of the vCPUs' time",
    ]
    if not section.rows:
        return [*lines, "  none"]
    for owner, rows in by_owner(section):
        lines += [
            "", f"{owner.name:<36}{'why':<18}{'count':>11}{'cost':>7}{'mean':>7}"
        ]
        lines += [_line(row, report) for row in rows[:top]]
        if rest := rows[top:]:
            more = f"  {number_of(len(rest), 'row')} more"
            lines.append(f"{more:<54}{count(sum(row.count for row in rest)):>11}")
    if section.others:
        lines.append(f"  {count(section.others)} more at too many addresses to list")
    return lines


def _line(row: WhereRow, report: Report) -> str:
    cost, mean = ("-", "-") if not row.costed else (
        duration(row.cost, report.rate), duration(row.cost // row.costed, report.rate)
    )  # fmt: skip
    place = row.symbol or (f"{row.address:#x}" if row.address else "not said")
    return f"{place:<36.35}{row.what:<18.17}{count(row.count):>11}{cost:>7}{mean:>7}"
