"""The columns of `top`: what each is, how it is written and sorted by.

Percentages are of one CPU's time: a domain's are the sum over its vCPUs, so that two busy
ones are 200, as in xentop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tracelib.analysis import codes
from tracelib.analysis.exits import Cause
from xtracectl.answers.intervals import CPU_TIMES, Row
from xtracectl.render.durations import duration, per_second, share
from xtracectl.top.sampling import Load, Sample

_PERCENT = 5
"""The width of a percentage."""

_BUSY, _IDLE, _SWITCHING, _LOST, _UNKNOWN = range(len(CPU_TIMES))


class Column(NamedTuple):
    """One column."""

    key: str
    """What --sort calls it."""
    head: str
    width: int
    help: str
    value: Callable[[Load], float]
    """To sort by; the most comes first."""
    cell: Callable[[Load, Sample], str]


def name_of(load: Load) -> str:
    """What a row is called; vCPUs that are not known go by the CPU they were on."""
    domain, _, cpu = load.owner
    if domain is None and load.vcpus:
        return "unknown" if cpu is None else f"?@cpu{cpu}"
    return load.owner.name


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _percent(cycles: Callable[[Row], int]) -> Callable[[Load, Sample], str]:
    """Of one CPU's time; at most five characters."""

    def cell(load: Load, sample: Sample) -> str:
        if not any(load.row.times):
            # Of vCPUs that are not known.
            return "-"
        # Corrections of an earlier sample can make a time negative, or longer than this one.
        part = min(max(0, cycles(load.row)), max(1, load.vcpus) * sample.span)
        text = share(part, sample.span)
        return text if len(text) <= _PERCENT else text.partition(".")[0]

    return cell


def _rate(number: Callable[[Row], int]) -> Callable[[Load, Sample], str]:
    return lambda load, sample: per_second(number(load.row), sample.span, sample.rate)


def _share(key: str, head: str, width: int, help: str, cycles: Callable[[Row], int]) -> Column:
    return Column(key, head, width, help, lambda load: cycles(load.row), _percent(cycles))


def _number(key: str, head: str, width: int, help: str, number: Callable[[Row], int]) -> Column:
    return Column(key, head, width, help, lambda load: number(load.row), _rate(number))


def _mean_wait(load: Load, sample: Sample) -> str:
    row = load.row
    return duration(row.waited // row.waits, sample.rate) if row.waits > 0 else "-"


def _exit_share(load: Load, _: Sample) -> str:
    return share(load.row.cost, max(0, load.row.times[codes.RUNNING]))


_NAME = Column(
    "name", "NAME", 8, "the domain, vCPU or CPU", lambda _: 0.0, lambda load, _: name_of(load)
)

_VCPUS = Column(
    "vcpus", "VCPU", 4, "how many vCPUs the domain has, as far as seen",
    lambda load: load.vcpus,
    lambda load, _: "-" if load.owner.domain is None else str(load.vcpus),
)  # fmt: skip

_OF_VCPUS = (
    _share("cpu", "CPU%", _PERCENT, "time on a CPU", lambda row: row.times[codes.RUNNING]),
    _share("wait", "WAIT%", _PERCENT, "time ready to run, but without a CPU",
           lambda row: row.times[codes.RUNNABLE]),
    _share("blocked", "BLK%", _PERCENT, "time blocked: it had nothing to do",
           lambda row: row.times[codes.BLOCKED]),
    _share("unseen", "?%", _PERCENT, "time that nobody saw: records lost, or none seen yet",
           lambda row: row.times[codes.LOST] + row.times[codes.UNKNOWN]),
    Column("mwait", "MWAIT", 5, "how long it waited for a CPU each time, on average",
           lambda load: _ratio(load.row.waited, load.row.waits), _mean_wait),
    _number("runs", "EXEC/s", 6, "how often it was put on a CPU", lambda row: row.runs),
    _number("exits", "EXIT/s", 6, "VM exits", lambda row: row.exits),
    Column("cost", "EX%", 4, "share of its time on a CPU that went into handling exits",
           lambda load: _ratio(load.row.cost, load.row.times[codes.RUNNING]), _exit_share),
    _number("calls", "CALL/s", 6, "hypercalls", lambda row: row.hypercalls),
)  # fmt: skip

_OF_CPUS = (
    _share("cpu", "BUSY%", 6, "time with a guest's vCPU on it", lambda row: row.times[_BUSY]),
    _share("idle", "IDLE%", 6, "time idle", lambda row: row.times[_IDLE]),
    _share("switch", "SWCH%", 6, "time in the scheduler, between two vCPUs",
           lambda row: row.times[_SWITCHING]),
    _share("unseen", "?%", 6, "time that nobody saw: records lost, or none seen yet",
           lambda row: row.times[_LOST] + row.times[_UNKNOWN]),
    _number("records", "REC/s", 7, "trace records", lambda row: row.records),
    _number("lost", "LOST/s", 7, "trace records known to be lost", lambda row: row.lost),
    Column("gaps", "GAPS", 5, "places where records are missing",
           lambda load: load.row.gaps, lambda load, _: str(load.row.gaps)),
)  # fmt: skip

COLUMNS: dict[str, tuple[Column, ...]] = {
    "domain": (_NAME, _VCPUS, *_OF_VCPUS),
    "vcpu": (_NAME, *_OF_VCPUS),
    "cpu": (_NAME, *_OF_CPUS),
}
"""By what rows are by. Left of them all stands the name; right of a guest's, its exits."""

KEYS = tuple(dict.fromkeys(column.key for row in COLUMNS.values() for column in row))


_MOST_EXITS = 3
"""Reasons where there is no end to a line."""


def top_exits(load: Load, sample: Sample, width: int | None) -> str:
    """As many reasons as fit, or _MOST_EXITS without a width: the dearest first, each with
    how often it was. The first one loses that, or is cut, rather than left out."""
    row = load.row
    dearest = sorted(
        (cause for cause, number in row.often.items() if number > 0),
        key=lambda cause: (-row.reasons[cause], -row.often[cause], cause),
    )
    text = ""
    for cause in dearest[:_MOST_EXITS] if width is None else dearest:
        added = f"{', ' if text else ''}{_reason(cause, load, sample)}"
        if text and width is not None and len(text) + len(added) > width:
            break
        text += added
    if width is None or len(text) <= width:
        return text
    return text.rpartition(" ")[0][:width]


def _reason(cause: Cause, load: Load, sample: Sample) -> str:
    rate = per_second(load.row.often[cause], sample.span, sample.rate)
    return f"{'nested ' if cause.nested else ''}{cause.name} {rate}"
