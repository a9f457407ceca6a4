"""All CPUs' records in one row, in time order, with each CPU's own order kept.

Why it fits in bounded memory: of every CPU one batch is loaded. The batch that ends first
in time sets the horizon: no CPU has anything still to come that belongs before it. All
that lies up to the horizon is sorted and given, then the next batch of that CPU is loaded.

Order is by (key, CPU number), and within a CPU as written: the result does not depend on
how the records were cut into batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tracelib.columns import Columns, concatenate
from tracelib.units import CpuId


class _Stream:
    """One CPU's loaded batch, and how much of it has been given."""

    def __init__(self, cpu: CpuId, batches: Iterator[Columns]) -> None:
        self.cpu = cpu
        self._batches = batches
        self._batch: Columns | None = None
        self._given = 0

    def load(self) -> bool:
        """Make sure that something is loaded; False at this CPU's end."""
        while self._batch is None or self._given == len(self._batch):
            self._batch = next(self._batches, None)
            self._given = 0
            if self._batch is None:
                return False
        return True

    @property
    def end(self) -> tuple[int, int]:
        """Where the loaded batch ends, as a place in the merged order."""
        assert self._batch is not None
        return int(self._batch.key[-1]), self.cpu

    def take_until(self, horizon: tuple[int, int]) -> Columns | None:
        """What lies at or before `horizon`; None if nothing does."""
        assert self._batch is not None
        key, cpu = horizon
        side = "right" if self.cpu <= cpu else "left"
        stop = int(np.searchsorted(self._batch.key, np.uint64(key), side=side))  # type: ignore[call-overload]
        start, self._given = self._given, max(stop, self._given)
        return self._batch.cut(start, stop) if stop > start else None


def merge(streams: Mapping[CpuId, Iterator[Columns]]) -> Iterator[Columns]:
    """Merge batches of several CPUs, each CPU's in file order (batches.CpuDecoder)."""
    waiting = [_Stream(cpu, streams[cpu]) for cpu in sorted(streams)]
    while True:
        waiting = [stream for stream in waiting if stream.load()]
        if not waiting:
            return
        horizon = min(stream.end for stream in waiting)
        parts = [part for stream in waiting if (part := stream.take_until(horizon)) is not None]
        batch = concatenate(parts)
        if len(parts) > 1:
            # The parts are sorted rows, which is what a stable (merge) sort is fastest at.
            batch = batch.ordered(np.argsort(batch.key, kind="stable"))
        yield batch
