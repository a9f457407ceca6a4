"""`distribution` for people: numbers and bars of each group, in 80 columns."""

from __future__ import annotations

import numpy as np

from xtracectl.answers.distributing import Part, ranked
from xtracectl.answers.spreading import Group, Values
from xtracectl.render.durations import duration, percent, short_cycles, short_time
from xtracectl.render.summary_exits import FAMILY
from xtracectl.render.table import count, indented, number_of

_BAR = 50


def text(part: Part, *, top: int) -> str:
    """A heading, then the groups with the largest sums; `top` bounds their number, and that
    of the values that are shown."""
    lines = _head(part)
    groups = ranked(part.groups)
    for name, group in groups[:top]:
        if isinstance(group, Group):
            lines += ["", *_durations(name, group)]
        else:
            lines += ["", *_values(name, group, top)]
    if groups[top:]:
        points = sum(
            group.spread.number if isinstance(group, Group) else group.number
            for _, group in groups[top:]
        )
        more = number_of(len(groups) - top, "group")
        lines += ["", f"and {more} more, {number_of(points, 'point')} (--top)"]
    return "\n".join(line.rstrip() for line in lines)


def _head(part: Part) -> list[str]:
    boot, boots = part.boot
    name = part.info.name + (f", boot {boot} of {boots}" if boots > 1 else "")
    lines = [*indented(f"{name}: {part.what.about}", 0).split("\n")]
    lines.append(
        f"  {number_of(part.points, 'point')}; "
        f"not seen: {percent(part.unseen)} of the vCPUs' time"
    )
    if part.clock.rate is None:
        lines.append("  the clock rate is not known: in cycles (--cpu-hz)")
    verdict = part.verdict
    if verdict is not None:
        lines.append(f"  reasons are {FAMILY[verdict.family]}: {verdict.source}")
    if part.stopped is not None:
        lines.append("  interrupted: this is only what was read until then")
    return lines


def _durations(name: str, group: Group) -> list[str]:
    spread, rate = group.spread, group.rate
    numbers = {
        "sum": spread.sum, "mean": spread.mean,
        **{f"p{part}": spread.percentile(part) for part in (50, 95, 99)}, "max": spread.most,
    }
    said = "  ".join(f"{what} {duration(cycles, rate)}" for what, cycles in numbers.items())
    lines = [name, f"  {count(spread.number)} times  {said}"]
    show = short_cycles if rate is None else short_time
    places = np.flatnonzero(group.counts)
    for place in range(int(places[0]), int(places[-1]) + 1):
        number = int(group.counts[place])
        start = f"from {show(group.bins.starts[place])}"
        lines.append(f"  {start:<12}{count(number):>11}  {_bar(number, int(group.counts.max()))}")
    return lines


def _bar(number: int, most: int) -> str:
    """Whatever is not nothing is to be seen."""
    return "#" * -(-number * _BAR // most)


def _values(name: str, group: Values, top: int) -> list[str]:
    lines = [
        name,
        f"  {count(group.number)} times, {number_of(group.distinct, 'value')}"
        f"{' and more' if group.others else ''}, from {group.least:#x} to {group.most:#x}",
    ]
    shown = group.top(top)
    for value, number in shown:
        lines.append(f"  {value:<#18x}{count(number):>11}  {_bar(number, shown[0][1])[:46]}")
    return lines
