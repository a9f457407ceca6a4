"""When, where, and who ran: what every line says of its record, whatever the event."""

from __future__ import annotations

from tracelib.columns import NOBODY_KNOWN, Flag
from tracelib.events.values import vcpu_name
from tracelib.export.program import CPU, ELAPSED, REALTIME, RUNNING, TSC, Program
from tracelib.export.timebase import Base, TimeBase


def vcpu_text(packed: int) -> str:
    """ "d7v0" of Columns.running; "-" if nobody knows who ran."""
    return "-" if packed == NOBODY_KNOWN else vcpu_name(packed >> 16, packed & 0xFFFF)


def text_prefix(program: Program, flags: Flag, times: TimeBase) -> None:
    """The time, the CPU, and the vCPU that ran there.

    Behind the time: "~" if the record has no time of its own and shows that of the one
    before it, "<" if it lay in the ring before the service started.
    """
    if flags & Flag.DATED:
        times.write(program, times.width)
    else:
        program.text("-".rjust(times.width))
    mark = " " if flags & Flag.TIMED else "~"
    program.text("<" if flags & Flag.BEFORE_START else mark)
    program.pair(
        CPU, RUNNING, "where",
        lambda packed: f"{packed >> 32:>4} {vcpu_text(packed & 0xFFFFFFFF):<8} ",
    )


def json_prefix(program: Program, flags: Flag, times: TimeBase) -> None:
    """Members that every line has but "type": see `lines`."""
    dated, clock = bool(flags & Flag.DATED), times.clock
    if times.asked:
        program.text('"time":')
        _quoted_time(program, times) if dated else program.text("null")
        program.text(",")
    program.text('"tsc":')
    if dated:
        program.text('"')
        program.decimal(TSC)
        program.text('"')
    else:
        program.text("null")
    if clock.rate is not None:
        program.text(',"ns":')
        program.signed(ELAPSED) if dated else program.text("null")
    if clock.dated and dated:
        program.text(',"realtime":"')
        program.signed(REALTIME)
        program.text('"')
    if not flags & Flag.TIMED:
        program.text(',"timed":false')
    if flags & Flag.BEFORE_START:
        program.text(',"before_start":true')
    program.text(',"cpu":')
    program.decimal(CPU)
    program.spelled(RUNNING, "running", _running_json)


def _quoted_time(program: Program, times: TimeBase) -> None:
    program.text('"')
    times.write(program)
    program.text('"')


def _running_json(packed: int) -> str:
    name = "null" if packed == NOBODY_KNOWN else f'"{vcpu_text(packed)}"'
    return f',"running":{name}'


def csv_head(base: Base | None) -> str:
    """The names of what `csv_prefix` writes; without a base, none was asked for."""
    asked = "" if base is None else f"time_{base},"
    return f"{asked}tsc,ns,realtime,cpu,running"


def csv_prefix(program: Program, flags: Flag, times: TimeBase) -> None:
    """Those columns, with nothing between the commas where a value is unknown."""
    dated, clock = bool(flags & Flag.DATED), times.clock
    if times.asked:
        if dated:
            times.write(program)
        program.text(",")
    if dated:
        program.decimal(TSC)
    program.text(",")
    if dated and clock.rate is not None:
        program.signed(ELAPSED)
    program.text(",")
    if dated and clock.dated:
        program.signed(REALTIME)
    program.text(",")
    program.decimal(CPU)
    program.text(",")
    program.spelled(RUNNING, "running", lambda who: "" if who == NOBODY_KNOWN else vcpu_text(who))
