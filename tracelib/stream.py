"""The records of a trace as one row in time order, gaps included: what `dump` shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tracelib.batches import BATCH_BYTES, TOTAL_BYTES, CpuDecoder
from tracelib.chunks import Chunk
from tracelib.clock import Clock
from tracelib.columns import NOBODY_KNOWN, Columns
from tracelib.export.groups import Catalogue
from tracelib.gaps import stated_rows
from tracelib.losses import Loss
from tracelib.merge import merge
from tracelib.selection import Selection
from tracelib.units import CpuId, Tsc

_LOSSES = CpuId(0xFFFF)
"""Stated losses are merged like the records of a CPU behind all others."""


class Stream:
    """One trace's records, selected, as far as they have been read.

    What is known of each CPU (its last TSC, who runs) is carried from one `read` to the
    next, so that a trace that grows can be read on.
    """

    def __init__(
        self, selection: Selection, catalogue: Catalogue, clock: Clock,
        running: Mapping[CpuId, int],
    ) -> None:
        """`running` says who runs on each CPU at the start (Columns.running), if known."""
        self.selection = selection
        self.catalogue = catalogue
        self.clock = clock
        self._running = running
        self.decoders: dict[CpuId, CpuDecoder] = {}

    def read(
        self, chunks: Mapping[CpuId, Iterable[Chunk]], losses: Sequence[Loss]
    ) -> Iterator[Columns]:
        """The selected records of these chunks and the gaps among them, in time order.

        Memory does not depend on how many chunks there are. `losses` are those stated
        beside the records, of the CPUs asked for.
        """
        size = min(BATCH_BYTES, TOTAL_BYTES // max(len(chunks), 1))
        streams = {
            cpu: _until(self._decoder(cpu).batches(row, size), self.selection.until)
            for cpu, row in chunks.items()
        }
        if losses:
            streams[_LOSSES] = iter([stated_rows(losses, self.clock)])
        for batch in merge(streams):
            chosen = batch
            if not self.selection.everything:
                chosen = batch.take(self.selection.rows(batch, self.catalogue, losses))
            if len(chosen):
                yield chosen

    def _decoder(self, cpu: CpuId) -> CpuDecoder:
        if cpu not in self.decoders:
            self.decoders[cpu] = CpuDecoder(
                cpu, running=self._running.get(cpu, NOBODY_KNOWN)
            )
        return self.decoders[cpu]


def _until(batches: Iterator[Columns], until: Tsc | None) -> Iterator[Columns]:
    """Up to the first batch that reaches the end of the time asked for. A gap that begins
    before the end is told by the first record after it, which is in that batch."""
    for batch in batches:
        yield batch
        if until is not None and len(batch) and int(batch.key[-1]) >= until:
            return
