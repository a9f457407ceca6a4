"""Interrupts, and how long Xen took to handle them."""

from __future__ import annotations

import pytest

from tests.support.analysis import RUNNABLE, RUNNING, analyze, change
from tracelib.analysis.activity import activity
from tracelib.records import make_record

_HANDLED = 0x802008


def _handled(irq, tsc_in, tsc_out, *, tsc):
    return make_record(_HANDLED, irq, tsc_in & 0xFFFFFFFF, tsc_out & 0xFFFFFFFF, tsc=tsc)


@pytest.mark.parametrize("by", ["vcpu", "domain", "cpu"])
def test_time(by):
    """xen/arch/x86/irq.c has the low halves of the time stamps before and after the handler:
    the difference is right also where the lower half began anew in between."""
    records = [
        change(1000, 1, 0, RUNNABLE, RUNNING),
        _handled(30, 2000, 2500, tsc=2600), _handled(30, 3000, 3040, tsc=3100),
        _handled(4, (1 << 32) - 10, (1 << 32) + 90, tsc=(1 << 32) + 200),
    ]  # fmt: skip
    rows = activity(analyze({0: records}, by_cpu=by == "cpu"), by=by).interrupts
    assert [(row.value, row.count, row.costed, row.cost) for row in rows] == [
        (30, 2, 2, 540), (4, 1, 1, 100),
    ]  # fmt: skip


def test_odd_records_only_count():
    """R35: a known event of another length is not taken apart."""
    records = [make_record(_HANDLED, 30, tsc=2000), make_record(_HANDLED, tsc=2001)]
    (row,) = activity(analyze({0: records}), by="cpu").interrupts
    assert (row.value, row.count, row.costed, row.cost) == (None, 2, 0, 0)


def test_before_the_part_that_counts():
    records = [_handled(30, 2000, 2500, tsc=2600), _handled(30, 4000, 4001, tsc=4100)]
    (row,) = activity(analyze({0: records}, since=3000), by="vcpu").interrupts
    assert (row.count, row.costed, row.cost) == (1, 1, 1)
