"""xentrace's own format: what xenalyze and xentrace_format read.

Unfiltered, the windows of an intact xentrace file come out byte for byte. Filtered, each
window has the selected records and no wrap fillers, in their old order. Losses that a
segment states beside its records become lost records, which is all this format has: one of
unknown size says 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tracelib.batches import CpuDecoder
from tracelib.chunks import Chunk
from tracelib.clock import Clock
from tracelib.columns import Columns, Flag
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


def windows(
    chunks: Iterable[Chunk], selection: Selection, catalogue: Catalogue, *,
    limit: int | None = None,
) -> Iterator[bytes]:
    """The selected records of all chunks, a window each, in file order."""
    if selection.everything and limit is None:
        yield from encode_chunks(chunks)
        return
    decoders: dict[CpuId, CpuDecoder] = {}
    left = limit
    for chunk in chunks:
        if left == 0:
            return
        if not selection.wants_cpu(chunk.cpu):
            continue
        decoder = decoders.setdefault(chunk.cpu, CpuDecoder(chunk.cpu))
        decoder.add(chunk)
        batch = decoder.flush()
        assert batch is not None
        chosen = batch.take(selection.rows(batch, catalogue)).take(slice(0, left))
        if left is not None:
            left -= len(chosen)
        if len(chosen):
            yield make_window(chunk.cpu, record_bytes(chosen))


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
