"""Where records are missing: when, how long, how many, why."""

from __future__ import annotations

from dataclasses import dataclass

from tracelib.analysis.analyze import Analysis
from tracelib.analysis.gaplist import KEPT, GapSum, Missing
from tracelib.analysis.runstates import cpu_rows
from tracelib.units import CpuId


@dataclass(slots=True)
class Losses:
    """The section."""

    sums: dict[tuple[CpuId, str], GapSum]
    """By CPU and cause."""
    lost_cycles: dict[CpuId, int]
    """Of the span, in gaps of that CPU."""
    span: int
    gaps: list[Missing]
    """The longest ones first; all, unless `left_out`."""
    left_out: int
    unseen: float | None
    """Share of the CPUs' time that lies in gaps."""

    @property
    def records(self) -> int:
        """How many are known to be lost."""
        return sum(total.records for total in self.sums.values())


def losses(analysis: Analysis) -> Losses:
    """The section."""
    sums = dict(sorted(analysis.gaps.sums.items()))
    lost = {row.cpu: row.lost for row in cpu_rows(analysis)}
    whole = analysis.span * len(lost)
    number = sum(total.gaps for total in sums.values())
    return Losses(
        sums, lost, analysis.span, analysis.gaps.longest(), max(0, number - KEPT),
        sum(lost.values()) / whole if whole else None,
    )
