"""What `dump` is asked for: its arguments, checked."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from tracelib.clock import Clock
from tracelib.cpulist import parse_cpu_list
from tracelib.errors import UsageError
from tracelib.events.filter import EventFilter, parse_event_filter
from tracelib.export.rules import Rules, read_rules
from tracelib.selection import Selection
from tracelib.units import CpuId, DomId, Nanoseconds
from xtracectl.places import Options
from xtracectl.times import Moment, parse_moment

_RECENT = 1_000_000_000
"""Nanoseconds before now."""


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
    time: str = "elapsed"
    """ "elapsed", "wall" or "tsc"."""
    rules: Rules | None = None
    """What lines of text look like, if the user says so."""
    recent: Moment | None = None
    """Where to begin if nothing says so and the trace can tell: to follow is to watch."""

    @classmethod
    def parse(cls, options: Options) -> Request:
        """Raises UsageError."""
        now = Nanoseconds(time.time_ns())
        return cls(
            format=options.format,
            since=None if options.since is None else parse_moment(options.since, now),
            until=None if options.until is None else parse_moment(options.until, now),
            cpus=None if options.cpu is None else parse_cpu_list(options.cpu),
            domain=None if options.domain is None else _domain(options.domain),
            events=parse_event_filter(options.event) if options.event else None,
            limit=_limit(options.limit),
            family=options.vendor,
            cpu_hz=options.cpu_hz,
            time=_time(options),
            rules=_rules(options),
            recent=Moment(realtime=Nanoseconds(now - _RECENT)) if options.follow else None,
        )

    def selection(self, clock: Clock) -> Selection:
        """What to show of a trace with this clock. Raises UsageError for times that it
        cannot tell."""
        since = self.since or (self.recent if clock.dated else None)
        return Selection(
            self.cpus, self.events, self.domain,
            None if since is None else since.resolve(clock),
            None if self.until is None else self.until.resolve(clock),
        )


def _time(options: Options) -> str:
    if options.time is None:
        return "elapsed"
    if options.format != "text" or options.formats is not None:
        raise UsageError(
            "--time is for text", hint="json and csv have all three times, --formats its own",
        )
    return str(options.time)


def _rules(options: Options) -> Rules | None:
    if options.formats is None:
        return None
    if options.format != "text":
        raise UsageError("--formats is for text", hint=f"leave out --format {options.format}")
    return read_rules(options.formats)


def _domain(text: str) -> DomId:
    match = re.fullmatch(r"d?([0-9]{1,5})", text.strip().lower())
    if match is None or int(match[1]) > 0xFFFF:
        raise UsageError(f"{text!r} is no domain", hint="write its number, such as 3 or d3")
    return DomId(int(match[1]))


def _limit(limit: int | None) -> int | None:
    if limit is not None and limit < 0:
        raise UsageError(f"--limit {limit} is negative")
    return limit
