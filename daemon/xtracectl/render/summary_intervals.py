"""`summary --interval` as CSV, or as one JSON object a line.

A line is one owner in one interval; "all" is the whole machine. CSV has seconds, cut to
nanoseconds so that the lines of an owner add up to the same as its cycles do; JSON has
cycles, as strings of digits.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from tracelib.analysis.exits import Cause
from tracelib.analysis.results import Owner
from tracelib.clock import Rate
from xtracectl.answers.intervals import CPU_TIMES, VCPU_TIMES, Interval, Row
from xtracectl.render.points import CSV, seconds

SCHEMA = 1

ALL = "all"

_OF_CPUS = ("records", "bytes", "gaps", "lost_records", "uncounted_gaps")
"""What a vCPU's or a domain's line does not know."""


class _Key(NamedTuple):
    """Whose running total, and of what."""

    boot: int
    owner: str
    column: str


class CsvSeries:
    """Lines, with the running totals by which they are rounded."""

    def __init__(self, by: str) -> None:
        self._times = CPU_TIMES if by == "cpu" else VCPU_TIMES
        self._totals: Counter[_Key] = Counter()
        self.head = CSV.head([
            "boot", "start", "end", "owner", *self._times, "exits", "exit_cost", "top_exit",
            "hypercalls", *_OF_CPUS,
        ])  # fmt: skip

    def lines(self, piece: Interval) -> Iterator[str]:
        """All together, then each owner."""
        start = seconds(_nanoseconds(piece.first - piece.clock.start, piece.rate))
        end = seconds(_nanoseconds(piece.last - piece.clock.start, piece.rate))
        for owner, row in _rows(piece):
            name = _name(piece, owner)
            times = [
                self._seconds(_Key(piece.boot[0], name, column), cycles, piece.rate)
                for column, cycles in zip(self._times, row.times, strict=True)
            ]
            cost = self._seconds(_Key(piece.boot[0], name, "exits"), row.cost, piece.rate)
            reason = next((cause.name for cause, _ in _dearest(row, 1)), None)
            yield CSV.line((), (
                piece.boot[0], start, end, name, *times, row.exits, cost, reason,
                row.hypercalls, *_counts(piece, owner, row).values(),
            ))  # fmt: skip

    def _seconds(self, key: _Key, cycles: int, rate: Rate) -> str:
        before = _nanoseconds(self._totals[key], rate)
        self._totals[key] += cycles
        return seconds(_nanoseconds(self._totals[key], rate) - before)


def json_lines(piece: Interval, top: int) -> Iterator[str]:
    """All together, then each owner; with its `top` dearest exit reasons."""
    head = {
        "schema": SCHEMA,
        "boot": piece.boot[0],
        "first_tsc": str(piece.first),
        "last_tsc": str(piece.last),
        "start": seconds(_nanoseconds(piece.first - piece.clock.start, piece.rate)),
        "end": seconds(_nanoseconds(piece.last - piece.clock.start, piece.rate)),
        "tsc_hz": piece.rate.hz,
        "family": piece.verdict.family,
        "family_guessed": piece.verdict.guessed,
    }
    for owner, row in _rows(piece):
        yield json.dumps(head | _object(piece, owner, row, top)) + "\n"


def _object(piece: Interval, owner: Owner | None, row: Row, top: int) -> dict[str, Any]:
    times = CPU_TIMES if piece.by == "cpu" else VCPU_TIMES
    domain, vcpu, cpu = owner or Owner()
    return {
        "owner": _name(piece, owner), "domain": domain, "vcpu": vcpu, "cpu": cpu,
        **row_object(row, times, top),
        **_counts(piece, owner, row),
    }


def row_object(row: Row, times: tuple[str, ...], top: int) -> dict[str, Any]:
    """What every row has."""
    return {
        "cycles": {name: str(cycles) for name, cycles in zip(times, row.times, strict=True)},
        "exits": row.exits,
        "exits_paired": row.paired,
        "exit_cycles": str(row.cost),
        "top_exits": [
            {
                "name": cause.name, "reason": cause.reason, "nested": cause.nested,
                "exits": row.often[cause], "cycles": str(cycles),
            }
            for cause, cycles in _dearest(row, top)
        ],
        "hypercalls": row.hypercalls,
    }


def _dearest(row: Row, top: int) -> list[tuple[Cause, int]]:
    return [(cause, cycles) for cause, cycles in row.reasons.most_common(top) if cycles]


def _rows(piece: Interval) -> Iterator[tuple[Owner | None, Row]]:
    yield None, piece.whole
    yield from piece.rows.items()


def _name(piece: Interval, owner: Owner | None) -> str:
    if owner is None:
        return ALL
    if owner.domain is None and piece.by != "cpu":
        return f"unknown vCPUs on {owner.name}"
    return owner.name


def _counts(piece: Interval, owner: Owner | None, row: Row) -> dict[str, int | None]:
    values = row.records, row.bytes, row.gaps, row.lost, row.uncounted
    known = owner is None or piece.by == "cpu"
    return {name: value if known else None for name, value in zip(_OF_CPUS, values, strict=True)}


def _nanoseconds(cycles: int, rate: Rate) -> int:
    """Rounded down, so that a total's parts can be told by differences."""
    return cycles * 10**9 // rate.hz
