"""Moments on the command line."""

from __future__ import annotations

import datetime

import pytest

from tracelib.chunks import ClockAnchor
from tracelib.clock import Clock, Rate
from tracelib.errors import UsageError
from tracelib.units import Nanoseconds, Tsc
from xtracectl.times import parse_moment

NOW = Nanoseconds(1_796_076_000 * 10**9)
CLOCK = Clock(Tsc(1000), Rate(1_000_000_000, "x"), [ClockAnchor(Tsc(1000), NOW, Nanoseconds(0))])


@pytest.mark.parametrize(
    ("text", "tsc"),
    [
        ("tsc:5000", 5000), ("tsc:0xfedcba9876543210", 0xFEDCBA9876543210),
        ("2.5s", 2_500_001_000), ("+250ms", 250_001_000), ("3", 3_000_001_000),
        ("2026-11-30T22:00:01Z", 1_000_001_000), ("2026-11-30T23:00:01+01:00", 1_000_001_000),
        ("2026-11-30T22:00:00.000001Z", 2000),
    ],
)  # fmt: skip
def test_moments(text, tsc):
    assert parse_moment(text, NOW).resolve(CLOCK) == tsc


def test_local_time():
    local = datetime.datetime.fromtimestamp(NOW // 10**9 + 5)
    assert parse_moment(local.isoformat(), NOW).resolve(CLOCK) == 5_000_001_000


def test_before_now():
    later = Nanoseconds(NOW + 60 * 10**9)
    assert parse_moment("-10s", later).resolve(CLOCK) == 50_000_001_000


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:00",
        "9999-12-31T23:59:59", "9999-12-31T23:59:59-23:00", "1969-12-31T23:59:59Z",
        "2262-04-12T00:00:00Z",
    ],
)
def test_times_that_no_trace_has(text):
    with pytest.raises(UsageError, match="is out of range") as error:
        parse_moment(text, NOW)
    assert "1970 to 2262" in (error.value.hint or "")


def test_the_first_and_the_last_time():
    assert parse_moment("1970-01-01T00:00:00Z", NOW).realtime == 0
    last = parse_moment("2262-04-11T23:47:16Z", NOW).realtime
    assert last is not None
    assert (1 << 63) - 10**9 < last < 1 << 63


def test_the_hint_can_be_taken():
    with pytest.raises(UsageError) as error:
        parse_moment("abc", NOW)
    assert "--since=-10m" in (error.value.hint or "")


@pytest.mark.parametrize(
    "text", ["", "abc", "tsc:", "tsc:-1", "tsc:1x", "2026-13-01", "5 parsecs", "--3"]
)
def test_rubbish(text):
    with pytest.raises(UsageError):
        parse_moment(text, NOW)
