"""The formats that are lines: text for people, JSON Lines and CSV for programs.

JSON Lines, one object a line:

    type        "record", or "loss" where records are missing
    time        string: what the text format begins with, only if a time base was asked for
    tsc         string, decimal: a JavaScript number would round 64 bits
    ns          number: nanoseconds since the trace's first record; exact up to 104 days.
                Left out if the clock rate is unknown
    realtime    string, decimal: nanoseconds since 1970. Only with clock anchors
    timed       false if the record has no TSC of its own; `tsc` is that of the one before
    before_start  true if it lay in the ring before the service started
    cpu         number
    running     "d7v0", the vCPU that ran on that CPU; null if unknown
    event, id   name (null if unknown) and 28-bit id in hexadecimal, at least five digits
    fields      object: the event's fields, 64-bit ones as strings
    words       instead of it if the event is unknown: array of its 32-bit words

A loss has, after tsc, ns, realtime and cpu: cause, records (null if unknown), first_tsc,
detail, and, if only a part of the gap was asked for, gap_records: the whole gap's count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tracelib.columns import MAX_EXTRA, Columns, Flag
from tracelib.export.engine import Engine, Steps
from tracelib.export.fields import Form, json_fields, json_members, text_fields
from tracelib.export.groups import Catalogue
from tracelib.export.prefix import csv_head, csv_prefix, json_prefix, text_prefix
from tracelib.export.program import BY_ARGUMENTS, STOP, Program, Value, Workshop
from tracelib.export.timebase import Base, TimeBase
from tracelib.gaps import STATED_LOSS, Gap, gap_at
from tracelib.losses import Loss
from tracelib.records import LOST_RECORDS
from tracelib.selection import Selection

_NAME_WIDTH = 24
"""All names but three of shadow paging's."""
_TARGET_BYTES = 1 << 20
_JSON_RECORD = '{"type":"record",'


@dataclass(frozen=True, slots=True)
class Style:
    """One of the formats."""

    head: Callable[[Base | None], str]
    """What comes before the first line, given the time base that was asked for."""
    prefix: Callable[[Program, Flag, TimeBase], None]
    record: Callable[[Program, Form], None]
    """The rest of a record's line."""
    long_record: Callable[[Form, tuple[int, ...]], str]
    """The same for one record with fields that are too long for a program."""
    gap: Callable[[str, Gap, TimeBase], str]
    """The whole line for a row that stands for missing records; what a record's line would
    begin with is given."""


class LineWriter:
    """Batches in, lines out."""

    def __init__(
        self, style: Style, times: TimeBase, catalogue: Catalogue, selection: Selection
    ) -> None:
        self._style = style
        self._times = times
        self._catalogue = catalogue
        self._selection = selection
        self._target = memoryview(bytearray(_TARGET_BYTES))
        self._engine = self._make_engine()

    def lines(
        self, batch: Columns, stated: Sequence[Loss] = ()
    ) -> Iterator[bytes | memoryview]:
        """A line for each row; each piece is valid until the next step. `stated` are the
        losses that the batch's gaps refer to."""
        columns = self._columns(batch)
        row = 0
        while row < len(batch):
            if self._engine.stale:
                self._engine = self._make_engine()
            row, size, ours = self._engine.write(columns, row, self._target)
            yield self._target[:size]
            if ours:
                size = self._engine.write_prefix(row, self._target)
                prefix = bytes(self._target[:size]).decode()
                yield self._single(prefix, batch, row, stated).encode()
                row += 1

    def _make_engine(self) -> Engine:
        self._workshop = Workshop()
        prefixes = [self._prefix(Flag(flags)) for flags in range(2 * Flag.QUEUE_FULL)]
        return Engine(prefixes, self._plan, self._workshop.spellers, self._workshop.pool)

    def _columns(self, batch: Columns) -> list[memoryview]:
        nothing = np.zeros(len(batch), np.int64)
        clock = self._times.clock
        elapsed = clock.elapsed(batch.tsc) if clock.rate else nothing
        realtime = clock.realtime(batch.tsc) if clock.dated else nothing
        return [
            np.ascontiguousarray(column).data
            for column in (
                batch.event, batch.extra, batch.flags, batch.at, batch.words, batch.tsc,
                elapsed, realtime, batch.cpu, batch.running,
            )
        ]

    def _prefix(self, flags: Flag) -> Steps:
        program = Program(self._workshop)
        self._style.prefix(program, flags, self._times)
        return program.steps

    def _plan(self, event: int, extra: int, arguments: int | None) -> Steps:
        form = self._form(event, extra, arguments or 0)
        if event in (LOST_RECORDS, STATED_LOSS) or form.long:
            return STOP
        if form.type is not None and form.type.tail is not None and extra and arguments is None:
            return BY_ARGUMENTS
        program = Program(self._workshop)
        self._style.record(program, form)
        return program.steps

    def _form(self, event: int, extra: int, arguments: int = 0) -> Form:
        return Form(event, extra, self._catalogue.form(event, extra), arguments)

    def _single(self, prefix: str, batch: Columns, row: int, stated: Sequence[Loss]) -> str:
        """A line that no program writes."""
        event, extra = int(batch.event[row]), int(batch.extra[row])
        if event in (LOST_RECORDS, STATED_LOSS):
            gap = self._selection.clip(gap_at(batch, row, stated))
            return self._style.gap(prefix, gap, self._times)
        words = batch.words[batch.at[row] : batch.at[row] + extra]
        return prefix + self._style.long_record(self._form(event, extra), tuple(words.tolist()))


