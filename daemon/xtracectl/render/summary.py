"""`summary` for people, in 80 columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracelib.analysis.results import Absent
from tracelib.clock import without_rate
from xtracectl.answers.summarizing import Report
from xtracectl.render.durations import duration
from xtracectl.render.summary_activity import activity_text
from xtracectl.render.summary_exits import exits_text
from xtracectl.render.summary_overview import facts_text, short_text
from xtracectl.render.summary_runstates import runstates_text
from xtracectl.render.summary_trace import losses_text, volume_text
from xtracectl.render.summary_where import where_text
from xtracectl.render.table import indented

_SHOWN_PROBLEMS = 5

_SECTIONS: dict[str, Callable[[Any, Report, int], list[str]]] = {
    "exits": exits_text,
    "runstates": runstates_text,
    "pv": activity_text,
    "volume": volume_text,
    "losses": losses_text,
    "where": where_text,
}


def text(report: Report, *, top: int) -> str:
    """A heading, then the sections that were asked for. `top` bounds detail tables."""
    lines = _head(report)
    if len(report.sections) > 1 and (short := short_text(report)):
        lines += ["", *short]
    for name, section in report.sections.items():
        if isinstance(section, Absent):
            lines += ["", section.title, *indented(section.reason, 2).split("\n")]
        else:
            lines += ["", *_SECTIONS[name](section, report, top)]
    return "\n".join(line.rstrip() for line in lines)


def _head(report: Report) -> list[str]:
    info = report.info
    place, boots = report.boot
    lines = [f"{info.name}: {info.kind}" + (f", boot {place} of {boots}" if boots > 1 else "")]
    if info.layout is not None:
        lines.append(f"  layout: {info.layout}")
    if report.dated:
        if report.rate is None:
            lines += indented(f"{duration(report.span, None)} {without_rate(info)}", 2).split("\n")
        else:
            rate = report.rate
            lines.append(f"  {report.span / rate.hz:,.3f} s at {rate.hz:,} Hz ({rate.source})")
    else:
        lines.append("  no record has a time stamp")
    lines += facts_text(report)
    if report.assumed:
        lines += indented(
            f"layouts of the newest Xen are assumed for {', '.join(report.assumed)}; "
            "see --xen-version", 2,
        ).split("\n")
    if report.stopped is not None:
        lines.append("  interrupted: this is only what was read until then")
    if report.problems:
        lines.append(f"  {len(report.problems)} places could not be read:")
        for problem in report.problems[:_SHOWN_PROBLEMS]:
            lines += indented(str(problem), 4).split("\n")
    return lines
