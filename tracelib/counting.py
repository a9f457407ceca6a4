"""What a trace holds, counted: for `info`, and for whoever compares two traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tracelib.batches import CpuDecoder, decode_unmerged
from tracelib.chunks import TraceReader, ignore_progress, watched
from tracelib.columns import Columns, Flag
from tracelib.gaps import Gap, gap_at
from tracelib.losses import Cause, Loss
from tracelib.records import LOST_RECORDS
from tracelib.units import CpuId, Tsc


@dataclass(slots=True)
class Counts:
    """Sums over a trace. Records include lost records, but no fillers."""

    per_event: Counter[int] = field(default_factory=Counter)
    per_cpu: Counter[CpuId] = field(default_factory=Counter)
    untimed: int = 0
    """Records without a TSC of their own."""
    wraps: int = 0
    steps_back: int = 0
    """How often the TSC went back within a CPU."""
    lost: Counter[CpuId] = field(default_factory=Counter)
    lost_by_cause: Counter[Cause] = field(default_factory=Counter)
    unknown_losses: Counter[Cause] = field(default_factory=Counter)
    """Gaps of which nobody knows how many records they swallowed."""
    gaps: int = 0
    first_tsc: Tsc | None = None
    last_tsc: Tsc | None = None

    @property
    def records(self) -> int:
        return self.per_cpu.total()

    def add_gap(self, gap: Gap | Loss) -> None:
        self.gaps += 1
        if gap.records is None:
            self.unknown_losses[gap.cause] += 1
        elif gap.records:
            self.lost[gap.cpu] += gap.records
            self.lost_by_cause[gap.cause] += gap.records

    def add_batch(self, batch: Columns) -> None:
        """One CPU's records."""
        if not len(batch):
            return
        events, counts = np.unique(batch.event, return_counts=True)
        self.per_event.update(dict(zip(events.tolist(), counts.tolist(), strict=True)))
        self.per_cpu[CpuId(int(batch.cpu[0]))] += len(batch)
        timed = (batch.flags & Flag.TIMED) != 0
        self.untimed += int(np.count_nonzero(~timed))
        if timed.any():
            own = batch.tsc[timed]
            self._add_times(int(own.min()), int(own.max()))
        for row in np.flatnonzero(batch.event == LOST_RECORDS).tolist():
            self.add_gap(gap_at(batch, row, ()))

    def add(self, other: Counts) -> None:
        """Add another part's sums. Times stay this one's, except that they end with it."""
        for total, more in (
            (self.per_event, other.per_event), (self.per_cpu, other.per_cpu),
            (self.lost, other.lost), (self.lost_by_cause, other.lost_by_cause),
            (self.unknown_losses, other.unknown_losses),
        ):
            total.update(more)  # type: ignore[arg-type]
        self.untimed += other.untimed
        self.wraps += other.wraps
        self.steps_back += other.steps_back
        self.gaps += other.gaps
        if self.first_tsc is None:
            self.first_tsc = other.first_tsc
        if other.last_tsc is not None:
            self.last_tsc = other.last_tsc

    def _add_times(self, first: int, last: int) -> None:
        self.first_tsc = Tsc(first if self.first_tsc is None else min(first, self.first_tsc))
        self.last_tsc = Tsc(last if self.last_tsc is None else max(last, self.last_tsc))


def count(
    reader: TraceReader, progress: Callable[[int], None] = ignore_progress
) -> Counts:
    """Count everything in one pass; `reader.problems` is complete after it. `progress` is
    told of bytes read."""
    counts = Counts()
    decoders: dict[CpuId, CpuDecoder] = {}
    for batch in decode_unmerged(watched(reader.chunks(), progress), decoders):
        counts.add_batch(batch)
    for decoder in decoders.values():
        counts.wraps += decoder.wraps
        counts.steps_back += decoder.inversions
    for loss in reader.losses():
        counts.add_gap(loss)
    return counts
