"""Parquet: one file of typed columns for data frames and databases.

    trace         uint16     which boot or input the row is of, from 0; ns starts anew with each
    tsc           uint64     null before the first time stamp of a CPU
    ns            int64      since the trace's first record; null if the clock rate is unknown
    realtime      timestamp  nanoseconds, UTC; null without clock anchors
    timed         bool       false if `tsc` is that of the record before
    before_start  bool       it lay in the ring before the service started
    cpu           uint16
    domain, vcpu  uint16     who ran there; null if unknown
    id            uint32     the 28-bit event; null for a loss that is stated beside the records
    event         string     its name; null if it has none, "loss" where records are missing
    w0 ... w6     uint32     its words; null where it has fewer
    fields        string     what they say, as the text format has it
    cause         string     of a loss, like the next three: why
    lost          int64      how many records; null if unknown
    lost_since    uint64     the TSC of the first one
    detail        string

Rows are in the order of text. A row group has ROWS rows and a few more, and that much is
held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tracelib.columns import MAX_EXTRA, NOBODY_KNOWN, U32, Columns, Flag, Mask
from tracelib.export.fields import Form, text_fields
from tracelib.export.groups import Catalogue, split
from tracelib.export.lines import LineWriter, Style
from tracelib.export.program import Program
from tracelib.export.timebase import Base, TimeBase
from tracelib.gaps import STATED_LOSS, Gap, gap_at, gap_rows
from tracelib.losses import Loss
from tracelib.selection import Selection

ROWS = 1 << 17

SCHEMA = pa.schema(
    [
        ("trace", pa.uint16()), ("tsc", pa.uint64()), ("ns", pa.int64()),
        ("realtime", pa.timestamp("ns", tz="UTC")), ("timed", pa.bool_()),
        ("before_start", pa.bool_()), ("cpu", pa.uint16()), ("domain", pa.uint16()),
        ("vcpu", pa.uint16()), ("id", pa.uint32()), ("event", pa.string()),
        *((f"w{number}", pa.uint32()) for number in range(MAX_EXTRA)),
        ("fields", pa.string()), ("cause", pa.string()), ("lost", pa.int64()),
        ("lost_since", pa.uint64()), ("detail", pa.string()),
    ]
)  # fmt: skip


class _Spout:
    """A file for pyarrow whose bytes are taken out at the other end."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._written = 0

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        self._written += len(self._pieces[-1])
        return len(self._pieces[-1])

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Nothing is held back here."""

    def close(self) -> None:
        """The reader at the other end goes on."""

    def taken(self) -> Iterator[bytes]:
        pieces, self._pieces = self._pieces, []
        return iter(pieces)


class ParquetFile:
    """One file, in pieces of bytes; several traces may follow each other in it."""

    def __init__(self) -> None:
        self._spout = _Spout()
        self._writer = pq.ParquetWriter(self._spout, SCHEMA, compression="zstd")
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._traces = 0

    def trace(self, times: TimeBase, catalogue: Catalogue, selection: Selection) -> ParquetTrace:
        """For the rows of one more trace."""
        self._traces += 1
        return ParquetTrace(self, self._traces - 1, times, catalogue, selection)

    def add(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """Rows, and the bytes that are ready now."""
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._rows >= ROWS:
            self._write_group()
        return self._spout.taken()

    def end(self) -> Iterator[bytes]:
        """The bytes that make the file whole."""
        self._write_group()
        self._writer.close()
        return self._spout.taken()

    def _write_group(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=2 * ROWS)
        self._waiting, self._rows = [], 0


class ParquetTrace:
    """One trace's rows."""

    def __init__(
        self, file: ParquetFile, number: int, times: TimeBase, catalogue: Catalogue,
        selection: Selection,
    ) -> None:
        self._file = file
        self._number = number
        self._clock = times.clock
        self._catalogue = catalogue
        self._selection = selection
        self._texts = LineWriter(_FIELDS, times, catalogue, selection)

    def rows(self, batch: Columns, stated: Sequence[Loss]) -> Iterator[bytes]:
        """A row for each of the batch's; the bytes that are ready after it."""
        known = (batch.flags & Flag.DATED) != 0
        gaps = gap_rows(batch)
        columns = [
            pa.array(np.full(len(batch), self._number, np.uint16)),
            _nullable(batch.tsc, known),
            *self._times(batch, known),
            pa.array((batch.flags & Flag.TIMED) != 0),
            pa.array((batch.flags & Flag.BEFORE_START) != 0),
            pa.array(batch.cpu),
            *_who_runs(batch.running),
            _nullable(batch.event, batch.event != STATED_LOSS),
            self._names(batch, gaps),
            *_words(batch, ~gaps),
            self._fields(batch, stated),
            *self._losses(batch, gaps, stated),
        ]
        return self._file.add(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))

    def _times(self, batch: Columns, known: Mask) -> list[pa.Array]:
        clock, nothing = self._clock, np.zeros(len(batch), np.int64)
        elapsed = clock.elapsed(batch.tsc) if clock.rate else nothing
        realtime = clock.realtime(batch.tsc) if clock.dated else nothing
        return [
            _nullable(elapsed, known & (clock.rate is not None)),
            _nullable(realtime, known & clock.dated).cast(SCHEMA.field("realtime").type),
        ]

    def _names(self, batch: Columns, gaps: Mask) -> pa.Array:
        names: list[str | None] = ["loss"]
        which = np.zeros(len(batch), np.int64)
        for key, rows in split(batch.event | batch.extra.astype(np.uint32) << np.uint32(28)):
            form = self._catalogue.form(key & 0x0FFFFFFF, key >> 28)
            which[rows] = len(names)
            names.append(None if form is None else form.name)
        which[gaps] = 0
        return pa.array(names, pa.string()).take(pa.array(which))

    def _fields(self, batch: Columns, stated: Sequence[Loss]) -> pa.Array:
        """The engine ends each text with a newline, and no text has another."""
        text = b"".join(bytes(piece) for piece in self._texts.lines(batch, stated))
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == 10)
        offsets = np.zeros(len(batch) + 1, np.int32)
        offsets[1:] = ends - np.arange(len(batch))
        data = text.replace(b"\n", b"")
        return pa.StringArray.from_buffers(len(batch), pa.py_buffer(offsets), pa.py_buffer(data))

    def _losses(self, batch: Columns, rows: Mask, stated: Sequence[Loss]) -> list[pa.Array]:
        gaps: list[Gap | None] = [None] * len(batch)
        for row in np.flatnonzero(rows).tolist():
            gaps[row] = self._selection.clip(gap_at(batch, row, stated))
        return [
            pa.array([gap and str(gap.cause) for gap in gaps], pa.string()),
            pa.array([None if gap is None or gap.cut else gap.records for gap in gaps], pa.int64()),
            pa.array([gap and gap.first_tsc for gap in gaps], pa.uint64()),
            pa.array([gap and (gap.detail or None) for gap in gaps], pa.string()),
        ]


def _nullable(values: np.ndarray[Any, Any], valid: Mask) -> pa.Array:
    return pa.array(values, mask=~valid)


def _who_runs(running: U32) -> list[pa.Array]:
    known = running != np.uint32(NOBODY_KNOWN)
    domain, vcpu = running >> np.uint32(16), running & np.uint32(0xFFFF)
    return [_nullable(half.astype(np.uint16), known) for half in (domain, vcpu)]


def _words(batch: Columns, records: Mask) -> list[pa.Array]:
    return [
        _nullable(batch.word(number), records & (batch.extra > number))
        for number in range(MAX_EXTRA)
    ]


def _no_head(_: Base | None) -> str:
    return ""


def _no_prefix(program: Program, flags: Flag, times: TimeBase) -> None:
    """These lines are only fields."""


def _record(program: Program, form: Form) -> None:
    text_fields(program, form)
    program.text("\n")


def _long_record(form: Form, extra: tuple[int, ...]) -> str:
    assert form.type is not None
    return f"{form.type.text(extra)}\n"


def _gap(prefix: str, gap: Gap, times: TimeBase) -> str:
    del gap, times
    return f"{prefix}\n"


_FIELDS = Style(_no_head, _no_prefix, _record, _long_record, _gap)
