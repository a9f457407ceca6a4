"""The two clocks of the service, behind one seam so that tests hold the time."""

from __future__ import annotations

import time
from typing import Protocol

from tracelib.units import Nanoseconds


class Clock(Protocol):
    """Where everything in the service that needs a time gets it from."""

    def realtime(self) -> Nanoseconds:
        """CLOCK_REALTIME: for people and for files; it may jump."""

    def monotonic(self) -> Nanoseconds:
        """CLOCK_MONOTONIC: for durations."""


class SystemClock:
    """The machine's own clocks."""

    def realtime(self) -> Nanoseconds:
        return Nanoseconds(time.time_ns())

    def monotonic(self) -> Nanoseconds:
        return Nanoseconds(time.monotonic_ns())
