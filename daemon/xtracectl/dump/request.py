"""What `dump` is asked for: its arguments, checked."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tracelib.clock import Clock
from tracelib.cpulist import parse_cpu_list
from tracelib.errors import UsageError
from tracelib.events.filter import EventFilter, parse_event_filter
from tracelib.export.rules import Rules, read_rules
from tracelib.export.timebase import Base
from tracelib.selection import Selection
from tracelib.units import CpuId, DomId, Nanoseconds, Tsc, parse_domain
from xtracectl.places import Options
from xtracectl.times import Moment, parse_moment

_LINES = 10
"""How many rows `-f` shows of what was there before."""
_TIME_FORMATS = ("text", "json", "csv")


@dataclass(frozen=True, slots=True)
class Request:
    """None means all, or unknown."""

    format: str
    since: Moment | None
    until: Moment | None
    cpus: frozenset[CpuId] | None
    domain: DomId | None
    events: EventFilter | None
    limit: int | None
    family: str | None
    cpu_hz: int | None
    xen_version: tuple[int, int] | None = None
    lines: int | None = None
    """Only so many rows, the last ones of what there is at the start."""
    time: Base | None = None
    rules: Rules | None = None
    """What lines of text look like, if the user says so."""

    @classmethod
    def parse(cls, options: Options) -> Request:
        """Raises UsageError."""
        now = Nanoseconds(time.time_ns())
        return cls(
            format=options.format,
            since=None if options.since is None else parse_moment(options.since, now),
            until=None if options.until is None else parse_moment(options.until, now),
            cpus=None if options.cpu is None else parse_cpu_list(options.cpu),
            domain=None if options.domain is None else parse_domain(options.domain),
            events=parse_event_filter(options.event) if options.event else None,
            limit=_limit(options.limit),
            family=options.vendor,
            cpu_hz=options.cpu_hz,
            xen_version=options.xen_version,
            lines=_lines(options),
            time=_time(options),
            rules=_rules(options),
        )

    def selection(self, clock: Clock, since: Tsc | None = None) -> Selection:
        """What to show of a trace with this clock, nothing from before `since`. Raises
        UsageError for times that the clock cannot tell."""
        asked = None if self.since is None else self.since.resolve(clock)
        return Selection(
            self.cpus, self.events, self.domain,
            max((tsc for tsc in (asked, since) if tsc is not None), default=None),
            None if self.until is None else self.until.resolve(clock),
        )


def _time(options: Options) -> Base | None:
    if options.time is None:
        return None
    if options.format not in _TIME_FORMATS or options.formats is not None:
        raise UsageError(
            "--time is for text, json and csv", hint="the other formats have times of their own"
        )
    return Base(options.time)


def _lines(options: Options) -> int | None:
    if options.format == "xentrace":
        if options.lines is not None:
            raise UsageError("--lines is for formats that have lines", hint="try --since")
        return 0 if options.follow and options.since is None else None
    if options.lines is None:
        return _LINES if options.follow and options.since is None else None
    if options.lines < 0:
        raise UsageError(f"--lines {options.lines} is negative")
    return int(options.lines)


def _rules(options: Options) -> Rules | None:
    if options.formats is None:
        return None
    if options.format != "text":
        raise UsageError("--formats is for text", hint=f"leave out --format {options.format}")
    return read_rules(options.formats)


def _limit(limit: int | None) -> int | None:
    if limit is not None and limit < 0:
        raise UsageError(f"--limit {limit} is negative")
    return limit
