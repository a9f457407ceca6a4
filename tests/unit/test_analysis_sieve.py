"""The sieve leaves the rows that are wanted, and says what the others add up to."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.uncompiled import load_uncompiled
from tracelib.analysis import sieve as installed
from tracelib.analysis.tables import Table

FORMS = {"installed": installed, "uncompiled": load_uncompiled(installed)}

rows = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(0, 30), st.integers(0, 2),
        st.integers(0, 200) | st.integers(0, (1 << 64) - 1),
    ),
    max_size=80,
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=150, deadline=None)
@given(rows, st.integers(1, 5))
def test_no_row_that_is_wanted_is_missing(form, given_rows, kept):
    table = Table(2, 1000)
    told: dict[int, dict[int, list[int]]] = defaultdict(dict)
    for high, low, count, cost in given_rows:
        row = table.row(high, low)
        table.add(row, 0, count)
        table.raise_to(row, 1, cost)
        before = told[high].get(low, [0, 0])
        told[high][low] = [before[0] + count, max(before[1], cost)]
    told = {
        high: some for high, group in told.items()
        if (some := {low: row for low, row in group.items() if row[0]})
    }
    sieve = FORMS[form].Sieve(table, 1, kept)
    assert sieve.sizes() == {high: len(group) for high, group in told.items()}
    for high in told:
        if high == 0:
            sieve.drop(high)
        elif high == 1 or high == 2:
            sieve.thin(high)
    left: dict[int, dict[int, list[int]]] = defaultdict(dict)
    for high, low, *counters in sieve.left():
        left[high][low] = counters
    assert 0 not in left
    assert left[3] == told.get(3, {})
    for high in (1, 2):
        group = told.get(high, {})
        wanted = sorted(group, key=lambda low: -group[low][1])[:kept]
        dearest = min((group[low][1] for low in wanted), default=0)
        assert set(wanted) <= {low for low in left[high] if left[high][low][1] >= dearest}
        out = [row for low, row in group.items() if low not in left[high]]
        assert all(row[1] <= dearest for row in out)
        if group:
            sums = [sum(column) & (1 << 64) - 1 for column in zip(*out, strict=True)] or [0, 0]
            assert sieve.rest(high) == [len(out), *sums]


def test_few_are_left_of_many():
    table = Table(1, 100_000)
    for number in range(50_000):
        table.add(table.row(7, number), 0, number + 1)
    sieve = installed.Sieve(table, 0, 1000)
    sieve.thin(7)
    left = Counter({low: count for _, low, count in sieve.left()})
    assert 1000 <= len(left) <= 1000 + 50_000 // 32, "by no more than a bucket too many"
    assert min(left.values()) == 50_000 - len(left) + 1
    assert sieve.rest(7) == [50_000 - len(left), sum(range(1, min(left.values())))]
