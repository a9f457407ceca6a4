"""`info` for people, in 80 columns, and as JSON."""

from __future__ import annotations

import datetime
import json
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tracelib.clock import without_rate
from tracelib.events.catalogue import event_name
from tracelib.units import format_duration
from xtracectl.answers.info import Summary

SCHEMA = 1

_SHOWN_PROBLEMS = 10
_LABEL = 14
"""Columns that labels take."""


def json_text(summaries: Sequence[Summary]) -> str:
    """One object: that of the only input, or the sums with each input's under "inputs"."""
    objects = [_object(summary) for summary in summaries]
    if len(objects) == 1:
        return json.dumps(objects[0], indent=1)
    return json.dumps({"schema": SCHEMA, **_sums(objects), "inputs": objects}, indent=1)


def _object(summary: Summary) -> dict[str, Any]:
    counts, info = summary.counts, summary.info
    return {
        "schema": SCHEMA,
        "name": info.name,
        "kind": info.kind,
        "layout": info.layout,
        "tick": info.tick,
        "records": counts.records,
        "per_event": {f"{event:05x}": number for event, number in sorted(counts.per_event.items())},
        "per_cpu": {str(cpu): counts.per_cpu[cpu] for cpu in sorted(counts.per_cpu)},
        "lost": {str(cpu): counts.lost[cpu] for cpu in sorted(counts.lost)},
        "lost_by_cause": dict(sorted(counts.lost_by_cause.items())),
        "losses_of_unknown_size": dict(sorted(counts.unknown_losses.items())),
        "gaps": counts.gaps if info.losses_unknown is None else None,
        "losses_unknown": info.losses_unknown,
        "untimed": counts.untimed,
        "wraps": counts.wraps,
        "steps_back": counts.steps_back,
        "first_tsc": _decimal(counts.first_tsc),
        "last_tsc": _decimal(counts.last_tsc),
        "span_ns": summary.span,
        "started_at": _decimal(summary.started_at),
        "tsc_hz": summary.rate.hz if summary.rate else None,
        "tsc_source": summary.rate.source if summary.rate else None,
        "cpu_vendor": info.cpu_vendor,
        "exit_family": info.exit_family,
        "hypervisor": info.hypervisor,
        "hypervisor_version": info.hypervisor_version,
        "host": info.host,
        "segments": summary.segments,
        "boots": summary.boots,
        "problems": [
            {
                "file": problem.file, "offset": problem.offset, "reason": problem.reason,
                "missing_bytes": problem.missing_bytes,
            }
            for problem in summary.problems
        ],
    }


def _decimal(value: int | None) -> str | None:
    """64 bits do not fit into a JavaScript number."""
    return None if value is None else str(value)


def _sums(objects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    sums: dict[str, Any] = {"records": sum(one["records"] for one in objects)}
    for key in ("per_event", "per_cpu", "lost", "lost_by_cause"):
        total: Counter[str] = Counter()
        for one in objects:
            total.update(one[key])
        sums[key] = dict(total)
    firsts = [int(one["first_tsc"]) for one in objects if one["first_tsc"]]
    lasts = [int(one["last_tsc"]) for one in objects if one["last_tsc"]]
    sums["first_tsc"] = _decimal(min(firsts, default=None))
    sums["last_tsc"] = _decimal(max(lasts, default=None))
    return sums


def text(summary: Summary) -> str:
    """A paragraph and three tables."""
    return "\n".join([
        *_heading(summary), *_problems(summary), *_cpus(summary), *_events(summary),
    ])


_KINDS = {
    "store": "a store", "segment": "a segment", "xentrace": "an xentrace file",
    "kvmtrace": "a kvmtrace set",
}


def _heading(summary: Summary) -> list[str]:
    info, counts = summary.info, summary.counts
    kind = _KINDS.get(info.kind, info.kind)
    if info.kind == "store":
        kind += f" of {summary.segments} segment{'s' if summary.segments != 1 else ''}"
    lines = [f"{info.name}: {kind}"]
    untimed = f" ({counts.untimed:,} without a time of their own)" if counts.untimed else ""
    if info.layout is not None:
        lines.append(f"  layout      {info.layout}")
    lines.append(f"  records     {counts.records:,}{untimed}")
    lines += _labelled("lost", _lost(summary))
    lines += _labelled("time", _time(summary))
    if summary.started_at is not None:
        moment = datetime.datetime.fromtimestamp(summary.started_at // 10**9, datetime.UTC)
        lines.append(f"  started     {moment:%Y-%m-%d %H:%M:%S} UTC")
    if summary.boots > 1:
        lines.append(f"  boots       {summary.boots}: TSC and time start anew with each")
    if counts.first_tsc is not None:
        lines.append(f"  TSC         {counts.first_tsc} to {counts.last_tsc}")
    machine = [info.host, info.hypervisor, info.hypervisor_version, info.cpu_vendor]
    if any(machine):
        lines.append(f"  machine     {', '.join(part for part in machine if part)}")
    if counts.steps_back:
        lines.append(f"  time order  goes back within a CPU {counts.steps_back:,} times (verify)")
    return lines


def _labelled(label: str, text: str) -> list[str]:
    """Wrapped beside its label."""
    rest = " " * _LABEL
    return textwrap.wrap(
        f"  {label}".ljust(_LABEL) + text, 80, subsequent_indent=rest, break_long_words=False
    )


def _lost(summary: Summary) -> str:
    counts = summary.counts
    if summary.info.losses_unknown is not None:
        return f"unknown: {summary.info.losses_unknown}"
    if not counts.gaps:
        return "0"
    causes = [f"{cause} {number:,}" for cause, number in sorted(counts.lost_by_cause.items())]
    causes += [f"{cause} unknown" for cause in sorted(counts.unknown_losses)]
    gaps = f"{counts.gaps} gap{'s' if counts.gaps != 1 else ''}"
    return f"{counts.lost.total():,} in {gaps}" + (f" ({', '.join(causes)})" if causes else "")


def _time(summary: Summary) -> str:
    counts = summary.counts
    if counts.first_tsc is None or counts.last_tsc is None:
        return "no record has a time stamp"
    if summary.span is None or summary.rate is None:
        if summary.boots > 1:
            return "the clock rate is not known (--cpu-hz)"
        return f"{counts.last_tsc - counts.first_tsc:,} {without_rate(summary.info)}"
    return f"{format_duration(summary.span)} at {summary.rate}"


def _problems(summary: Summary) -> list[str]:
    if not summary.problems:
        return []
    count = len(summary.problems)
    lines = ["", f"  {count} problem{'s' if count != 1 else ''}:"]
    lines += [f"    {problem}" for problem in summary.problems[:_SHOWN_PROBLEMS]]
    left = len(summary.problems) - _SHOWN_PROBLEMS
    return lines + ([f"    and {left} more (xtracectl verify)"] if left > 0 else [])


def _cpus(summary: Summary) -> list[str]:
    counts = summary.counts
    lines = ["", "   CPU      records         lost"] if counts.per_cpu else []
    for cpu in sorted({*counts.per_cpu, *counts.lost}):
        lost = f"{counts.lost[cpu]:,}" if summary.info.losses_unknown is None else "?"
        lines.append(f"  {cpu:>4} {counts.per_cpu[cpu]:>12,} {lost:>12}")
    return lines


def _events(summary: Summary) -> list[str]:
    counts = summary.counts
    lines = ["", "  event           count  name"] if counts.per_event else []
    for event in sorted(counts.per_event):
        lines.append(f"  {event:05x} {counts.per_event[event]:>15,}  {event_name(event)}")
    return lines
