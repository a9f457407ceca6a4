"""`diff` for people, in 80 columns, and as JSON."""

from __future__ import annotations

import json
from typing import Any

from tracelib.units import format_size
from xtracectl.answers.comparing import COLUMNS, Comparison, Pair, Row
from xtracectl.answers.summarizing import Report
from xtracectl.render.durations import percent, short_cycles, short_time
from xtracectl.render.table import number_of, table

SCHEMA = 1

_TITLES = {
    "exits": "VM exits: time in the hypervisor a second, how often, what one costs",
    "runstates": "Runstates: share of the time seen; how long a wait for a CPU was",
    "pv": "Hypercalls and other activity, a second",
    "volume": "Volume: bytes of trace a second",
}


def text(found: Comparison, *, top: int) -> str:
    """What the two are, what they could not see, and tables of what changed most."""
    lines = [
        f"A: {_head(found.before)}",
        f"B: {_head(found.after)}",
        f"not seen: A {percent(found.unseen.before)}, B {percent(found.unseen.after)} "
        "of the vCPUs' time",
        f"lost records a second: A {_number(found.lost.before)}, B {_number(found.lost.after)}",
        "? marks what the time not seen may be all the reason for",
    ]
    for name, rows in found.sections.items():
        lines += ["", _TITLES[name], *_section(name, rows[:top], found)]
        if rows[top:]:
            lines.append(f"and {number_of(len(rows) - top, 'row')} that changed less")
    return "\n".join(lines)


def _head(report: Report) -> str:
    boot, boots = report.boot
    which = f", boot {boot} of {boots}" if boots > 1 else ""
    if report.rate is None:
        return f"{report.info.name}{which}: {short_cycles(report.span)} cycles"
    return f"{report.info.name}{which}: {report.span / report.rate.hz:.3f} s at {report.rate}"


def _section(name: str, rows: list[Row], found: Comparison) -> list[str]:
    if not rows:
        return ["  none"]
    heads = {
        "exits": ("whose", "reason", "A", "B", "change", "A /s", "B /s", "A each", "B each"),
        "runstates": ("whose", "state", "A", "B", "change", "A wait", "B wait"),
        "pv": ("whose", "what", "A", "B", "change"),
        "volume": ("class", "A", "B", "change"),
    }[name]
    cells = [_cells(name, row, found) for row in rows]
    left = (0,) if name == "volume" else (0, 1)
    return table(heads, cells, left=left).split("\n")


def _cells(name: str, row: Row, found: Comparison) -> list[str]:
    mark = "?" if row.doubtful else ""
    if name == "exits":
        rate, mean, load = row.values
        return [
            row.owner, f"{row.what:.18}", *_both(load, found), _factor(load) + mark,
            _number(rate.before), _number(rate.after), *_both(mean, found),
        ]  # fmt: skip
    if name == "runstates":
        share, wait = row.values
        points = f"{100 * share.change:+.1f}{mark}"
        return [
            row.owner, row.what, _percentage(share.before), _percentage(share.after), points,
            *_both(wait, found),
        ]  # fmt: skip
    (value,) = row.values
    if name == "volume":
        sizes = [_size(value.before), _size(value.after)]
        return [row.what, *sizes, _factor(value) + mark]
    numbers = [_number(value.before), _number(value.after)]
    return [row.owner, f"{row.what:.40}", *numbers, _factor(value) + mark]


def _both(times: Pair, found: Comparison) -> list[str]:
    show = short_time if found.timed else short_cycles
    return ["-" if time is None else show(round(time)) for time in times]


def _factor(value: Pair) -> str:
    """ "+12 %", "x 3.4", "new", "gone"."""
    before, after = value.before or 0.0, value.after or 0.0
    if not before:
        return "new" if after else "-"
    if not after:
        return "gone"
    ratio = after / before
    return f"x {ratio:.1f}" if ratio >= 2 else f"{100 * (ratio - 1):+.0f} %"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 9.95 or value == 0 else f"{value:.1f}"


def _percentage(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _size(value: float | None) -> str:
    return "-" if value is None else format_size(round(value))


def json_text(found: Comparison) -> str:
    """One object; pairs are [first, second], null where there is nothing to tell."""
    return json.dumps({
        "schema": SCHEMA,
        "before": _name(found.before),
        "after": _name(found.after),
        "unit": "ns" if found.timed else "cycles",
        "unseen_share": list(found.unseen),
        "lost_per_second": list(found.lost),
        **{name: [_row(name, row) for row in rows] for name, rows in found.sections.items()},
    })


def _name(report: Report) -> dict[str, Any]:
    return {
        "name": report.info.name, "boot": report.boot[0], "boots": report.boot[1],
        "tsc_hz": None if report.rate is None else report.rate.hz, "span": str(report.span),
    }


def _row(name: str, row: Row) -> dict[str, Any]:
    return {
        "owner": row.owner or None,
        "what": row.what,
        **{
            column: list(pair)
            for column, pair in zip(COLUMNS[name], row.values, strict=True)
        },
        "within_unseen": row.doubtful,
    }
