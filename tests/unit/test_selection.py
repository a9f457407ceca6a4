"""Which records are shown, and that gaps always are."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.xentrace import chunks_from, lost, timed
from tracelib.batches import CpuDecoder
from tracelib.chunks import ClockAnchor
from tracelib.clock import Clock, Rate
from tracelib.columns import Columns, concatenate
from tracelib.events.filter import parse_event_filter
from tracelib.export.groups import Catalogue
from tracelib.gaps import MALFORMED, Gap, gap_at, gap_rows, stated_rows
from tracelib.losses import Cause, Loss
from tracelib.records import make_record
from tracelib.selection import Selection
from tracelib.units import CpuId, DomId, Nanoseconds, Tsc

CPU = CpuId(0)


def batch_of(*records: bytes) -> Columns:
    return concatenate(list(CpuDecoder(CPU).batches(chunks_from([(0, b"".join(records))]))))


def chosen(selection: Selection, *records: bytes) -> list[int]:
    return np.flatnonzero(selection.rows(batch_of(*records), Catalogue())).tolist()


def events(*texts: str) -> Selection:
    return Selection(events=parse_event_filter(texts))


RECORDS = (
    timed(10, 0x28004, 1, 0), timed(20, 0x28006, 2, 0), timed(30, 0x21201, 1 << 16),
    timed(40, 0x81001), timed(50, 0x10F001, 3),
)  # fmt: skip


def test_everything():
    assert Selection().everything
    assert chosen(Selection(), *RECORDS) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "rows"),
    [("wake", [0]), ("sched", [0, 1, 2]), ("28006,81001", [1, 3]), ("hvm.emul", []), ("mem", [4])],
)
def test_events(text, rows):
    assert chosen(events(text), *RECORDS) == rows


def test_domain_by_name_and_by_who_runs():
    """d1 is named by records 0 and 2, and runs from record 2 on; d3 is named by 4."""
    assert chosen(Selection(domain=DomId(1)), *RECORDS) == [0, 2, 3, 4]
    assert chosen(Selection(domain=DomId(3)), *RECORDS) == [4]
    assert chosen(Selection(domain=DomId(2)), *RECORDS) == [1]
    assert chosen(Selection(domain=DomId(0)), *RECORDS) == []


def test_time_includes_its_start_and_not_its_end():
    assert chosen(Selection(since=Tsc(20), until=Tsc(40)), *RECORDS) == [1, 2]
    assert chosen(Selection(since=Tsc(21)), *RECORDS) == [2, 3, 4]
    assert chosen(Selection(until=Tsc(10)), *RECORDS) == []


def test_untimed_records_go_with_the_one_before():
    records = (make_record(0x82001, 1), timed(10), make_record(0x82001, 2), timed(20))
    assert chosen(Selection(since=Tsc(10), until=Tsc(20)), *records) == [1, 2]
    assert chosen(Selection(until=Tsc(20)), *records) == [0, 1, 2]


GAP = lost(100, 9, 50)


@pytest.mark.parametrize(
    ("since", "until", "shown", "cut"),
    [
        (None, None, True, False), (None, 50, False, True), (None, 51, True, True),
        (None, 101, True, False), (50, None, True, False), (51, None, True, True),
        (100, None, True, True), (101, None, False, True), (60, 70, True, True),
    ],
)  # fmt: skip
def test_gaps_in_time(since, until, shown, cut):
    """R13: a time that begins or ends inside a gap shows it, as one whose count for that
    time is unknown."""
    selection = Selection(since=since, until=until)
    batch = batch_of(GAP)
    assert selection.rows(batch, Catalogue()).tolist() == [shown]
    gap = selection.clip(gap_at(batch, 0, ()))
    assert gap.cut == cut
    assert gap.records == 9


@pytest.mark.parametrize(
    "selection", [events("wake"), Selection(domain=DomId(77)), Selection(cpus=frozenset({CPU}))]
)
def test_gaps_are_never_filtered_otherwise(selection):
    """R13"""
    assert 1 in chosen(selection, timed(10), GAP, timed(110))


def test_both_shapes_of_lost_records():
    """R16: 7 and 9 counted, a length only for the second; three words are malformed."""
    batch = batch_of(
        make_record(0x1F001, 7, tsc=10), lost(20, 9, 15), make_record(0x1F001, 1, 2, 3)
    )
    assert gap_rows(batch).all()
    assert [gap_at(batch, row, ()) for row in range(3)] == [
        Gap(CPU, Cause.RING_FULL, 7, None, Tsc(10)),
        Gap(CPU, Cause.RING_FULL, 9, Tsc(15), Tsc(20)),
        Gap(CPU, Cause.RING_FULL, None, None, Tsc(20), MALFORMED),
    ]


def test_stated_losses_become_rows():
    clock = Clock(
        Tsc(0), Rate(10**9, "test"), [ClockAnchor(Tsc(0), Nanoseconds(0), Nanoseconds(0))]
    )
    losses = [
        Loss(Cause.WRITE_FAILED, CpuId(3), 500, first_tsc=Tsc(100), last_tsc=Tsc(200)),
        Loss(Cause.TAIL_UNKNOWN, CpuId(1), None, at=Nanoseconds(150)),
        Loss(Cause.CRASH, CpuId(2), None),
    ]
    rows = stated_rows(losses, clock)
    assert rows.key.tolist() == [0, 150, 200]
    assert rows.cpu.tolist() == [2, 1, 3]
    assert [gap_at(rows, row, losses).cause for row in range(3)] == [
        Cause.CRASH, Cause.TAIL_UNKNOWN, Cause.WRITE_FAILED
    ]
    selection = Selection(since=Tsc(150))
    assert selection.rows(rows, Catalogue(), losses).tolist() == [True, True, True]
    selection = Selection(since=Tsc(201))
    assert selection.rows(rows, Catalogue(), losses).tolist() == [True, True, False]
