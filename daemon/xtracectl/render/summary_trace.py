"""The sections about the trace itself, "volume" and "losses", for people."""

from __future__ import annotations

from tracelib.analysis.losslist import Losses
from tracelib.analysis.volume import Amount, Volume
from tracelib.events.catalogue import event_name
from tracelib.units import format_size
from xtracectl.answers.summarizing import Report
from xtracectl.render.durations import duration, nanoseconds, per_second, percent, share
from xtracectl.render.table import count, indented, number_of, table

_LESS = (
    "what takes most is what to leave out to get less: classes and events are named as "
    "xtracectl mask takes them"
)


def volume_text(section: Volume, report: Report, top: int) -> list[str]:
    """What takes how much, the most first."""
    lines = [
        "Volume: records as they lie in the rings",
        *indented(
            f"{count(section.total.records)} records, {format_size(section.total.bytes)}"
            f"{_bytes_per_second(section, report)}; "
            f"records were being lost in {percent(section.unseen)} of the CPUs' time", 2,
        ).split("\n"),
    ]
    if section.unknown_events:
        lines.append(f"  of events unknown here: {number_of(section.unknown_events, 'record')}")
    if not section.total.records:
        return lines
    if report.info.kind != "kvmtrace":
        lines += indented(_LESS, 2).split("\n")
    by_class = [(name, amount) for name, amount in section.classes.items()]
    by_event = [(event_name(event), amount) for event, amount in section.events.items()]
    by_cpu = [(f"cpu{cpu}", amount) for cpu, amount in sorted(section.cpus.items())]
    lines += ["", *_amounts("class", _largest(by_class), section, report)]
    events = _largest(by_event)
    lines += ["", *_amounts("event", events[:top], section, report)]
    if events[top:]:
        lines.append(f"and {number_of(len(events) - top, 'event')} more")
    lines += ["", *_amounts("CPU", by_cpu, section, report)]
    return lines + _peak(section, report)


def _bytes_per_second(section: Volume, report: Report) -> str:
    if report.rate is None or not report.span:
        return ""
    return f", {format_size(section.total.bytes * report.rate.hz // report.span)}/s"


def _largest(rows: list[tuple[str, Amount]]) -> list[tuple[str, Amount]]:
    return sorted(rows, key=lambda row: (-row[1].bytes, row[0]))


def _amounts(
    what: str, rows: list[tuple[str, Amount]], section: Volume, report: Report
) -> list[str]:
    cells = [
        [
            name, count(amount.records), per_second(amount.records, report.span, report.rate),
            format_size(amount.bytes), share(amount.bytes, section.total.bytes),
        ]
        for name, amount in rows
    ]
    return table([what, "records", "/s", "bytes", "%bytes"], cells, left=(0,)).split("\n")


def _peak(section: Volume, report: Report) -> list[str]:
    """The busiest piece of the span."""
    if len(section.bins) < 2:
        return []
    busiest = max(section.bins, key=lambda piece: sum(a.bytes for a in piece.amounts.values()))
    size = sum(amount.bytes for amount in busiest.amounts.values())
    at = duration(busiest.start - report.first, report.rate)
    length = duration(section.bin_cycles, report.rate)
    return ["", f"busiest {length}: {format_size(size)}, {at} after the start"]


def losses_text(section: Losses, report: Report, top: int) -> list[str]:
    """Sums by CPU and cause, then the longest gaps."""
    lines = ["Losses", f"  not seen: {percent(section.unseen)} of the CPUs' time"]
    if not section.sums:
        return [*lines, "  none"]
    rows = [
        [
            f"cpu{cpu}", cause, count(total.gaps), _records(total.records, total.uncounted),
            duration(total.cycles, report.rate), duration(total.longest, report.rate),
            share(section.lost_cycles.get(cpu, 0), section.span),
        ]
        for (cpu, cause), total in section.sums.items()
    ]
    heads = ["CPU", "cause", "gaps", "records", "time", "longest", "%time"]
    lines += ["", *table(heads, rows, left=(0, 1)).split("\n"), ""]
    gaps = [
        [
            "?" if gap.first is None else _after(gap.first - report.first, report),
            f"cpu{gap.cpu}", gap.cause, "?" if gap.records is None else count(gap.records),
            duration(gap.cycles, report.rate),
        ]
        for gap in section.gaps[:top]
    ]
    heads = ["longest, after", "CPU", "cause", "records", "time"]
    lines += table(heads, gaps, left=(1, 2)).split("\n")
    left = len(section.gaps) - len(gaps) + section.left_out
    return [*lines, f"and {number_of(left, 'gap')} more"] if left else lines


def _records(known: int, uncounted: int) -> str:
    if not uncounted:
        return count(known)
    return f"{count(known)}+?" if known else "?"


def _after(cycles: int, report: Report) -> str:
    if report.rate is None:
        return f"{cycles:,} c"
    return f"{nanoseconds(cycles, report.rate) / 10**9:,.6f} s"
