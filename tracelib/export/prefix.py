"""When, where, and who ran: what every line says of its record, whatever the event."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracelib.clock import Clock
from tracelib.columns import NOBODY_KNOWN, Columns, Flag, Mask
from tracelib.events.values import vcpu_name
from tracelib.export.cells import Sheet
from tracelib.gaps import gap_rows

SECOND = 10**9
_SECONDS_WIDTH = 5
_TIME_WIDTH = _SECONDS_WIDTH + 1 + 9
_CYCLES_WIDTH = 16


def vcpu_text(packed: int) -> str:
    """ "d7v0" of Columns.running; "-" if nobody knows who ran."""
    return "-" if packed == NOBODY_KNOWN else vcpu_name(packed >> 16, packed & 0xFFFF)


def seconds_text(elapsed: int) -> str:
    """ "1.000000005" from nanoseconds."""
    whole, rest = divmod(abs(elapsed), SECOND)
    return f"{'-' if elapsed < 0 else ''}{whole}.{rest:09}"


def time_text(tsc: int, clock: Clock) -> str:
    """One TSC as the text format shows it: seconds since the start, or cycles."""
    if clock.rate is None:
        return str(tsc)
    return seconds_text(int(clock.elapsed(np.array([tsc], np.uint64))[0]))


def text_prefix(sheet: Sheet, batch: Columns, clock: Clock) -> None:
    """Seconds since the trace's start (or cycles), CPU, and the vCPU that ran there.

    Behind the time: "~" if the record has no time of its own and shows that of the one
    before it, "<" if it lay in the ring before the service started.
    """
    usual, write = _times(batch, clock)
    _mostly(sheet, batch, usual, write, lambda row: _unusual_time(row, clock))
    marks = np.where(batch.flags & Flag.BEFORE_START, 2, batch.flags & Flag.TIMED == 0)
    sheet.choice(marks, [" ", "~", "<"])
    sheet.spelled(batch.cpu, lambda cpu: f"{cpu:>4} ")
    sheet.spelled(batch.running, lambda who: f"{vcpu_text(who):<8} ")


def _times(batch: Columns, clock: Clock) -> tuple[Mask, Callable[[Sheet, Columns], None]]:
    """Which rows have a time that can be written in columns, and how."""
    dated = batch.flags & Flag.DATED != 0
    if clock.rate is None:
        return dated, lambda sheet, rows: sheet.aligned(rows.tsc, _CYCLES_WIDTH)

    def write(sheet: Sheet, rows: Columns) -> None:
        whole, rest = np.divmod(clock.elapsed(rows.tsc).view(np.uint64), np.uint64(SECOND))
        sheet.aligned(whole, _SECONDS_WIDTH)
        sheet.text(".")
        sheet.fixed(rest, 9)

    return dated & (clock.elapsed(batch.tsc) >= 0), write


def _unusual_time(row: Columns, clock: Clock) -> str:
    text = time_text(int(row.tsc[0]), clock) if row.flags[0] & Flag.DATED else "-"
    return text.rjust(_CYCLES_WIDTH if clock.rate is None else _TIME_WIDTH)


def _mostly(
    sheet: Sheet, batch: Columns, usual: Mask, write: Callable[[Sheet, Columns], None],
    spell: Callable[[Columns], str],
) -> None:
    """Write the usual rows in columns and the few others one by one."""
    if usual.all():
        write(sheet, batch)
        return
    rows, others = np.flatnonzero(usual), np.flatnonzero(~usual)
    columns, single = Sheet(len(rows)), Sheet(len(others))
    if len(rows):
        write(columns, batch.take(rows))
    single.choice(
        np.arange(len(others)), [spell(batch.take(slice(row, row + 1))) for row in others.tolist()]
    )
    sheet.beside([(rows, columns), (others, single)])


def json_prefix(sheet: Sheet, batch: Columns, clock: Clock) -> None:
    """Members that every record has: see `lines.JsonLines`."""
    sheet.choice(gap_rows(batch), ['{"type":"record",', '{"type":"loss",'])
    _mostly(
        sheet, batch, batch.flags & Flag.DATED != 0,
        lambda part, rows: _json_times(part, rows, clock),
        lambda _: '"tsc":null' + ("" if clock.rate is None else ',"ns":null'),
    )
    unusual = batch.flags & Flag.TIMED == 0
    if unusual.any():
        sheet.choice(unusual, ["", ',"timed":false'])
    old = batch.flags & Flag.BEFORE_START != 0
    if old.any():
        sheet.choice(old, ["", ',"before_start":true'])
    sheet.spelled(batch.cpu, lambda cpu: f',"cpu":{cpu}')
    sheet.spelled(batch.running, _running_json)


def _json_times(sheet: Sheet, rows: Columns, clock: Clock) -> None:
    sheet.text('"tsc":"')
    sheet.decimal(rows.tsc)
    sheet.text('"')
    if clock.rate is not None:
        sheet.text(',"ns":')
        sheet.signed(clock.elapsed(rows.tsc))
    if clock.dated:
        sheet.text(',"realtime":"')
        sheet.signed(clock.realtime(rows.tsc))
        sheet.text('"')


def _running_json(packed: int) -> str:
    name = "null" if packed == NOBODY_KNOWN else f'"{vcpu_text(packed)}"'
    return f',"running":{name}'


def csv_prefix(sheet: Sheet, batch: Columns, clock: Clock) -> None:
    """tsc,ns,realtime,cpu,running, with nothing between the commas where it is unknown."""
    _mostly(
        sheet, batch, batch.flags & Flag.DATED != 0,
        lambda part, rows: _csv_times(part, rows, clock), lambda _: ",,",
    )
    sheet.spelled(batch.cpu, lambda cpu: f",{cpu},")
    sheet.spelled(batch.running, lambda who: "" if who == NOBODY_KNOWN else vcpu_text(who))


def _csv_times(sheet: Sheet, rows: Columns, clock: Clock) -> None:
    sheet.decimal(rows.tsc)
    sheet.text(",")
    if clock.rate is not None:
        sheet.signed(clock.elapsed(rows.tsc))
    sheet.text(",")
    if clock.dated:
        sheet.signed(clock.realtime(rows.tsc))
