"""Chunks decoded into columns, many records at once.

A batch is a row of one CPU's chunks, so long that numpy's cost per call does not count and
so short that every CPU's batch fits in memory together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from tracelib.chunks import Chunk, TraceReader
from tracelib.columns import I64, MAX_EXTRA, NOBODY_KNOWN, U8, U32, U64, Columns, Flag
from tracelib.records import (
    CPU_CHANGE,
    EVENT_MASK,
    EXTRA_MASK,
    EXTRA_SHIFT,
    LOST_RECORDS,
    WRAP_BUFFER,
)
from tracelib.ring.fastpath import record_offsets
from tracelib.units import CpuId, Tsc

BATCH_BYTES = 256 << 10
"""About so much payload is decoded at once; a longer chunk is decoded whole."""

TOTAL_BYTES = 32 << 20
"""What the batches of all CPUs together may hold, as far as chunks of any size let them."""

SHOWN_INVERSIONS = 8
"""So many of a CPU's steps back in time are kept with their place; the rest is counted."""

_RUNSTATE_FORM = np.uint32(0x0FFFF00F)
_RUNSTATE_CHANGE = np.uint32(0x00021001)
_CONTINUE_RUNNING = np.uint32(0x00021002)
_NEW_STATE = np.uint32(0x0F0)
_OLD_STATE = np.uint32(0xF00)


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
        self.inversions = 0
        """How often the TSC went back on this CPU."""
        self.first_inversions: list[Inversion] = []
        """The first few of them."""
        self.wraps = 0
        self._data = bytearray()
        self._held: list[tuple[Chunk, int]] = []
        self._last_tsc = 0
        self._dated = False
        """Whether there was a record with a TSC."""
        self._key = 0
        self._running = running

    def add(self, chunk: Chunk, size: int = BATCH_BYTES) -> Columns | None:
        """Take a chunk in; gives the batch before it, if that is full now."""
        full = None
        if self._held and (
            len(self._data) + len(chunk.payload) > size
            or self._held[0][0].before_start != chunk.before_start
            or self._held[0][0].queue_full != chunk.queue_full
        ):
            full = self.flush()
        place = replace(chunk, payload=memoryview(b""))
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
        data += bytes(4 * (MAX_EXTRA + 2))
        offsets = np.empty(count, np.uint32)
        found, _ = record_offsets(memoryview(data).cast("I"), 0, count, offsets.data)
        words = np.frombuffer(data, np.uint32)
        return self._columns(words, offsets[:found], held)

    def _columns(self, words: U32, offsets: U32, held: list[tuple[Chunk, int]]) -> Columns:
        start = offsets.astype(np.int64)
        header = words[start]
        event = header & np.uint32(EVENT_MASK)
        filler = (event == WRAP_BUFFER) | (event == CPU_CHANGE)
        if filler.any():
            self.wraps += int(np.count_nonzero(event == WRAP_BUFFER))
            keep = ~filler
            start, header, event = start[keep], header[keep], event[keep]
        timed = header >> np.uint32(31)
        extra = (header >> np.uint32(EXTRA_SHIFT) & np.uint32(EXTRA_MASK)).astype(np.uint8)
        flags = timed.astype(np.uint8)
        if held[0][0].before_start:
            flags += np.uint8(Flag.BEFORE_START)
        if held[0][0].queue_full:
            flags += np.uint8(Flag.QUEUE_FULL)
        tsc, key = self._times(words, start, flags, held)
        at = start + (timed << np.uint32(1)) + 1
        return Columns(
            event, np.full(len(event), self.cpu, np.uint16), tsc, key,
            self._who_runs(event, extra, words, at), extra, flags, at, words,
        )

    def _times(
        self, words: U32, start: I64, flags: U8, held: list[tuple[Chunk, int]]
    ) -> tuple[U64, U64]:
        """Each record's TSC, carried forward to the untimed ones, and its running maximum.
        Marks in `flags` which of them are known."""
        timed = flags & np.uint8(Flag.TIMED)
        own = words[start + 2].astype(np.uint64)
        own <<= np.uint64(32)
        own |= words[start + 1]
        own *= timed
        key = np.maximum.accumulate(own)
        if self._key:
            key = np.maximum(key, np.uint64(self._key))
        if self._dated:
            flags |= np.uint8(Flag.DATED)
        else:
            flags |= np.maximum.accumulate(timed) * np.uint8(Flag.DATED)
            self._dated = bool(timed.any())
        # Where time never goes back, the last time and the highest so far are the same.
        back = (own < key) & (timed != 0)
        in_order = not back.any() and self._last_tsc == self._key
        tsc = key if in_order else self._carried(own, timed)
        if not in_order:
            self._note_inversions(tsc, start, held)
        if len(tsc):
            self._last_tsc, self._key = int(tsc[-1]), int(key[-1])
        return tsc, key

    def _carried(self, own: U64, timed: U8) -> U64:
        """Each row's own time, or that of the last row that has one."""
        rows = np.flatnonzero(timed)
        values = np.concatenate([np.array([self._last_tsc], np.uint64), own[rows]])
        carried: U64 = values[np.cumsum(timed != 0)]
        return carried

    def _note_inversions(
        self, tsc: U64, start: I64, held: list[tuple[Chunk, int]]
    ) -> None:
        """Count the steps back in time. An untimed record has the TSC before it: no step."""
        before = np.concatenate([np.array([self._last_tsc], np.uint64), tsc[:-1]])
        back = np.flatnonzero(tsc < before)
        self.inversions += len(back)
        for row in back[: SHOWN_INVERSIONS - len(self.first_inversions)].tolist():
            file, offset = _place(held, 4 * int(start[row]))
            self.first_inversions.append(
                Inversion(self.cpu, file, offset, int(tsc[row]), int(before[row]))
            )

    def _who_runs(self, event: U32, extra: U8, words: U32, at: I64) -> U32:
        """Runstate records say who runs; a lost record may have swallowed some of them."""
        change = ((event & _RUNSTATE_FORM) == _RUNSTATE_CHANGE) & (extra > 0)
        comes = change & ((event & _NEW_STATE) == 0)
        comes |= (event == _CONTINUE_RUNNING) & (extra > 0)
        leaves = change & ~comes & ((event & _OLD_STATE) == 0)
        rows = np.flatnonzero(comes | leaves | (event == LOST_RECORDS))
        if not len(rows):
            return np.full(len(event), self._running, np.uint32)
        # One entry for the time before the first of these rows, one for each from it on.
        after = np.empty(len(rows) + 1, np.uint32)
        after[0] = self._running
        after[1:] = np.where(comes[rows], words[at[rows]], np.uint32(NOBODY_KNOWN))
        self._running = int(after[-1])
        running = np.repeat(after, np.diff(rows, prepend=0, append=len(event)))
        gone = np.flatnonzero(leaves)
        running[gone] = words[at[gone]]
        return running


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
