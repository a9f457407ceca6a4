"""Intervals of a pass: they add up to the whole, and each has what happened in it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from tests.support import captures
from tests.support.analysis import (
    BLOCKED,
    HZ,
    LOST,
    RUNNABLE,
    RUNNING,
    UNKNOWN,
    MemoryReader,
    change,
    vmentry,
    vmexit,
)
from tests.support.xentrace import lost
from tracelib.analysis import codes, moments
from tracelib.analysis.analyze import Analyzer
from tracelib.analysis.forms import Forms
from tracelib.clock import Clock, Rate
from tracelib.losses import Cause, Loss
from tracelib.reading import open as open_trace
from tracelib.records import make_record
from tracelib.units import CpuId, Tsc


def analyzer(reader, hz=HZ, **options):
    clock = Clock(Tsc(0), Rate(hz, "test"), reader.info.anchors)
    return Analyzer(reader, clock, Forms(family=None, version=None), **options)


def pieces(payloads, cycles, losses=(), **options):
    return list(moments.intervals(analyzer(MemoryReader(payloads, losses), **options), cycles))


def times(piece):
    """Of the only vCPU that has a name."""
    (row,) = [row for index, row in piece.times.items() if sum(row) and index > 1]
    return row


def added(found):
    """The sum of all intervals, as one."""
    whole: dict[str, Counter] = {}
    met: set[int] = set()
    for piece in found:
        for index in piece.times.keys() - met:
            # Unknown until it turned up.
            whole.setdefault("times", Counter())[index, UNKNOWN] += piece.first - found[0].first
        met |= piece.times.keys()
        for name in ("times", "spells", "exits", "tallies", "gaps"):
            for key, row in getattr(piece, name).items():
                for column, value in enumerate(row):
                    whole.setdefault(name, Counter())[key, column] += value
        for name in ("moves", "occupied", "records"):
            whole.setdefault(name, Counter()).update(getattr(piece, name))
    return {name: {k: v for k, v in rows.items() if v} for name, rows in whole.items()}


@pytest.mark.parametrize("name", ["destroy.trace", "keepon.trace", "boot4.trace"])
@pytest.mark.parametrize("divisor", [1, 37])
def test_they_add_up(tmp_path, name, divisor):
    """To what one pass from end to end counts, in every counter, and with no hole between."""
    path = captures.write(name, tmp_path)
    with_one = analyzer(open_trace(path), captures.TSC_HZ)
    with_one.run()
    last = with_one.analysis.last
    whole = moments.look(with_one, last)
    reader = open_trace(path)
    found = list(moments.intervals(
        analyzer(reader, captures.TSC_HZ), captures.TSC_HZ // divisor,
    ))  # fmt: skip
    assert len(found) > divisor
    assert (found[0].first, found[-1].last) == (whole.first, last)
    assert all(a.last == b.first for a, b in pairwise(found))
    assert added(found) == added([whole])


def test_a_vcpu_that_runs_is_split():
    """It runs from 1000 to 4000; nothing is recorded at the edges of the intervals."""
    row = [change(1000, 1, 0, RUNNABLE, RUNNING), change(4000, 1, 0, RUNNING, BLOCKED),
           change(4600, 1, 0, BLOCKED, RUNNABLE)]  # fmt: skip
    found = pieces({0: row}, 2000)
    assert [(piece.first, piece.last) for piece in found] == [(1000, 3000), (3000, 4600)]
    assert [times(piece)[RUNNING] for piece in found] == [2000, 1000]
    assert times(found[1])[BLOCKED] == 600
    assert [piece.occupied.get((0, 1 << 16)) for piece in found] == [2000, 1000]
    (spell,) = [key for piece in found[:1] for key in piece.spells] or [None]
    assert spell is None


def test_an_exit_belongs_to_where_it_ends():
    row = [change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(2900, 12), vmentry(3200), vmentry(3300)]
    first, second = pieces({0: row}, 2000)
    ((_, counters),) = first.exits.items()
    assert (counters[codes.SEEN], counters[codes.PAIRED]) == (1, 0)
    ((_, counters),) = second.exits.items()
    assert (counters[codes.SEEN], counters[codes.PAIRED], counters[codes.CYCLES]) == (0, 1, 300)


def test_a_gap_that_is_not_over_is_not_running():
    """Records are missing from 2000 to 6000; the lost record comes at 6000. The interval that
    ends at 3000 knows already that it could not see the last third of itself."""
    row = [change(1000, 1, 0, RUNNABLE, RUNNING), vmentry(1500),
           lost(6000, 5, 2000, dom=1), vmentry(6500), vmentry(7000)]  # fmt: skip
    found = pieces({0: row}, 2000)
    assert [times(piece)[RUNNING] for piece in found] == [1000, 0, 1000]
    assert [times(piece)[LOST] for piece in found] == [1000, 2000, 1000]
    assert [piece.occupied.get((0, codes.CPU_LOST), 0) for piece in found] == [1000, 2000, 1000]
    assert [list(piece.gaps.values()) for piece in found] == [[], [], [[1, 5, 0, 4000]]]


def test_a_stated_loss_that_is_not_over():
    row = [change(1000, 1, 0, RUNNABLE, RUNNING), vmentry(1500), vmentry(6500), vmentry(7000)]
    loss = Loss(Cause.CRASH, CpuId(0), None, first_tsc=Tsc(2000), last_tsc=Tsc(6000))
    found = pieces({0: row}, 2000, [loss])
    assert [times(piece)[LOST] for piece in found] == [1000, 2000, 1000]
    assert times(found[2])[UNKNOWN] == 1000  # no record says who runs from then on


def test_a_part_of_the_time():
    """The first interval starts at `since`, the last one ends at `until`."""
    row = [change(1000, 1, 0, RUNNABLE, RUNNING), *(vmentry(tsc) for tsc in range(1500, 9000, 500))]
    found = pieces({0: row}, 2000, since=Tsc(2100), until=Tsc(7000))
    assert [(piece.first, piece.last) for piece in found] == [
        (2100, 4100), (4100, 6100), (6100, 7000),
    ]
    assert [times(piece)[RUNNING] for piece in found] == [2000, 2000, 900]


def test_a_vcpu_that_turns_up():
    """It is unknown since the start of that interval, not since the start of all."""
    row = [change(1000, 1, 0, RUNNABLE, RUNNING), vmentry(9000),
           change(9500, 2, 0, RUNNABLE, BLOCKED), vmentry(10_000), vmentry(10_500)]  # fmt: skip
    last = pieces({0: row}, 4000)[-1]
    assert (last.first, last.last) == (9000, 10_500)
    assert [sum(row) for row in last.times.values() if sum(row)] == [1500] * len(
        [row for row in last.times.values() if sum(row)]
    )
    assert [500, 1000] in [[row[UNKNOWN], row[BLOCKED]] for row in last.times.values()]


def test_a_clock_that_jumps_costs_one_interval():
    """A damaged time stamp 2**60 cycles ahead is no 2**50 intervals."""
    row = [change(1000, 1, 0, RUNNABLE, RUNNING), vmentry((1 << 60) + 1), vmentry((1 << 60) + 2)]
    found = pieces({0: row}, 1000)
    assert len(found) == 2
    assert sum(times(piece)[RUNNING] for piece in found) == (1 << 60) + 2 - 1000


@pytest.mark.parametrize("row", [[], [make_record(0x21011, 1)]])
def test_nothing_that_has_a_time(row):
    assert pieces({0: row}, 1000) == []


def test_a_domain_that_is_made():
    """It was offline before; the interval in which its vCPU turns up has its own part of that."""
    row = [vmentry(1000), make_record(0x28001, 5, tsc=2500), vmentry(9000),
           change(9500, 5, 0, codes.OFFLINE, RUNNABLE), vmentry(10_000)]  # fmt: skip
    last = pieces({0: row}, 4000)[-1]
    (found,) = [row for row in last.times.values() if row[RUNNABLE]]
    assert found == [0, 500, 0, 500, 0, 0]
