"""What `diff` says of two traces, as a value: computed here, rendered elsewhere.

Everything is normalised by the time that was seen: numbers are a second, times are shares or
nanoseconds. Where neither trace's clock rate is known, a second is 10^9 cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from tracelib.analysis.activity import Activity
from tracelib.analysis.exits import Exits
from tracelib.analysis.labels import value_text
from tracelib.analysis.losslist import Losses
from tracelib.analysis.results import Owner, Spread
from tracelib.analysis.runstates import STATES, Runstates
from tracelib.analysis.volume import Volume
from tracelib.errors import UsageError
from xtracectl.answers.summarizing import Report

COLUMNS: dict[str, tuple[str, ...]] = {
    "exits": ("per_second", "mean_ns", "ns_per_second"),
    "runstates": ("share", "mean_wait_ns"),
    "pv": ("per_second",),
    "volume": ("bytes_per_second",),
}
"""What each section's rows have, by name; rows are ordered by how much the last of "exits"
and the first of the others changed."""

_GIGA = 10**9


class Pair(NamedTuple):
    """A number in the first trace and in the second; None where there is nothing to tell."""

    before: float | None
    after: float | None

    @property
    def change(self) -> float:
        return (self.after or 0.0) - (self.before or 0.0)


class Row(NamedTuple):
    """Something of one owner, in both traces."""

    owner: str
    what: str
    values: tuple[Pair, ...]
    """By the section's COLUMNS."""
    doubtful: bool
    """What the traces could not see might be all of the difference."""


@dataclass(slots=True)
class Comparison:
    """Two reports side by side."""

    before: Report
    after: Report
    unseen: Pair
    """Shares of the vCPUs' time that were lost or unknown."""
    lost: Pair
    """Records a second, as far as their number is known."""
    timed: bool
    """False: nanoseconds and seconds are cycles and 10^9 of them."""
    sections: dict[str, list[Row]] = field(default_factory=dict)
    """What changed most comes first."""


def compare(before: Report, after: Report) -> Comparison:
    """Both with the same sections, "runstates" and "losses" among them. Raises UsageError if
    only one of them has a known clock rate, or one has no time at all."""
    if (before.rate is None) != (after.rate is None):
        name = (before if before.rate is None else after).info.name
        raise UsageError(
            f"{name}: the clock rate is not known, so it cannot be compared with the other",
            hint="give it with --cpu-hz",
        )
    sides = _Side(before), _Side(after)
    result = Comparison(
        before, after, _pair(sides, lambda side: side.unseen),
        _pair(sides, lambda side: side.lost), before.rate is not None,
    )
    for name in before.sections:
        if name in _ROWS:
            result.sections[name] = _compared(name, sides)
    return result


class _Side:
    """One report, and what turns its cycles into the common units."""

    def __init__(self, report: Report) -> None:
        if not report.span:
            raise UsageError(f"{report.info.name}: no span of time in it to compare")
        hz = _GIGA if report.rate is None else report.rate.hz
        self.report = report
        self.scale = _GIGA / hz
        """Nanoseconds a cycle."""
        self.seconds = report.span / hz
        runstates = cast(Runstates, report.sections["runstates"])
        self.unseen = runstates.unseen or 0.0
        self.lost = cast(Losses, report.sections["losses"]).records / self.seconds

    @property
    def seen_seconds(self) -> float:
        """Of the span, as much as was seen of the average vCPU."""
        return max(self.seconds * (1 - self.unseen), 1e-12)


_Found = dict[tuple[Owner, str], tuple[float | None, ...]]


def _exits(side: _Side) -> _Found:
    section = cast(Exits, side.report.sections["exits"])
    return {
        (row.owner, row.cause.name + (" (nested)" if row.cause.nested else "")): (
            row.seen / side.seen_seconds,
            row.cost.sum / row.cost.number * side.scale if row.cost.number else None,
            row.cost.sum * side.scale / side.seen_seconds,
        )
        for row in section.rows
    }


def _runstates(side: _Side) -> _Found:
    section = cast(Runstates, side.report.sections["runstates"])
    found: _Found = {}
    for row in section.rows:
        whole = sum(row.times)
        seen = sum(row.times[: STATES.index("lost")])
        wait = Spread()
        for spread in row.spells[1:3]:  # woken, preempted
            wait.add(spread)
        mean = wait.sum / wait.number * side.scale if wait.number else None
        for name, time in zip(STATES, row.times, strict=True):
            share = time / (whole if name in ("lost", "unknown") else seen or 1) if whole else None
            if time:
                found[row.owner, name] = share, mean if name == "runnable" else None
    return found


def _activity(side: _Side) -> _Found:
    section = cast(Activity, side.report.sections["pv"])
    groups = section.calls, section.entries, section.memory, section.interrupts, section.power
    return {
        (row.owner, f"{row.event} {value_text(row.event, row.value)}".rstrip()): (
            row.count / side.seen_seconds,
        )
        for group in groups for row in group if row.values == 1
    }


def _volume(side: _Side) -> _Found:
    section = cast(Volume, side.report.sections["volume"])
    return {
        (Owner(), name): (amount.bytes / side.seconds,)
        for name, amount in section.classes.items()
    }


_ROWS: Mapping[str, Callable[[_Side], _Found]] = {
    "exits": _exits, "runstates": _runstates, "pv": _activity, "volume": _volume,
}


def _compared(name: str, sides: tuple[_Side, _Side]) -> list[Row]:
    found = _ROWS[name](sides[0]), _ROWS[name](sides[1])
    width = len(COLUMNS[name])
    place = width - 1 if name == "exits" else 0
    rows = []
    for owner, what in sorted(found[0].keys() | found[1].keys(), key=_by_owner):
        one, other = (side.get((owner, what), (None,) * width) for side in found)
        values = tuple(Pair(*pair) for pair in zip(one, other, strict=True))
        text = "" if name == "volume" else owner.name
        rows.append(Row(text, what, values, _doubtful(values[place], sides)))
    return sorted(rows, key=lambda row: -abs(row.values[place].change))


def _by_owner(key: tuple[Owner, str]) -> tuple[tuple[int, int, int], str]:
    return key[0].order, key[1]


def _doubtful(value: Pair, sides: Iterable[_Side]) -> bool:
    """Numbers of what was seen stand for all; by how much that may be wrong is at most what
    was not seen."""
    most = max(abs(value.before or 0.0), abs(value.after or 0.0))
    return 0 < abs(value.change) <= most * sum(side.unseen for side in sides)


def _pair(sides: tuple[_Side, _Side], of: Callable[[_Side], float]) -> Pair:
    return Pair(of(sides[0]), of(sides[1]))
