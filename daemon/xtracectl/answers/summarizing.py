"""What `summary` says of one trace, as a value: computed here, rendered elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from tracelib.analysis import codes
from tracelib.analysis.activity import Activity, activity
from tracelib.analysis.analyze import Analysis, Analyzer
from tracelib.analysis.exits import Exits, exits
from tracelib.analysis.families import FAMILIES, Verdict, judge
from tracelib.analysis.forms import Forms
from tracelib.analysis.losslist import Losses, losses
from tracelib.analysis.overview import Facts, facts
from tracelib.analysis.results import Absent, By
from tracelib.analysis.runstates import Runstates, runstates
from tracelib.analysis.volume import Volume, volume
from tracelib.analysis.where import Where
from tracelib.chunks import Problem, TraceInfo, TraceReader
from tracelib.clock import Clock, Rate, find_rate
from tracelib.kvmtrace.layout import Kind
from tracelib.kvmtrace.reader import LOSSES_UNKNOWN
from tracelib.reading import parts
from tracelib.symbols import SymbolBook
from tracelib.units import DomId, Nanoseconds, Tsc, parse_domain
from xtracectl.inputs import check_domain
from xtracectl.places import Options
from xtracectl.stopping import Stopped
from xtracectl.times import Moment, parse_moment

if TYPE_CHECKING:
    from tracelib.analysis.whereabouts import Whereabouts

SECTIONS = ("exits", "runstates", "pv", "volume", "losses")
WHERE = "where"
"""One more section, which takes a look at each exit: only if it is asked for."""

Section = Exits | Runstates | Activity | Volume | Losses | Where | Absent

_NOT_IN_KVMTRACE = {
    "runstates": Absent(
        "Runstates", "not in a kvmtrace set: KVM did not record when vCPUs come and go"
    ),
    "pv": Absent(
        "Hypercalls and other activity",
        "not in a kvmtrace set; a guest's hypercalls are among its exits, as kvm_vmmcall",
    ),
    "losses": Absent("Losses", f"unknown: {LOSSES_UNKNOWN}"),
}

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for; None means all, or unknown."""

    sections: tuple[str, ...] = SECTIONS
    by: By = "vcpu"
    domain: DomId | None = None
    since: Moment | None = None
    until: Moment | None = None
    cpu_hz: int | None = None
    vendor: str | None = None
    xen_version: tuple[int, int] | None = None
    book: SymbolBook | None = None
    """Names for code addresses."""
    kvmtrace_layout: Kind | None = None

    @classmethod
    def parse(cls, options: Options) -> Request:
        """Raises UsageError."""
        now = Nanoseconds(time.time_ns())
        chosen = options.section or SECTIONS
        return cls(
            tuple(name for name in (*SECTIONS, WHERE) if name in chosen),
            cast(By, options.by),
            None if options.domain is None else parse_domain(options.domain),
            None if options.since is None else parse_moment(options.since, now),
            None if options.until is None else parse_moment(options.until, now),
            options.cpu_hz,
            options.vendor,
            options.xen_version,
            kvmtrace_layout=options.kvmtrace_layout,
        )


@dataclass(slots=True)
class Report:
    """One part of an input: a boot of the hypervisor, or all there is."""

    info: TraceInfo
    boot: tuple[int, int]
    """Which one, of how many."""
    rate: Rate | None
    first: Tsc
    last: Tsc
    dated: bool
    """Whether any record has a time stamp."""
    facts: Facts
    sections: dict[str, Section] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    """Events whose layout nobody stated: the newest Xen's is assumed."""
    stopped: Stopped | None = None
    """Only what was read until somebody asked to end."""

    @property
    def span(self) -> int:
        """In cycles."""
        return self.last - self.first


def summarize(path: str, request: Request, progress: Progress) -> Iterator[Report]:
    """One report for each boot of the hypervisor. Raises StoreError, FormatError, UsageError.

    A signal that asks to end ends a report early; it is the last one then.
    """
    found = parts(path, kvmtrace_layout=request.kvmtrace_layout)
    for place, part in enumerate(found, start=1):
        with closing(part()) as reader:
            report = _report(reader, (place, len(found)), request, progress)
        yield report
        if report.stopped is not None:
            return


