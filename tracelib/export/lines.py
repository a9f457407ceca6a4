"""The formats that are lines: text for people, JSON Lines and CSV for programs.

JSON Lines, one object a line:

    type        "record", or "loss" where records are missing
    tsc         string, decimal: a JavaScript number would round 64 bits
    ns          number: nanoseconds since the trace's first record; exact up to 104 days.
                Left out if the clock rate is unknown
    realtime    string, decimal: nanoseconds since 1970. Only with clock anchors
    timed       false if the record has no TSC of its own; `tsc` is that of the one before
    before_start  true if it lay in the ring before the service started
    cpu         number
    running     "d7v0", the vCPU that ran on that CPU; null if unknown
    event, id   name (null if unknown) and 28-bit id in hexadecimal, at least five digits
    ...         the event's fields, 64-bit ones as strings; "words" if the event is unknown

A loss has, after tsc, ns, realtime and cpu: cause, records (null if unknown), first_tsc,
detail, and, if only a part of the gap was asked for, gap_records: the whole gap's count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tracelib.clock import Clock
from tracelib.columns import MAX_EXTRA, Columns
from tracelib.export.cells import Sheet
from tracelib.export.fields import Catalogue, Group, groups, json_fields, text_fields
from tracelib.export.prefix import csv_prefix, json_prefix, text_prefix, time_text
from tracelib.gaps import Gap, gap_at, gap_rows
from tracelib.losses import Loss
from tracelib.selection import Selection

_NAME_WIDTH = 18


@dataclass(frozen=True, slots=True)
class Style:
    """One of the formats."""

    head: str
    """What comes before the first line."""
    prefix: Callable[[Sheet, Columns, Clock], None]
    record: Callable[[Sheet, Group], None]
    """What depends on the event."""
    gap: Callable[[Gap, Clock], str]
    """The same for a row that stands for missing records."""
    end: str


class LineWriter:
    """Batches in, lines out."""

    def __init__(
        self, style: Style, clock: Clock, catalogue: Catalogue, selection: Selection,
        stated: Sequence[Loss] = (),
    ) -> None:
        self._style = style
        self._clock = clock
        self._catalogue = catalogue
        self._selection = selection
        self._stated = stated

    def lines(self, batch: Columns) -> bytes:
        """A line for each row."""
        sheet = Sheet(len(batch))
        self._style.prefix(sheet, batch, self._clock)
        gaps = gap_rows(batch)
        records = np.flatnonzero(~gaps) if gaps.any() else None
        parts = []
        for group in groups(batch if records is None else batch.take(records), self._catalogue):
            part = Sheet(len(group.rows))
            self._style.record(part, group)
            parts.append((group.rows if records is None else records[group.rows], part))
        if records is not None:
            parts.append((np.flatnonzero(gaps), self._gaps(batch, np.flatnonzero(gaps).tolist())))
        sheet.beside(parts)
        sheet.text(self._style.end)
        return sheet.render()

    def _gaps(self, batch: Columns, rows: list[int]) -> Sheet:
        """Few and irregular: written one by one."""
        found = [self._selection.clip(gap_at(batch, row, self._stated)) for row in rows]
        sheet = Sheet(len(rows))
        sheet.choice(np.arange(len(rows)), [self._style.gap(gap, self._clock) for gap in found])
        return sheet


def _text_record(sheet: Sheet, group: Group) -> None:
    name = f"0x{group.event:08x}" if group.form is None else group.form.name
    sheet.text(f"{name:<{_NAME_WIDTH}} " if int(group.records.extra[0]) else name)
    text_fields(sheet, group)


def _text_gap(gap: Gap, clock: Clock) -> str:
    count = "an unknown number of" if gap.records is None or gap.cut else str(gap.records)
    parts = [f"{'LOST':<{_NAME_WIDTH}} {count} records"]
    if gap.first_tsc:
        parts.append(f" since {time_text(gap.first_tsc, clock)}")
    parts.append(f" ({gap.cause})")
    if gap.cut and gap.records is not None:
        parts.append(f", {gap.records} in the whole gap")
    if gap.detail:
        parts.append(f": {gap.detail}")
    return "".join(parts)


def _json_record(sheet: Sheet, group: Group) -> None:
    name = "null" if group.form is None else f'"{group.form.name}"'
    sheet.text(f',"event":{name},"id":"{group.event:05x}"')
    json_fields(sheet, group)


def _json_gap(gap: Gap, _: Clock) -> str:
    members: dict[str, object] = {
        "cause": gap.cause,
        "records": None if gap.cut else gap.records,
        "first_tsc": None if gap.first_tsc is None else str(gap.first_tsc),
        "detail": gap.detail,
    }
    if gap.cut:
        members["gap_records"] = gap.records
    return "," + json.dumps(members, separators=(",", ":"))[1:-1]


def _csv_record(sheet: Sheet, group: Group) -> None:
    name = "" if group.form is None else group.form.name
    words = int(group.records.extra[0])
    sheet.text(f",{group.event:05x},{name}")
    for number in range(words):
        sheet.text(",")
        sheet.decimal(group.records.word(number))
    sheet.text("," * (MAX_EXTRA - words) + ',"')
    text_fields(sheet, group)
    sheet.text('"')


def _csv_gap(gap: Gap, _: Clock) -> str:
    fields = {
        "cause": gap.cause, "records": "unknown" if gap.cut else gap.records,
        "first_tsc": gap.first_tsc, "gap_records": gap.records if gap.cut else None,
        "detail": gap.detail or None,
    }
    text = " ".join(f"{name}={value}" for name, value in fields.items() if value is not None)
    quoted = text.replace('"', '""')
    return f',,loss{"," * MAX_EXTRA},"{quoted}"'


TEXT = Style("", text_prefix, _text_record, _text_gap, "\n")
JSON = Style("", json_prefix, _json_record, _json_gap, "}\n")
CSV = Style(
    "tsc,ns,realtime,cpu,running,id,event,w0,w1,w2,w3,w4,w5,w6,fields\n",
    csv_prefix, _csv_record, _csv_gap, "\n",
)
