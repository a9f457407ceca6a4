"""Which records to show: by CPU, event, domain and time.

Gaps are never filtered by event or domain: whoever looks at a part of the records must know
where some are missing. They are shown if any part of them lies in the time asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracelib.columns import NOBODY_KNOWN, Columns, Flag, Mask
from tracelib.events.filter import EventFilter
from tracelib.export.groups import Catalogue, groups, named_domains
from tracelib.gaps import Gap, gap_at, gap_rows
from tracelib.losses import Loss
from tracelib.units import CpuId, DomId, Tsc


@dataclass(frozen=True, slots=True)
class Selection:
    """What to show; None means all."""

    cpus: frozenset[CpuId] | None = None
    events: EventFilter | None = None
    domain: DomId | None = None
    """Records that name the domain, and those from while one of its vCPUs ran."""
    since: Tsc | None = None
    until: Tsc | None = None
    """First TSC, and the first one after the end."""

    @property
    def everything(self) -> bool:
        return self == Selection()

    @property
    def timeless(self) -> bool:
        return self.since is None and self.until is None

    def wants_cpu(self, cpu: CpuId) -> bool:
        return self.cpus is None or cpu in self.cpus

    def rows(self, batch: Columns, catalogue: Catalogue, stated: Sequence[Loss] = ()) -> Mask:
        """Which rows of a batch to show. CPUs are chosen before, by what is read."""
        chosen = np.ones(len(batch), np.bool_)
        if self.events is not None:
            distinct = np.unique(batch.event)
            wanted = [event for event in distinct.tolist() if self.events.matches(event)]
            chosen &= np.isin(batch.event, np.array(wanted, np.uint32))
        if self.domain is not None:
            chosen &= _concerns(batch, self.domain, catalogue)
        if not self.timeless:
            chosen &= self._in_time(batch)
        gaps = gap_rows(batch)
        if gaps.any():
            for row in np.flatnonzero(gaps).tolist():
                chosen[row] = self.overlaps(gap_at(batch, row, stated))
        return chosen

    def _in_time(self, batch: Columns) -> Mask:
        """Undated records lie before everything, so they are in only without `since`."""
        chosen = np.ones(len(batch), np.bool_)
        if self.since is not None:
            chosen &= (batch.flags & Flag.DATED != 0) & (batch.tsc >= np.uint64(self.since))
        if self.until is not None:
            chosen &= batch.tsc < np.uint64(self.until)
        return chosen

    def overlaps(self, gap: Gap) -> bool:
        """Whether a part of the gap lies in the time asked for; so it does if its time is
        not known."""
        first, last = gap.first_tsc or gap.last_tsc, gap.last_tsc or gap.first_tsc
        if first is None or last is None:
            return True
        return (self.since is None or last >= self.since) and (
            self.until is None or first < self.until
        )

    def clip(self, gap: Gap) -> Gap:
        """The gap, marked as cut if another part of it lies outside the time asked for."""
        first, last = gap.first_tsc or gap.last_tsc, gap.last_tsc or gap.first_tsc
        if first is None or last is None:
            return replace(gap, cut=not self.timeless)
        early = self.since is not None and first < self.since
        late = self.until is not None and last >= self.until
        return replace(gap, cut=early or late)


def _concerns(batch: Columns, domain: DomId, catalogue: Catalogue) -> Mask:
    """Rows that name a domain, or were written while it ran."""
    known = batch.running != np.uint32(NOBODY_KNOWN)
    chosen: Mask = known & (batch.running >> np.uint32(16) == domain)
    for group in groups(batch, catalogue):
        for domains in named_domains(group):
            chosen[group.rows[domains == domain]] = True
    return chosen
