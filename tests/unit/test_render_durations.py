"""Durations and shares as people read them: one rule for all sizes."""

from __future__ import annotations

import pytest

from xtracectl.render.durations import short_cycles, short_time


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0"), (1, "1ns"), (942, "942ns"), (950, "950ns"), (999, "999ns"), (1000, "1.0us"),
        (9_949, "9.9us"), (9_950, "10us"), (999_499, "999us"), (999_500, "1.0ms"),
        (1_500_000_000, "1.5s"), (9_998 * 10**9, "9998s"), (7200 * 10**9, "7200s"),
        (9_999 * 10**9, "2h"),
    ],
)  # fmt: skip
def test_times(nanoseconds, text):
    """A unit from 1.0 on; one place behind the point below 10."""
    assert short_time(nanoseconds) == text


@pytest.mark.parametrize(
    ("cycles", "text"),
    [(0, "0"), (999, "999c"), (1000, "1.0kc"), (999_500, "1.0Mc"), (12_345_678_901, "12Gc")],
)
def test_cycles(cycles, text):
    assert short_cycles(cycles) == text
