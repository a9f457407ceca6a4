"""Bars, percentiles and samples in bounded memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelib.analysis.distributions import Points
from tracelib.analysis.histograms import bucket
from tracelib.clock import Rate
from xtracectl import plotting
from xtracectl.answers import spreading
from xtracectl.answers.spreading import Bins, Group, Values, buckets_of
from xtracectl.plotting import Sample

u64 = st.integers(0, (1 << 64) - 1)


def array(*values):
    return np.array(values, np.uint64)


@given(st.lists(u64 | st.integers(0, 1 << 50) | st.sampled_from([63, 64, (1 << 53) - 1])))
def test_buckets(values):
    """The same as the engine's."""
    assert buckets_of(array(*values)).tolist() == [bucket(value) for value in values]


def test_bins_are_exact():
    """At 3 GHz, 2 us are 6000 cycles: 5999 cycles are in the bar before."""
    bins = Bins(Rate(3_000_000_000, "test"))
    counts = bins.count(array(0, 5999, 6000, 14_999, 15_000))
    found = {bins.starts[place]: int(counts[place]) for place in np.flatnonzero(counts)}
    assert found == {0: 1, 1000: 1, 2000: 2, 5000: 1}


def test_bins_without_a_rate():
    bins = Bins(None)
    assert bins.starts[:6] == [0, 1, 2, 5, 10, 20]
    counts = bins.count(array(4, 5, (1 << 64) - 1))
    assert counts.sum() == 3
    assert counts[2] == counts[3] == counts[-1] == 1


@given(st.lists(st.lists(u64, min_size=1), min_size=1))
def test_groups(batches):
    """Number, sum and maximum are exact, in any parts."""
    group = Group(None)
    for batch in batches:
        group.add(array(*batch))
    values = sorted(value for batch in batches for value in batch)
    assert group.spread.number == len(values) == group.counts.sum()
    assert (group.spread.sum, group.spread.most) == (sum(values), values[-1])


def test_values(monkeypatch):
    monkeypatch.setattr(spreading, "MAX_VALUES", 2)
    values = Values()
    values.add(array(7, 7, 9))
    values.add(array(7, 8, 9, 1 << 63))
    assert values.top(5) == [(7, 3), (9, 2)]
    assert (values.number, values.distinct, values.others) == (7, 2, 2)
    assert (values.least, values.most) == (7, 1 << 63)


def points(first, last):
    numbers = np.arange(first, last)
    row = numbers.astype(np.uint64)
    return Points(row, row, numbers, numbers, numbers, row)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 1000])
@pytest.mark.parametrize("number", [0, 1, 9, 10, 11, 21, 500, 999])
def test_samples_do_not_depend_on_parts(monkeypatch, size, number):
    """Every step-th point from the first on, and between half the most and the most."""
    monkeypatch.setattr(plotting, "MAX_POINTS", 10)
    sample = Sample()
    for first in range(0, number, size):
        sample.add(points(first, min(first + size, number)))
    assert sample.tsc.tolist() == list(range(0, number, sample.step))
    assert len(sample.tsc) <= 10
    assert sample.step == 1 or len(sample.tsc) >= 5
