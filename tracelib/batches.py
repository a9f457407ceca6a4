"""Chunks decoded into columns, many records at once.

A batch is a row of one CPU's chunks, so long that numpy's cost per call does not count and
so short that every CPU's batch fits in memory together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tracelib.chunks import Chunk, TraceReader
from tracelib.columns import MAX_EXTRA, NOBODY_KNOWN, Columns, Flag
from tracelib.rows import BACK, LAST_TSC, RUNNING, STATE_WORDS, WRAPS, fill
from tracelib.units import CpuId, Tsc

BATCH_BYTES = 256 << 10
"""About so much payload is decoded at once; a longer chunk is decoded whole."""

TOTAL_BYTES = 32 << 20
"""What the batches of all CPUs together may hold, as far as chunks of any size let them."""

SHOWN_INVERSIONS = 8
"""So many of a CPU's steps back in time are kept with their place; the rest is counted."""

_NOTHING = memoryview(b"")


@dataclass(frozen=True, slots=True)
class Inversion:
    """A record whose TSC is below the one before it on the same CPU."""

    cpu: CpuId
    file: str
    offset: int
    tsc: int
    before: int


class CpuDecoder:
    """Decodes one CPU's chunks, in order; carries over what a batch has to know of the last."""

    def __init__(self, cpu: CpuId, *, running: int = NOBODY_KNOWN) -> None:
        """`running` is who runs on the CPU at the start, if that is known (Columns.running)."""
        self.cpu = cpu
        self.first_inversions: list[Inversion] = []
        """The first few steps back in time."""
        self._data = bytearray()
        self._held: list[tuple[Chunk, int]] = []
        self._state = np.zeros(STATE_WORDS, np.uint64)
        self._state[RUNNING] = running

    @property
    def inversions(self) -> int:
        """How often the TSC went back on this CPU."""
        return int(self._state[BACK])

    @property
    def wraps(self) -> int:
        """How many wrap fillers there were."""
        return int(self._state[WRAPS])

    def add(self, chunk: Chunk, size: int = BATCH_BYTES) -> Columns | None:
        """Take a chunk in; gives the batch before it, if that is full now."""
        full = None
        if self._held and (
            len(self._data) + len(chunk.payload) > size
            or self._held[0][0].before_start != chunk.before_start
            or self._held[0][0].queue_full != chunk.queue_full
        ):
            full = self.flush()
        # Not dataclasses.replace, which takes as long as all the rest here.
        place = Chunk(
            chunk.cpu, _NOTHING, chunk.file, chunk.offset, chunk.before_start, chunk.queue_full
        )
        self._held.append((place, len(self._data)))
        self._data += chunk.payload
        return full

    def flush(self) -> Columns | None:
        """The batch that is not full yet; None if there is nothing."""
        if not self._held:
            return None
        data, held = self._data, self._held
        self._data, self._held = bytearray(), []
        return self._decode(data, held)

    def batches(self, chunks: Iterable[Chunk], size: int = BATCH_BYTES) -> Iterator[Columns]:
        """Decode a row of chunks."""
        for chunk in chunks:
            if (full := self.add(chunk, size)) is not None:
                yield full
        if (rest := self.flush()) is not None:
            yield rest

    def _decode(self, data: bytearray, held: list[tuple[Chunk, int]]) -> Columns:
        count = len(data) // 4
        data += bytes(4 * MAX_EXTRA)
        words = np.frombuffer(data, np.uint32)
        first = held[0][0]
        flags = Flag.BEFORE_START * first.before_start + Flag.QUEUE_FULL * first.queue_full
        event, running = np.empty(count, np.uint32), np.empty(count, np.uint32)
        extra, row_flags = np.empty(count, np.uint8), np.empty(count, np.uint8)
        tsc, key = np.empty(count, np.uint64), np.empty(count, np.uint64)
        at = np.empty(count, np.int64)
        last, back = int(self._state[LAST_TSC]), self.inversions
        found = fill(
            words.data, count, flags, self._state.data,
            event.data, extra.data, row_flags.data, at.data, tsc.data, key.data, running.data,
        )
        batch = Columns(
            event[:found].copy(), np.full(found, self.cpu, np.uint16), tsc[:found].copy(),
            key[:found].copy(), running[:found].copy(), extra[:found].copy(),
            row_flags[:found].copy(), at[:found].copy(), words,
        )
        if self.inversions > back:
            self._note_inversions(batch, last, held)
        return batch

    def _note_inversions(
        self, batch: Columns, last: int, held: list[tuple[Chunk, int]]
    ) -> None:
        """Keep the first steps back in time; `last` is the TSC before the batch. An untimed
        record has the TSC before it: no step."""
        before = np.concatenate([np.array([last], np.uint64), batch.tsc[:-1]])
        back = np.flatnonzero(batch.tsc < before)
        for row in back[: SHOWN_INVERSIONS - len(self.first_inversions)].tolist():
            # A record with a step has a TSC, so three words lie before its extra ones.
            file, offset = _place(held, 4 * (int(batch.at[row]) - 3))
            self.first_inversions.append(
                Inversion(self.cpu, file, offset, int(batch.tsc[row]), int(before[row]))
            )


def decode_unmerged(
    chunks: Iterable[Chunk], decoders: dict[CpuId, CpuDecoder]
) -> Iterator[Columns]:
    """Decode chunks of all CPUs in one pass, for counting: batches in no order across CPUs.
    `decoders` is filled with a decoder for every CPU that occurs."""
    for chunk in chunks:
        decoder = decoders.get(chunk.cpu)
        if decoder is None:
            decoder = decoders[chunk.cpu] = CpuDecoder(chunk.cpu)
        size = min(BATCH_BYTES, TOTAL_BYTES // len(decoders))
        if (full := decoder.add(chunk, size)) is not None:
            yield full
    for decoder in decoders.values():
        if (rest := decoder.flush()) is not None:
            yield rest


def first_tsc(reader: TraceReader) -> Tsc | None:
    """The earliest of the CPUs' first time stamps; None if no record has one."""
    firsts = []
    for cpu in reader.cpus():
        for batch in CpuDecoder(cpu).batches(reader.chunks_of(cpu), size=1):
            timed = batch.tsc[(batch.flags & Flag.TIMED) != 0]
            if len(timed):
                firsts.append(int(timed[0]))
                break
    return Tsc(min(firsts)) if firsts else None


def _place(held: list[tuple[Chunk, int]], at: int) -> tuple[str, int]:
    """File and offset of what lies `at` bytes into a batch."""
    chunk, start = next(entry for entry in reversed(held) if entry[1] <= at)
    return chunk.file, chunk.offset + at - start
