"""Cells: whole columns written as Python would write each value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelib.export.cells import Sheet

values64 = st.lists(
    st.integers(0, (1 << 64) - 1) | st.sampled_from([0, 1, 9999, 10000, 99999999, 10**8, 1 << 32]),
    min_size=1, max_size=20,
)
EDGES = [0, 1, 9, 10, 9999, 10_000, 10_001, 99_999_999, 10**8, (1 << 32) - 1, 1 << 32,
         10**16, 10**19, (1 << 64) - 1]  # fmt: skip


def lines(write, count: int) -> list[str]:
    sheet = Sheet(count)
    write(sheet)
    sheet.text("\n")
    return sheet.render().decode().splitlines()


@given(values64)
def test_decimal_and_hexadecimal(values):
    array = np.array(values, np.uint64)
    assert lines(lambda s: s.decimal(array), len(values)) == [str(v) for v in values]
    assert lines(lambda s: s.hexadecimal(array), len(values)) == [f"{v:x}" for v in values]


@pytest.mark.parametrize("value", EDGES)
def test_edges_alone_and_among_others(value):
    for values in ([value], [*EDGES, value]):
        array = np.array(values, np.uint64)
        assert lines(lambda s, a=array: s.decimal(a), len(values)) == [str(v) for v in values]
        assert lines(lambda s, a=array: s.hexadecimal(a), len(values)) == [f"{v:x}" for v in values]


@given(st.lists(st.integers(-(1 << 62), 1 << 62), min_size=1))
def test_signed(values):
    array = np.array(values, np.int64)
    assert lines(lambda s: s.signed(array), len(values)) == [str(v) for v in values]


@given(st.lists(st.integers(0, 10**9 - 1), min_size=1), st.sampled_from([9, 10, 13]))
def test_fixed(values, digits):
    for dtype in (np.uint32, np.uint64):
        array = np.array(values, dtype)
        got = lines(lambda s, a=array: s.fixed(a, digits), len(values))
        assert got == [f"{v:0{digits}}" for v in values]


@given(values64, st.integers(1, 20))
def test_aligned(values, digits):
    array = np.array(values, np.uint64)
    assert lines(lambda s: s.aligned(array, digits), len(values)) == [
        f"{v:>{digits}}" for v in values
    ]


@given(st.lists(st.sampled_from(["", "a", "abcd", "abcdefghi", "ä"]), min_size=1))
def test_choice(texts):
    codes = np.arange(len(texts))
    assert lines(lambda s: s.choice(codes, texts), len(texts)) == texts
    assert lines(lambda s: s.choice(codes[::-1], texts), len(texts)) == texts[::-1]


def test_spelled_calls_once_for_each_value():
    calls = []
    array = np.array([7, 3, 7, 7], np.uint32)
    got = lines(lambda s: s.spelled(array, lambda v: (calls.append(v), f"<{v}>")[1]), 4)
    assert got == ["<7>", "<3>", "<7>", "<7>"]
    assert sorted(calls) == [3, 7]


def test_side_by_side():
    left, right = Sheet(2), Sheet(1)
    left.text("long text")
    right.decimal(np.array([5], np.uint32))
    sheet = Sheet(4)
    sheet.text("[")
    sheet.beside([(np.array([3, 0]), left), (np.array([1]), right)])
    sheet.text("]\n")
    assert sheet.render() == b"[long text]\n[5]\n[]\n[long text]\n"


def test_no_lines():
    sheet = Sheet(0)
    sheet.decimal(np.array([], np.uint64))
    sheet.text("x\n")
    assert sheet.render() == b""
