"""Moments as people write them on the command line, for --since and --until.

    2.5s, 250ms, +3m        after the trace's first record
    2026-11-30T22:14:05     wall-clock time, local unless it says otherwise (Z, +01:00)
    -10m                    so long before now (write --since=-10m)
    tsc:67204869282         a raw time stamp
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from tracelib.clock import Clock
from tracelib.errors import UsageError
from tracelib.units import Nanoseconds, Tsc, parse_duration

_HINT = (
    "write 2.5s (after the first record), 2026-11-30T22:14:05, tsc:NUMBER, or, before now, "
    "--since=-10m"
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment on one of three clocks; exactly one of them is set."""

    tsc: Tsc | None = None
    elapsed: Nanoseconds | None = None
    realtime: Nanoseconds | None = None

    def resolve(self, clock: Clock) -> Tsc:
        """The first TSC at or after it. Raises UsageError if the trace cannot tell."""
        if self.tsc is not None:
            return self.tsc
        if self.elapsed is not None:
            return clock.tsc_at_elapsed(self.elapsed)
        assert self.realtime is not None
        return clock.tsc_at_realtime(self.realtime)


def parse_moment(text: str, now: Nanoseconds) -> Moment:
    """Raises UsageError. `now` is CLOCK_REALTIME."""
    word = text.strip()
    if word.startswith("tsc:"):
        return Moment(tsc=_parse_tsc(text, word[4:]))
    if word.startswith("-"):
        return Moment(realtime=Nanoseconds(now - parse_duration(word[1:])))
    if word.startswith("+"):
        return Moment(elapsed=parse_duration(word[1:]))
    try:
        moment = datetime.datetime.fromisoformat(word)
    except ValueError:
        pass
    else:
        if "-" in word[1:]:
            return Moment(realtime=_nanoseconds(text, moment))
    try:
        return Moment(elapsed=parse_duration(word))
    except UsageError:
        raise UsageError(f"{text!r} is not a time", hint=_HINT) from None


def _parse_tsc(text: str, digits: str) -> Tsc:
    try:
        value = int(digits, 0)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 64:
        raise UsageError(f"{text!r} is not a time stamp", hint=_HINT)
    return Tsc(value)


def _nanoseconds(text: str, moment: datetime.datetime) -> Nanoseconds:
    try:
        since = moment.astimezone(datetime.UTC) - datetime.datetime.fromtimestamp(0, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        # Before the year 1 or behind 9999, in this time zone or in UTC.
        micros = -1
    else:
        micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if not 0 <= micros * 1000 < 1 << 63:
        raise UsageError(
            f"{text!r} is out of range", hint="a trace may be from 1970 to 2262; "
            "leave the option out to have no limit",
        )
    return Nanoseconds(micros * 1000)
