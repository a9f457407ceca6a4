"""Gaps in the records: exact sums by CPU and cause, and the longest ones one by one."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass
from itertools import count

from tracelib.units import CpuId, Tsc

KEPT = 1000
"""So many of the longest gaps are kept; all are in the sums."""

UNREADABLE = "unreadable"
"""The cause of a gap where the file is damaged. The other causes are tracelib.losses'."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Records of one CPU that are not there."""

    cpu: CpuId
    cause: str
    records: int | None
    """None where nobody can know."""
    first: Tsc | None
    last: Tsc | None
    detail: str = ""

    @property
    def cycles(self) -> int:
        """How long; 0 where that is not known."""
        return 0 if self.first is None or self.last is None else max(0, self.last - self.first)


@dataclass(slots=True)
class GapSum:
    """All gaps of one CPU and cause."""

    gaps: int = 0
    records: int = 0
    uncounted: int = 0
    """Gaps of which nobody knows how many records they swallowed."""
    cycles: int = 0
    longest: int = 0


class GapList:
    """Bounded in memory, exact in sums."""

    def __init__(self) -> None:
        self.sums: defaultdict[tuple[CpuId, str], GapSum] = defaultdict(GapSum)
        self._kept: list[tuple[int, int, Missing]] = []
        self._serial = count()

    def add(self, gap: Missing) -> None:
        total = self.sums[gap.cpu, gap.cause]
        total.gaps += 1
        total.records += gap.records or 0
        total.uncounted += gap.records is None
        total.cycles += gap.cycles
        total.longest = max(total.longest, gap.cycles)
        entry = gap.cycles, -next(self._serial), gap
        if len(self._kept) < KEPT:
            heapq.heappush(self._kept, entry)
        else:
            heapq.heappushpop(self._kept, entry)

    def clear(self) -> None:
        """Forget all."""
        self.sums.clear()
        self._kept.clear()

    def longest(self) -> list[Missing]:
        """The longest first; of equally long ones, as they came."""
        return [gap for _, _, gap in sorted(self._kept, reverse=True)]
