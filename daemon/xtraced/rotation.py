"""When the open segment ends: by size, by age, by command. No record twice, none missing.

A segment ends between two staging buffers, where everything that was drained has been handed
over: so the runstates at that moment are exactly the next segment's state preamble.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracelib.units import Nanoseconds
from xtraced.clock import Clock
from xtraced.segmentfile import SMALL_BLOCKS
from xtraced.segments import Opening, Sealed
from xtraced.staging import StagingBuffer
from xtraced.writer import Ticket, Writer


@dataclass(frozen=True, slots=True)
class RotationLimits:
    """Bytes and nanoseconds; an age of 0 is no limit."""

    max_bytes: int
    max_age: int


class Rotation:
    """Stands between the collector and the writer, and counts what goes by."""

    def __init__(
        self, writer: Writer, limits: RotationLimits, *, opening: Callable[[], Opening],
        clock: Clock,
    ) -> None:
        self.limits = limits
        self._writer = writer
        self._opening = opening
        self._clock = clock
        self._bytes = SMALL_BLOCKS
        self._blocks = 0
        self._opened_at = clock.monotonic()

    def hand_over(self, buffer: StagingBuffer) -> None:
        """Queue a buffer for writing; rotate if the segment might not hold another one."""
        self._bytes += buffer.used
        self._blocks += len(buffer.blocks)
        capacity = len(buffer.view)
        self._writer.write(buffer)
        if self._bytes + capacity > self.limits.max_bytes:
            self.rotate("size")

    def rotate(self, reason: str, *, even_if_empty: bool = False) -> Ticket[Sealed | None] | None:
        """End the segment after what was handed over. None if it holds no records yet:
        an empty segment goes on instead of being sealed (R55)."""
        if not (self._blocks or even_if_empty):
            return None
        self._bytes = SMALL_BLOCKS
        self._blocks = 0
        self._opened_at = self._clock.monotonic()
        return self._writer.rotate(reason, self._opening())

    def is_due(self) -> bool:
        """Has the open segment reached its greatest age?"""
        return bool(self.limits.max_age) and self.age >= self.limits.max_age

    @property
    def age(self) -> Nanoseconds:
        return Nanoseconds(self._clock.monotonic() - self._opened_at)
