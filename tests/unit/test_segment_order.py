"""steps_back, compiled and as plain Python: equal results, and the right ones."""

from __future__ import annotations

import importlib.util
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracelib.segment
from tracelib.records import make_record
from tracelib.segment import order


def plain():
    """The same file, never compiled."""
    path = tracelib.segment.__path__[0] + "/order.py"
    spec = importlib.util.spec_from_file_location("plain_order", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=[order.steps_back, plain().steps_back], ids=["as installed", "plain"])
def steps_back(request):
    return request.param


def words(*records: bytes) -> memoryview:
    return memoryview(array("I", b"".join(records)))


def timed(tsc: int) -> bytes:
    return make_record(0x21011, 5, tsc=tsc)


TOP = (1 << 64) - 1


@pytest.mark.parametrize(
    ("times", "before", "expected"),
    [
        ([], 0, (0, 0, 0)),
        ([], 99, (0, 0, 0)),
        ([5, 5, 6], 5, (12, 0, 0)),
        ([4, 5, 6], 5, (0, 1, 1)),
        ([7, 6, 8, 1], 0, (4, 1, 2)),
        ([TOP, TOP - 1], 0, (4, 1, 1)),
        ([TOP, 0], TOP, (4, TOP, 1)),
        ([1 << 32, (1 << 32) - 1], 0, (4, 1, 1)),
    ],
)
def test_places_and_sizes(steps_back, times, before, expected):
    data = words(*map(timed, times))
    assert steps_back(data, 0, len(data), before) == expected


def test_records_without_time_and_wrap_fillers_have_no_part(steps_back):
    data = words(
        timed(9), make_record(0x82013, 1, 2), make_record(0x1F002, 3, tsc=1), timed(9),
        make_record(0x1F001, 1, tsc=8),
    )  # fmt: skip
    assert steps_back(data, 0, len(data), 0) == (4 + 3 + 4 + 4, 1, 1)


def test_only_the_range_that_is_asked_for(steps_back):
    data = words(timed(9), timed(1), timed(5), timed(2))
    assert steps_back(data, 4, 12, 0) == (12, 0, 0)


@given(st.lists(st.tuples(st.integers(0, 7), st.none() | st.integers(0, TOP))), st.integers(0, TOP))
def test_both_forms_agree(shapes, before):
    data = words(*(make_record(0x21011, *range(n), tsc=tsc) for n, tsc in shapes))
    expected = plain().steps_back(data, 0, len(data), before)
    assert order.steps_back(data, 0, len(data), before) == expected
