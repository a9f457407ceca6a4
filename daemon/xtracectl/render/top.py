"""`top` as lines of text: a head that says how the machine is, then a table."""

from __future__ import annotations

import time
from typing import NamedTuple

from tracelib.analysis import codes
from tracelib.units import Nanoseconds, format_duration, format_size
from xtracectl.answers.intervals import CPU_TIMES
from xtracectl.render.durations import nanoseconds, per_second, percent, share
from xtracectl.render.table import count, number_of
from xtracectl.render.top_columns import COLUMNS, Column, top_exits
from xtracectl.top.sampling import Load, Sample
from xtracectl.top.view import View

_FAMILIES = {"vmx": "Intel's", "svm": "AMD's"}

_KEYS = """\
q           quit                      space       the next sample now
D  V  1     by domain, vCPU, CPU      b, left     of an input: the sample before
d  s        another delay             arrows, page up, home ...: scroll
<  >        sort by the column beside R           the least first
P  W  M     sort by CPU%, WAIT%, MWAIT
X  E  C     sort by EXEC/s, EXIT/s, CALL/s
N           sort by name              h  ?        this""".splitlines()


class Screen(NamedTuple):
    """What to draw."""

    lines: list[str]
    heads: int
    """Which line has the columns' names; -1 if none has."""


def screen(sample: Sample, view: View, width: int, height: int) -> Screen:
    """As much as fits; rows are scrolled by `view`."""
    head = header(sample)
    rows = _ordered(sample, view)
    room = max(0, height - len(head) - 2)
    offset = view.scrolled(len(rows), room)
    shown = [_line(load, sample, view, width) for load in rows[offset : offset + room]]
    scrolled = ""
    if len(rows) > room > 0:
        scrolled = f"rows {offset + 1} to {offset + len(shown)} of {len(rows)}; arrows scroll"
    lines = [*head, _talk(view) or scrolled, _heads(view), *shown]
    return _fitted(lines, width, height, len(head) + 1)


def waiting(trouble: str, view: View, width: int, height: int) -> Screen:
    """Before the first sample."""
    lines = ["top: the first sample is being taken", trouble and f"! {trouble}", _talk(view)]
    return _fitted(lines, width, height)


def help_screen(view: View, width: int, height: int) -> Screen:
    """The keys, and the columns that are shown."""
    columns = [f"  {column.head:7} {column.help}" for column in COLUMNS[view.by]]
    return _fitted([*_KEYS, "", "columns, in % of one CPU's time:", *columns], width, height)


def _fitted(lines: list[str], width: int, height: int, heads: int = -1) -> Screen:
    return Screen([line[:width] for line in lines][:height], heads)


def _talk(view: View) -> str:
    """What is asked or answered."""
    if view.typed is not None:
        return f"delay, in seconds or as 500ms (now {format_duration(view.delay)}): {view.typed}_"
    return view.message


def plain(sample: Sample, view: View) -> str:
    """All rows, for what is no terminal: as wide as it takes."""
    rows = [_line(load, sample, view, None) for load in _ordered(sample, view)]
    return "\n".join([*header(sample), _heads(view), *rows]) + "\n"


def header(sample: Sample) -> list[str]:
    """How the machine is."""
    return [_title(sample), _cpus(sample), _records(sample), _exits(sample),
            *(f"! {note}" for note in sample.notes)]  # fmt: skip


def _title(sample: Sample) -> str:
    span = nanoseconds(sample.span, sample.rate)
    info = sample.info
    if sample.at is None:
        until = nanoseconds(sample.last - sample.start, sample.rate)
        when = f"{_seconds(until - span)} to {_seconds(until)} s"
        boot, boots = sample.boot
        where = info.name + (f", boot {boot} of {boots}" if boots > 1 else "")
    else:
        when = f"{_time(sample.at)}, the last {_seconds(span)} s"
        where = ", ".join(filter(None, (info.host, _hypervisor(sample))))
    return f"top: {when}; {where}"


def _hypervisor(sample: Sample) -> str:
    info = sample.info
    return " ".join(filter(None, (info.hypervisor, info.hypervisor_version)))


def _time(at: Nanoseconds) -> str:
    return time.strftime("%H:%M:%SZ", time.gmtime(at // 10**9))


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 10**9:.2f}"


def _cpus(sample: Sample) -> str:
    times = [max(0, cycles) for cycles in sample.machine.times]
    parts = dict(zip(CPU_TIMES, times, strict=True))
    total = sum(times)
    unseen = parts["lost"] + parts["unknown"]
    if not total:
        return f"cpus     {len(sample.cpus)}; nothing seen of them"
    return (
        f"cpus     {len(sample.cpus)}: {share(parts['busy'], total)} % busy, "
        f"{share(parts['idle'], total)} % idle, {share(parts['switching'], total)} % switching, "
        f"{percent(unseen / total)} not seen"
    )


def _records(sample: Sample) -> str:
    row, rate = sample.machine, sample.rate
    size = row.bytes * rate.hz // sample.span if sample.span else 0
    line = f"records  {per_second(row.records, sample.span, rate)}/s, {format_size(size)}/s; "
    if not row.gaps:
        return line + "none lost"
    gaps = number_of(row.gaps, "gap")
    if not row.lost and row.uncounted:
        return f"{line}{gaps.upper()}: nobody knows how many are missing"
    more = " and more" if row.uncounted else ""
    return f"{line}{gaps.upper()}: {count(row.lost)}{more} missing"


def _exits(sample: Sample) -> str:
    row, rate, span = sample.whole, sample.rate, sample.span
    line = (
        f"guests   {per_second(row.exits, span, rate)} exits/s, "
        f"{share(row.cost, max(0, row.times[codes.RUNNING]))} % of their time on a CPU; "
        f"{per_second(row.hypercalls, span, rate)} hypercalls/s"
    )
    family = _FAMILIES.get(sample.verdict.family or "")
    if not row.exits or (family and not sample.verdict.guessed):
        return line
    return line + ("; reasons: " + (f"{family}, a guess" if family else "numbers; see --vendor"))


def _ordered(sample: Sample, view: View) -> list[Load]:
    """Sorted as `view` says; equal ones by name."""
    column = next(
        (column for column in COLUMNS[view.by] if column.key == view.sort), COLUMNS[view.by][0]
    )
    # Stable both ways: equal ones stay in their own order.
    return sorted(
        sample.loads(view.by), key=column.value if view.reverse else lambda x: -column.value(x)
    )


def _heads(view: View) -> str:
    cells = [_aligned(column, _marked(column, view)) for column in COLUMNS[view.by]]
    return " ".join(cells) + ("" if view.by == "cpu" else "  TOP EXITS/s")


def _marked(column: Column, view: View) -> str:
    """The column that rows are sorted by has a mark before its name."""
    if column.key != view.sort:
        return column.head
    return ("^" if view.reverse else "*") + column.head[: column.width - 1]


def _line(load: Load, sample: Sample, view: View, width: int | None) -> str:
    cells = [_aligned(column, column.cell(load, sample)) for column in COLUMNS[view.by]]
    line = " ".join(cells)
    if view.by == "cpu":
        return line.rstrip()
    room = None if width is None else max(0, width - len(line) - 2)
    return f"{line}  {top_exits(load, sample, room)}".rstrip()


def _aligned(column: Column, text: str) -> str:
    return text.ljust(column.width) if column.key == "name" else text.rjust(column.width)
