"""Cycles to time: exact integers, whatever the rate and however long the trace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tracelib.chunks import ClockAnchor, TraceInfo
from tracelib.clock import Clock, Rate, find_rate, scale
from tracelib.errors import UsageError
from tracelib.units import Nanoseconds, Tsc, parse_hz

SECOND = 10**9
EPOCH = 1_796_076_000 * SECOND


def tscs(*values: int):
    return np.array(values, np.uint64)


def anchor(tsc: int, realtime: int, monotonic: int) -> ClockAnchor:
    return ClockAnchor(Tsc(tsc), Nanoseconds(realtime), Nanoseconds(monotonic))


@given(
    st.lists(st.integers(-(1 << 62), 1 << 62), min_size=1, max_size=5),
    st.integers(1, 10**9), st.integers(1, 1 << 45) | st.integers(1, (1 << 61) - 1),
)
def test_scale_is_exact(values, numerator, denominator):
    # Results of 64 bits and more are nobody's time.
    values = [value for value in values if abs(value * numerator // denominator) < 1 << 62] or [0]
    got = scale(np.array(values, np.int64), numerator, denominator)
    assert got.tolist() == [value * numerator // denominator for value in values]


@given(
    st.integers(1_000_000, 9_000_000_000), st.integers(0, (1 << 64) - 1),
    st.integers(-(1 << 40), 1 << 57),
)
def test_elapsed_is_exact(hz, start, cycles):
    """R47, R48: no rounding, also at 0xfedcba9876543210 and above."""
    assume(cycles * SECOND // hz < 1 << 63)  # 292 years
    tsc = (start + cycles) % (1 << 64)
    clock = Clock(Tsc(start), Rate(hz, "test"))
    assert clock.elapsed(tscs(tsc)).tolist() == [cycles * SECOND // hz]


def test_neighbours_stay_apart():
    """R48"""
    start = 0xFEDCBA9876543210
    clock = Clock(Tsc(start - 2_000_000_000 * 3600), Rate(1_000_000_000, "test"))
    first, second = clock.elapsed(tscs(start, start + 1)).tolist()
    assert second - first == 1


@pytest.mark.parametrize(
    ("text", "hz"),
    [("2.1G", 2_100_000_000), ("2100M", 2_100_000_000), ("2445400000", 2_445_400_000)],
)
def test_override_wins(text, hz):
    """R47: what the user says, then what the file says; the source is stated."""
    info = TraceInfo("segment", "x", tsc_hz=3_700_000_000, tsc_source="physinfo")
    assert find_rate(info, parse_hz(text)) == Rate(hz, "--cpu-hz")
    assert find_rate(info) == Rate(3_700_000_000, "physinfo")
    assert str(find_rate(info)) == "3700000000 Hz (physinfo)"


def test_unknown_rate_is_not_guessed():
    """R47"""
    assert find_rate(TraceInfo("xentrace", "x")) is None
    clock = Clock(Tsc(0), None)
    with pytest.raises(UsageError, match="needs the clock rate") as error:
        clock.tsc_at_elapsed(Nanoseconds(5))
    assert "--cpu-hz" in (error.value.hint or "")


def test_rate_from_anchors():
    anchors = [anchor(1000, EPOCH, 0), anchor(1000 + 120_000_000_000, EPOCH, 60 * SECOND)]
    info = TraceInfo("segment", "x", anchors=anchors)
    assert find_rate(info) == Rate(2_000_000_000, "clock anchors")


U64 = st.integers(0, (1 << 64) - 1)


@given(st.lists(st.builds(anchor, U64, U64, U64), max_size=4), U64, U64, U64)
def test_nonsense_is_no_crash(anchors, hz, start, tsc):
    """A file may say anything; what no machine does is taken for not said."""
    info = TraceInfo("segment", "x", tsc_hz=hz, anchors=anchors)
    rate = find_rate(info)
    assert rate is None or 0 < rate.hz <= 10**12
    clock = Clock(Tsc(start), rate, anchors)
    if rate is not None:
        assert clock.elapsed(tscs(tsc)).shape == (1,)
    if clock.dated:
        assert clock.realtime(tscs(tsc)).shape == (1,)
        assert 0 <= clock.tsc_at_realtime(Nanoseconds(EPOCH)) < 1 << 64


def test_wall_clock_follows_the_anchors():
    """Piecewise: a clock that was set between two anchors is right at each of them."""
    clock = Clock(
        Tsc(0), Rate(1000, "test"),
        [
            anchor(2000, EPOCH + 5 * SECOND, 2), anchor(1000, EPOCH, 1),
            anchor(3000, EPOCH + 6 * SECOND, 3),
        ],
    )
    assert clock.dated
    times = clock.realtime(tscs(1000, 1500, 2000, 2500, 3000, 4000, 0)) - EPOCH
    assert times.tolist() == [
        0, 2_500_000_000, 5 * SECOND, 5_500_000_000, 6 * SECOND, 7 * SECOND, -5 * SECOND
    ]


def test_one_anchor_needs_a_rate():
    only = [anchor(1000, EPOCH, 0)]
    assert not Clock(Tsc(0), None, only).dated
    clock = Clock(Tsc(0), Rate(500, "test"), only)
    assert clock.realtime(tscs(1000, 1250)).tolist() == [EPOCH, EPOCH + SECOND // 2]


@given(st.integers(0, 10**15), st.integers(10**6, 5 * 10**9), st.integers(0, 10**14))
def test_back_to_cycles(start, hz, elapsed):
    """The first TSC that is so late, and not one earlier."""
    clock = Clock(Tsc(start), Rate(hz, "test"), [anchor(start, EPOCH, 0)])
    tsc = clock.tsc_at_elapsed(Nanoseconds(elapsed))
    assert clock.elapsed(tscs(tsc))[0] >= elapsed
    if tsc > start:
        assert clock.elapsed(tscs(tsc - 1))[0] < elapsed
    tsc = clock.tsc_at_realtime(Nanoseconds(EPOCH + elapsed))
    assert clock.realtime(tscs(tsc))[0] >= EPOCH + elapsed


def test_times_before_the_trace():
    clock = Clock(Tsc(100), Rate(10, "test"), [anchor(100, EPOCH, 0)])
    assert clock.tsc_at_realtime(Nanoseconds(0)) == 0
    assert clock.tsc_at_elapsed(Nanoseconds(-5 * SECOND)) == 50


def test_wall_clock_times_need_anchors():
    with pytest.raises(UsageError, match="no clock anchors"):
        Clock(Tsc(0), Rate(1, "x")).tsc_at_realtime(Nanoseconds(EPOCH))