def _report(
    reader: TraceReader, boot: tuple[int, int], request: Request, progress: Progress
) -> Report:
    whereabouts = _whereabouts() if WHERE in request.sections else None
    analyzer, clock = analyzer_of(
        reader, request, noted=0 if whereabouts is None else whereabouts.noted,
        take_notes=None if whereabouts is None else whereabouts.take,
    )
    stopped = None
    try:
        analyzer.run(progress)
    except Stopped as signal:
        stopped = signal
    analysis = analyzer.analysis
    sections = {
        name: _section(name, analysis, request, reader.info)
        for name in request.sections if name != WHERE
    }
    if whereabouts is not None:
        sections[WHERE] = whereabouts.section(
            analysis, verdict_of(analysis, request, reader.info), by=request.by,
            domain=request.domain, book=request.book,
        )
    return Report(
        reader.info, boot, clock.rate, analysis.first, analysis.last, analysis.dated,
        facts(analysis), sections, list(reader.problems), sorted(analysis.forms.assumed), stopped,
    )


def _whereabouts() -> Whereabouts:
    # numpy takes longer to load than most traces to sum up; the other sections need none.
    from tracelib.analysis import whereabouts

    return whereabouts.Whereabouts()


def analyzer_of(
    reader: TraceReader, request: Request, *, timed: bool = False, noted: int = 0,
    take_notes: Callable[[bytes], None] | None = None,
) -> tuple[Analyzer, Clock]:
    """One for what is asked for, and its clock, which starts with the trace if that matters:
    because of what is asked for, or because times are to be told (`timed`). Raises
    UsageError."""
    check_domain(reader.info, request.domain)
    timed = timed or request.since is not None or request.until is not None
    start = (_first_tsc(reader) if timed else None) or Tsc(0)
    clock = Clock(start, find_rate(reader.info, request.cpu_hz), reader.info.anchors)
    analyzer = Analyzer(
        reader, clock, forms(request, reader.info),
        since=None if request.since is None else request.since.resolve(clock),
        until=None if request.until is None else request.until.resolve(clock),
        by_cpu=request.by == "cpu", noted=noted, take_notes=take_notes,
    )
    return analyzer, clock


def _first_tsc(reader: TraceReader) -> Tsc | None:
    # numpy too.
    from tracelib.batches import first_tsc

    return first_tsc(reader)


def _section(
    name: str, analysis: Analysis, request: Request, info: TraceInfo
) -> Section:
    by, domain = request.by, request.domain
    if info.kind == "kvmtrace" and name in _NOT_IN_KVMTRACE:
        return _NOT_IN_KVMTRACE[name]
    if name == "exits":
        return exits(
            analysis, by=by, domain=domain, vendor=request.vendor,
            stated=info.exit_family or info.cpu_vendor,
        )
    if name == "runstates":
        return runstates(analysis, by=by, domain=domain)
    if name == "pv":
        return activity(analysis, by=by, domain=domain)
    if name == "volume":
        return volume(analysis)
    return losses(analysis)


def verdict_of(analysis: Analysis, request: Request, info: TraceInfo) -> Verdict:
    """Whose exit reasons those are that were seen so far."""
    exits = analysis.engine.pairs.exits.items()
    return judge(
        ((key & codes.SVM_EVENT, reason) for key, reason, row in exits if row[codes.SEEN]),
        vendor=request.vendor, stated=info.exit_family or info.cpu_vendor,
    )


def family(request: Request, info: TraceInfo) -> str | None:
    """Whose events a trace has, "vmx" or "svm", if somebody says so."""
    stated = request.vendor or info.exit_family or info.cpu_vendor or ""
    return FAMILIES.get(stated.lower())


def forms(request: Request, info: TraceInfo) -> Forms:
    """What to do with which record, by what the user or the trace says of who wrote it."""
    version = request.xen_version or info.xen_version
    return Forms(
        family=family(request, info), version=version, kvm=info.kind == "kvmtrace"
    )
