"""Tables and histograms: like a dictionary, within bounds, and equal compiled or not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.uncompiled import load_uncompiled
from tracelib.analysis import codes, histograms, tables
from tracelib.analysis.results import PERCENTILE_ERROR, Spread

FORMS = {
    "compiled" if tables.COMPILED else "installed": (tables, histograms),
    "uncompiled": (load_uncompiled(tables), load_uncompiled(histograms)),
}

u64 = st.integers(0, (1 << 64) - 1)
keys = st.tuples(u64 | st.integers(0, 5), u64 | st.integers(0, 5))


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(keys, st.integers(0, 1 << 40)), max_size=200))
def test_a_table_is_a_dictionary(form, additions):
    table = FORMS[form][0].Table(2, 1000)
    told: dict = {}
    for (high, low), amount in additions:
        row = table.row(high, low)
        table.add(row, 0, amount)
        table.raise_to(row, 1, amount)
        before = told.get((high, low), [0, 0])
        told[high, low] = [before[0] + amount, max(before[1], amount)]
    assert {(high, low): counters for high, low, counters in table.items()} == told
    assert list(told) == [table.keys(row) for row in range(1, table.rows)]
    assert table.others() == [0, 0]


@pytest.mark.parametrize("form", FORMS)
def test_what_finds_no_room_is_added_up(form):
    """R51: memory is bounded, and no total is wrong."""
    table = FORMS[form][0].Table(1, 100)
    for number in range(5000):
        table.add(table.row(7, number), 0, 1)
    assert len(list(table.items())) == 100
    assert table.others() == [4900]
    table.zero(0)
    assert table.others() == [0]
    assert {counters[0] for _, _, counters in table.items()} == {0}
    assert table.row(7, 0) == 1


@pytest.mark.parametrize("form", FORMS)
@given(value=u64)
def test_a_bucket_holds_values_that_are_close(form, value):
    module = FORMS[form][1]
    number = module.bucket(value)
    middle = module.bucket_middle(number)
    assert module.bucket(middle) == number
    if value < 1 << codes.LONGEST_BITS:
        assert abs(middle - value) <= value * PERCENTILE_ERROR
    assert number <= module.bucket(min(value + 1, (1 << 64) - 1))


@pytest.mark.parametrize("form", FORMS)
def test_histograms(form):
    found = FORMS[form][1].Histograms(20)
    numbers = [found.new() for _ in range(25)]
    assert numbers == [*range(1, 21), 0, 0, 0, 0, 0]
    for value in (5, 5, 1000, 1 << 60):
        found.note(3, value)
    assert found.buckets(2) == {}
    assert sorted(found.buckets(3).values()) == [1, 1, 2]
    found.zero()
    assert found.buckets(3) == {}


@given(st.lists(st.integers(0, 1 << 44), min_size=1, max_size=300), st.sampled_from([50, 95, 99]))
def test_percentiles(values, percent):
    spread = Spread()
    for value in values:
        spread.add(Spread(1, value, value))
        spread.buckets[histograms.bucket(value)] += 1
    exact = sorted(values)[-(-len(values) * percent // 100) - 1]
    assert abs(spread.percentile(percent) - exact) <= exact * PERCENTILE_ERROR
    assert spread.mean == pytest.approx(sum(values) / len(values), abs=0.51)


def test_nothing_has_no_percentiles():
    assert (Spread().mean, Spread().percentile(99)) == (0, 0)


def test_twins():
    """codes.pxd has the numbers of codes.py, and no others."""
    text = (Path(codes.__file__).parent / "codes.pxd").read_text()
    found = {name: int(value) for name, value in re.findall(r"^    (\w+) = (-?\d+)$", text, re.M)}
    for name, value, shift in re.findall(r"#define XTR_(\w+) +\((\d+)ULL << (\d+)\)", text):
        found[name] = int(value) << int(shift)
    ours = {name: value for name, value in vars(codes).items() if name.isupper()}
    assert found == ours
