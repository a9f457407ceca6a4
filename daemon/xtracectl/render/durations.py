"""Cycles as people read them: time where the clock's rate is known, else cycles."""

from __future__ import annotations

from tracelib.clock import Rate

_UNITS = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))


def nanoseconds(cycles: int, rate: Rate) -> int:
    """Rounded to the nearest."""
    return (cycles * 10**9 + rate.hz // 2) // rate.hz


def duration(cycles: int, rate: Rate | None) -> str:
    """At most six characters: "1.2ms", "345us"; without a rate "1.2Mc", of cycles."""
    return short_cycles(cycles) if rate is None else short_time(nanoseconds(cycles, rate))


def short_time(time: int) -> str:
    """Nanoseconds with two or three digits that count."""
    if time == 0:
        return "0"
    if time >= 9_999 * 10**9:
        return f"{time // (3600 * 10**9)}h"
    for unit, scale in _UNITS:
        # From where it would read 1000 of the smaller unit.
        if time * 10_000 >= scale * 9_995 or scale == 1:
            value = time / scale
            return f"{value:.1f}{unit}" if value < 9.95 and scale > 1 else f"{value:.0f}{unit}"
    raise AssertionError


def short_cycles(cycles: int) -> str:
    for unit, scale in (("Tc", 10**12), ("Gc", 10**9), ("Mc", 10**6), ("kc", 10**3)):
        if cycles * 10_000 >= scale * 9_995:
            value = cycles / scale
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
    return f"{cycles}c" if cycles else "0"


def share(part: int, whole: int) -> str:
    """ "12.3", of a hundred; "-" of nothing."""
    return f"{100 * part / whole:.1f}" if whole else "-"


def percent(fraction: float | None) -> str:
    """ "12.3 %" of a fraction that may be unknown; what is not nothing never reads 0.0."""
    if fraction is None:
        return "an unknown share"
    if 0 < fraction < 0.0005:
        return "less than 0.1 %"
    return f"{100 * fraction:.1f} %"


def per_second(number: int, span: int, rate: Rate | None) -> str:
    """ "1,234", at most six characters; "-" without a rate."""
    if rate is None or span == 0:
        return "-"
    value = number * rate.hz / span
    if value >= 99_999.5:
        return f"{value / 1000:.0f}k"
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}"
