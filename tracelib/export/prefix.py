"""When, where, and who ran: what every line says of its record, whatever the event."""

from __future__ import annotations

import datetime

import numpy as np

from tracelib.clock import Clock
from tracelib.columns import NOBODY_KNOWN, Flag
from tracelib.events.values import vcpu_name
from tracelib.export.program import CPU, ELAPSED, REALTIME, RUNNING, TSC, Program

SECOND = 10**9
TENS = 10 * SECOND
"""Wall-clock times are spelled by ten seconds, and what is left of them is a number: so the
engine is given whole tens for REALTIME and the rest for ELAPSED."""
_SECONDS_WIDTH = 15
_CYCLES_WIDTH = 16
_WALL_WIDTH = len("2026-11-30T22:00:01.000000005Z")


def vcpu_text(packed: int) -> str:
    """ "d7v0" of Columns.running; "-" if nobody knows who ran."""
    return "-" if packed == NOBODY_KNOWN else vcpu_name(packed >> 16, packed & 0xFFFF)


def time_text(tsc: int, clock: Clock) -> str:
    """One TSC as the text format shows it: seconds since the start, or cycles."""
    if clock.rate is None:
        return str(tsc)
    elapsed = int(clock.elapsed(np.array([tsc], np.uint64))[0])
    whole, rest = divmod(abs(elapsed), SECOND)
    return f"{'-' if elapsed < 0 else ''}{whole}.{rest:09}"


def wall_text(realtime: int) -> str:
    """Nanoseconds since 1970 as "2026-11-30T22:00:01.000000005Z"."""
    tens, rest = divmod(realtime, TENS)
    return f"{_tens_text(tens)}{rest // SECOND}.{rest % SECOND:09}Z"


def _tens_text(tens: int) -> str:
    """All of it but the last digit of the seconds, and what follows."""
    moment = datetime.datetime.fromtimestamp(10 * tens, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S")[:-1]


def text_prefix(program: Program, flags: Flag, clock: Clock) -> None:
    """Seconds since the trace's start (or cycles), CPU, and the vCPU that ran there.

    Behind the time: "~" if the record has no time of its own and shows that of the one
    before it, "<" if it lay in the ring before the service started.
    """
    if not flags & Flag.DATED:
        program.text("-".rjust(_CYCLES_WIDTH if clock.rate is None else _SECONDS_WIDTH))
    elif clock.rate is None:
        program.aligned(TSC, _CYCLES_WIDTH)
    else:
        program.seconds(_SECONDS_WIDTH)
    _where(program, flags)


def wall_prefix(program: Program, flags: Flag, clock: Clock) -> None:
    """The same with the time of day, in UTC, by columns as TENS says."""
    del clock
    if flags & Flag.DATED:
        program.spelled(REALTIME, "tens of seconds", _tens_text)
        program.seconds(0)
        program.text("Z")
    else:
        program.text("-".rjust(_WALL_WIDTH))
    _where(program, flags)


def tsc_prefix(program: Program, flags: Flag, clock: Clock) -> None:
    """The same with the raw TSC."""
    del clock
    if flags & Flag.DATED:
        program.aligned(TSC, _CYCLES_WIDTH)
    else:
        program.text("-".rjust(_CYCLES_WIDTH))
    _where(program, flags)


def _where(program: Program, flags: Flag) -> None:
    mark = " " if flags & Flag.TIMED else "~"
    program.text("<" if flags & Flag.BEFORE_START else mark)
    program.pair(
        CPU, RUNNING, "where",
        lambda packed: f"{packed >> 32:>4} {vcpu_text(packed & 0xFFFFFFFF):<8} ",
    )


def json_prefix(program: Program, flags: Flag, clock: Clock) -> None:
    """Members that every line has but "type": see `lines`."""
    dated = bool(flags & Flag.DATED)
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


def _running_json(packed: int) -> str:
    name = "null" if packed == NOBODY_KNOWN else f'"{vcpu_text(packed)}"'
    return f',"running":{name}'


def csv_prefix(program: Program, flags: Flag, clock: Clock) -> None:
    """tsc,ns,realtime,cpu,running, with nothing between the commas where it is unknown."""
    dated = bool(flags & Flag.DATED)
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
