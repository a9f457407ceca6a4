"""Which clock tells the time of a line: since the start, on the wall, or raw."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass

import numpy as np

from tracelib.clock import NO_RATE_HINT, Clock
from tracelib.errors import UsageError
from tracelib.export.program import TSC, Program

SECOND = 10**9
_EPOCH = datetime.datetime(1970, 1, 1)


class Base(enum.StrEnum):
    """What people call them."""

    ELAPSED = "elapsed"
    """Seconds since the trace's first record, nine decimals."""
    WALL = "wall"
    """Date and time of day in UTC, nine decimals: 2026-11-30T22:14:05.000000005Z."""
    TSC = "tsc"
    """The record's own time stamp, cycles."""


_WIDTHS = {Base.ELAPSED: 15, Base.WALL: 30, Base.TSC: 16}


@dataclass(frozen=True, slots=True)
class TimeBase:
    """How one trace's times are written."""

    clock: Clock
    base: Base
    asked: bool = False
    """Whether this base was asked for. Formats that have every clock in a place of its own
    have another place for it then."""

    @classmethod
    def choose(cls, clock: Clock, base: Base | None) -> TimeBase:
        """The base asked for, or the best one that the trace can tell. Raises UsageError if
        it cannot tell the one asked for."""
        if base is None:
            return cls(clock, Base.TSC if clock.rate is None else Base.ELAPSED)
        if base is Base.ELAPSED and clock.rate is None:
            raise UsageError("seconds since the start need the clock rate", hint=NO_RATE_HINT)
        if base is Base.WALL and not clock.dated:
            raise UsageError(
                "this trace has no clock anchors: wall-clock times are unknown in it",
                hint="stores and segments have them; for this one take --time elapsed or tsc",
            )
        return cls(clock, base, asked=True)

    @property
    def width(self) -> int:
        """Columns of text."""
        return _WIDTHS[self.base]

    def write(self, program: Program, width: int = 0) -> None:
        """A dated record's time, with blanks on the left up to `width`."""
        if self.base is Base.ELAPSED:
            program.seconds(width)
        elif self.base is Base.WALL:
            program.wall(_date)
            program.text("Z")
        else:
            program.aligned(TSC, width)

    def text(self, tsc: int) -> str:
        """The same for one TSC."""
        if self.base is Base.TSC:
            return str(tsc)
        one = np.array([tsc], np.uint64)
        if self.base is Base.WALL:
            whole, rest = divmod(int(self.clock.realtime(one)[0]), SECOND)
            return f"{_date(whole)}.{rest:09}Z"
        elapsed = int(self.clock.elapsed(one)[0])
        whole, rest = divmod(abs(elapsed), SECOND)
        return f"{'-' if elapsed < 0 else ''}{whole}.{rest:09}"


def _date(seconds: int) -> str:
    """Seconds since 1970; 64 bits of nanoseconds, signed, reach from 1677 to 2262."""
    signed = seconds - (1 << 64) if seconds >> 63 else seconds
    return (_EPOCH + datetime.timedelta(seconds=signed)).isoformat()
