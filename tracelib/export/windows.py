"""xentrace's own format: what xenalyze and xentrace_format read.

Unfiltered, the windows of an intact xentrace file come out byte for byte. Filtered, each
window has the selected records and no wrap fillers, in their old order. Losses that a
segment states beside its records become lost records, which is all this format has: one of
unknown size says 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from tracelib.batches import CpuDecoder
from tracelib.chunks import Chunk
from tracelib.clock import Clock
from tracelib.columns import NOBODY_KNOWN, Columns, Flag
from tracelib.export.groups import Catalogue
from tracelib.gaps import place_of
from tracelib.losses import Loss
from tracelib.records import LOST_RECORDS, make_record
from tracelib.ring.fastpath import scan
from tracelib.selection import Selection
from tracelib.units import CpuId
from tracelib.xentrace.encoder import encode_chunks
from tracelib.xentrace.format import make_window

_NOBODY = 0x7FFF
"""The idle domain: the lost records that we write are on nobody's behalf."""

_AT_END = 1 << 64


class WindowWriter:
    """Chunks in, windows of the selected records out; what is known of each CPU is carried
    from one call to the next. `left` is how many records are still wanted, None for all."""

    def __init__(
        self, selection: Selection, catalogue: Catalogue, running: Mapping[CpuId, int], *,
        left: int | None = None,
    ) -> None:
        """`running` says who runs on each CPU at the start (Columns.running), if known."""
        self.left = left
        self._selection = selection
        self._catalogue = catalogue
        self._running = running
        self._decoders: dict[CpuId, CpuDecoder] = {}

    def windows(self, chunks: Iterable[Chunk]) -> Iterator[bytes]:
        """The selected records of all chunks, a window each, in file order."""
        if self._selection.everything and self.left is None:
            yield from encode_chunks(chunks)
            return
        if self.left == 0:
            return
        for chunk in chunks:
            if not self._selection.wants_cpu(chunk.cpu):
                continue
            chosen = self._chosen(chunk)
            if self.left is not None:
                self.left -= len(chosen)
            if len(chosen):
                yield make_window(chunk.cpu, record_bytes(chosen))
            if self.left == 0:
                return

    def _chosen(self, chunk: Chunk) -> Columns:
        decoder = self._decoders.get(chunk.cpu)
        if decoder is None:
            running = self._running.get(chunk.cpu, NOBODY_KNOWN)
            decoder = self._decoders[chunk.cpu] = CpuDecoder(chunk.cpu, running=running)
        decoder.add(chunk)
        batch = decoder.flush()
        assert batch is not None
        rows = self._selection.rows(batch, self._catalogue)
        return batch.take(rows).take(slice(0, self.left))


def record_bytes(batch: Columns) -> bytes:
    """The rows as Xen wrote them, one behind the other."""
    timed = (batch.flags & Flag.TIMED) != 0
    lengths = 1 + 2 * timed + batch.extra.astype(np.int64)
    starts = batch.at - 1 - 2 * timed
    # For each word of the result: where its record starts here, and where there.
    ends = np.cumsum(lengths)
    within = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    data: bytes = batch.words[np.repeat(starts, lengths) + within].tobytes()
    return data


def with_losses(
    chunks: Iterable[Chunk], losses: Sequence[Loss], clock: Clock
) -> Iterator[Chunk]:
    """The chunks, and between them the stated losses as chunks of one lost record: each
    before its CPU's first chunk that is later, or at its CPU's end if its time is unknown."""
    waiting: dict[CpuId, list[tuple[int, Loss]]] = {}
    for loss in losses:
        place = place_of(loss, clock)
        waiting.setdefault(loss.cpu, []).append((_AT_END if place is None else place, loss))
    for row in waiting.values():
        row.sort(key=lambda entry: entry[0], reverse=True)
    last: dict[CpuId, int] = {}
    for chunk in chunks:
        left = waiting.get(chunk.cpu)
        if left:
            scanned = scan(chunk.payload.cast("I"), 0, len(chunk.payload) // 4, chunk.cpu, None)
            while left and left[-1][0] <= scanned.first_tsc:
                yield _loss_chunk(*left.pop())
            last[chunk.cpu] = scanned.last_tsc or last.get(chunk.cpu, 0)
        yield chunk
    for cpu, left in waiting.items():
        while left:
            at, loss = left.pop()
            yield _loss_chunk(last.get(cpu, 0) if at == _AT_END else at, loss)


def _loss_chunk(place: int, loss: Loss) -> Chunk:
    first = loss.first_tsc or place
    record = make_record(
        LOST_RECORDS, min(loss.records or 0, 0xFFFFFFFF), _NOBODY,
        first & 0xFFFFFFFF, first >> 32, tsc=place,
    )
    return Chunk(loss.cpu, memoryview(record), "", 0)