def _text_name(form: Form) -> str:
    name = f"0x{form.event:08x}" if form.type is None else form.type.name
    return f"{name:<{_NAME_WIDTH}} " if form.extra else name


def _text_record(program: Program, form: Form) -> None:
    program.text(_text_name(form))
    text_fields(program, form)
    program.text("\n")


def _text_long(form: Form, extra: tuple[int, ...]) -> str:
    assert form.type is not None
    return f"{_text_name(form)}{form.type.text(extra)}\n"


def _text_gap(prefix: str, gap: Gap, times: TimeBase) -> str:
    count = "an unknown number of" if gap.records is None or gap.cut else str(gap.records)
    parts = [f"{prefix}{'LOST':<{_NAME_WIDTH}} {count} records"]
    if gap.first_tsc:
        parts.append(f" since {times.text(gap.first_tsc)}")
    parts.append(f" ({gap.cause})")
    if gap.cut and gap.records is not None:
        parts.append(f", {gap.records} in the whole gap")
    if gap.detail:
        parts.append(f": {gap.detail}")
    return "".join(parts) + "\n"


def _json_prefix(program: Program, flags: Flag, times: TimeBase) -> None:
    program.text(_JSON_RECORD)
    json_prefix(program, flags, times)


def _json_head(form: Form) -> str:
    name = "null" if form.type is None else f'"{form.type.name}"'
    return f',"event":{name},"id":"{form.event:05x}"'


def _json_record(program: Program, form: Form) -> None:
    program.text(_json_head(form))
    json_fields(program, form)
    program.text("}\n")


def _json_long(form: Form, extra: tuple[int, ...]) -> str:
    assert form.type is not None
    return f"{_json_head(form)}{json_members(form.type, extra)}}}\n"


def _json_gap(prefix: str, gap: Gap, _: TimeBase) -> str:
    members: dict[str, object] = {
        "cause": gap.cause,
        "records": None if gap.cut else gap.records,
        "first_tsc": None if gap.first_tsc is None else str(gap.first_tsc),
        "detail": gap.detail,
    }
    if gap.cut:
        members["gap_records"] = gap.records
    start = '{"type":"loss",' + prefix.removeprefix(_JSON_RECORD)
    return f"{start},{json.dumps(members, separators=(',', ':'))[1:]}\n"


def _csv_name(form: Form) -> str:
    return f",{form.event:05x},{'' if form.type is None else form.type.name}"


def _csv_record(program: Program, form: Form) -> None:
    program.text(_csv_name(form))
    for number in range(form.extra):
        program.text(",")
        program.decimal(Value(number, bits=32))
    program.text("," * (MAX_EXTRA - form.extra) + ',"')
    text_fields(program, form)
    program.text('"\n')


def _csv_long(form: Form, extra: tuple[int, ...]) -> str:
    assert form.type is not None
    words = "".join(f",{word}" for word in extra) + "," * (MAX_EXTRA - form.extra)
    return f'{_csv_name(form)}{words},"{form.type.text(extra)}"\n'


def _csv_gap(prefix: str, gap: Gap, _: TimeBase) -> str:
    fields = {
        "cause": gap.cause, "records": "unknown" if gap.cut else gap.records,
        "first_tsc": gap.first_tsc, "gap_records": gap.records if gap.cut else None,
        "detail": gap.detail or None,
    }
    text = " ".join(f"{name}={value}" for name, value in fields.items() if value is not None)
    quoted = text.replace('"', '""')
    return f'{prefix},,loss{"," * MAX_EXTRA},"{quoted}"\n'


def _no_head(_: Base | None) -> str:
    return ""


def _csv_head(base: Base | None) -> str:
    return f"{csv_head(base)},id,event,{','.join(f'w{word}' for word in range(MAX_EXTRA))},fields\n"


TEXT = Style(_no_head, text_prefix, _text_record, _text_long, _text_gap)
JSON = Style(_no_head, _json_prefix, _json_record, _json_long, _json_gap)
CSV = Style(_csv_head, csv_prefix, _csv_record, _csv_long, _csv_gap)
