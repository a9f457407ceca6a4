"""`summary` as JSON. Numbers that may need more than 53 bits are strings of digits."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tracelib.analysis.activity import Activity
from tracelib.analysis.exits import Exits
from tracelib.analysis.losslist import Losses
from tracelib.analysis.overview import busiest, dearest, waited_most, waits
from tracelib.analysis.results import PERCENTILE_ERROR, Absent, Owner
from tracelib.analysis.runstates import Runstates
from tracelib.analysis.volume import Volume
from tracelib.analysis.where import Where
from tracelib.events.catalogue import event_name
from xtracectl.answers.summarizing import Report, Section
from xtracectl.render.summary_rows import (
    Object,
    amount_object,
    cpu_object,
    exit_object,
    owner_object,
    spread_object,
    state_object,
    tally_object,
)

SCHEMA = 1


def json_text(reports: Sequence[Report]) -> str:
    """One object: a list of reports, one a boot of the hypervisor."""
    return json.dumps({"schema": SCHEMA, "reports": [_report(report) for report in reports]})


def _report(report: Report) -> Object:
    info = report.info
    return {
        "name": info.name,
        "kind": info.kind,
        "boot": report.boot[0],
        "boots": report.boot[1],
        "tick": info.tick,
        "tsc_hz": None if report.rate is None else report.rate.hz,
        "tsc_source": None if report.rate is None else report.rate.source,
        "first_tsc": str(report.first),
        "last_tsc": str(report.last),
        "span": str(report.span),
        "hypervisor": info.hypervisor,
        "hypervisor_version": info.hypervisor_version,
        "cpu_vendor": info.cpu_vendor,
        "host": info.host,
        "overview": _overview(report),
        "interrupted": report.stopped is not None,
        "percentile_error": PERCENTILE_ERROR,
        "layouts_assumed": report.assumed,
        "problems": [str(problem) for problem in report.problems],
        **{name: _section(name, section) for name, section in report.sections.items()},
    }


def _overview(report: Report) -> Object:
    """The facts; and, where the sections are there, what stands out."""
    facts = report.facts
    known = report.info.losses_unknown is None
    found: Object = {
        "cpus": facts.cpus,
        "vcpus": [
            {**owner_object(Owner(domain)), "vcpus": number}
            for domain, number in facts.domains.items()
        ],
        "records": facts.records,
        "lost": facts.lost if known else None,
        "gaps": facts.gaps if known else None,
        "gaps_of_unknown_size": facts.uncounted if known else None,
    }
    exits, states = report.sections.get("exits"), report.sections.get("runstates")
    if isinstance(exits, Exits):
        found["dearest_exits"] = [
            exit_object(row, exits.running.get(row.owner, 0)) for row in dearest(exits)
        ]
    if isinstance(states, Runstates):
        found["waited_most"] = [
            {**state_object(row), "waits": spread_object(waits(row))} for row in waited_most(states)
        ]
        found["busiest"] = [state_object(row) for row in busiest(states)]
    return found


def _section(name: str, section: Section) -> Object:
    if isinstance(section, Absent):
        return {"absent": section.reason}
    return _SECTIONS[name](section)


def _exits(section: Exits) -> Object:
    return {
        "by": section.by,
        "unseen_share": section.unseen,
        "off_cpu_known": section.off_cpu_known,
        "family": section.verdict.family,
        "family_source": section.verdict.source,
        "family_guessed": section.verdict.guessed,
        "rows": [exit_object(row, section.running.get(row.owner, 0)) for row in section.rows],
        "not_listed": section.others,
        "entries_without_exit": [
            {**owner_object(owner), "count": number}
            for owner, number in section.lone_entries.items()
        ],
        "about": [tally_object(row) for row in section.handlers],
    }


def _runstates(section: Runstates) -> Object:
    return {
        "by": section.by,
        "unseen_share": section.unseen,
        "unseen_share_cpus": section.unseen_cpus,
        "rows": [state_object(row) for row in section.rows],
        "cpus": [cpu_object(row) for row in section.cpus],
        "clock_disagreements": [
            {
                "ahead": step.ahead, "behind": step.behind, "cases": step.cases,
                "most": str(step.most),
            }
            for step in section.steps
        ],
        "schedulers": section.scheduling.schedulers,
        "scheduling": [
            {
                "event": decision.event, "count": decision.count,
                "domains": {str(dom): n for dom, n in sorted(decision.domains.items())},
            }
            for decision in section.scheduling.decisions
        ],
    }


def _activity(section: Activity) -> Object:
    groups = {
        "hypercalls": section.calls, "entries": section.entries, "memory": section.memory,
        "interrupts": section.interrupts, "power": section.power,
    }
    return {
        "by": section.by,
        "unseen_share": section.unseen,
        "not_listed": section.others,
        **{name: [tally_object(row) for row in rows] for name, rows in groups.items()},
    }


def _volume(section: Volume) -> Object:
    return {
        "unseen_share": section.unseen,
        **amount_object(section.total),
        "classes": {
            name: amount_object(amount) for name, amount in sorted(section.classes.items())
        },
        "events": {
            f"{event:05x}": {"name": event_name(event), **amount_object(amount)}
            for event, amount in sorted(section.events.items())
        },
        "cpus": {str(cpu): amount_object(amount) for cpu, amount in sorted(section.cpus.items())},
        "wraps": {str(cpu): number for cpu, number in sorted(section.wraps.items())},
        "unknown_events": section.unknown_events,
        "bin_cycles": str(section.bin_cycles),
        "bins": [
            {
                "tsc": str(piece.start),
                "classes": {name: amount_object(amount) for name, amount in piece.amounts.items()},
            }
            for piece in section.bins
        ],
    }


def _losses(section: Losses) -> Object:
    return {
        "unseen_share": section.unseen,
        "records": section.records,
        "sums": [
            {
                "cpu": cpu, "cause": str(cause), "gaps": total.gaps, "records": total.records,
                "uncounted": total.uncounted, "cycles": str(total.cycles),
                "longest": str(total.longest),
            }
            for (cpu, cause), total in section.sums.items()
        ],
        "lost_cycles": {str(cpu): str(cycles) for cpu, cycles in section.lost_cycles.items()},
        "gaps": [
            {
                "cpu": gap.cpu, "cause": str(gap.cause), "records": gap.records,
                "first_tsc": None if gap.first is None else str(gap.first),
                "last_tsc": None if gap.last is None else str(gap.last),
                "detail": gap.detail,
            }
            for gap in section.gaps
        ],
        "gaps_left_out": section.left_out,
    }


def _where(section: Where) -> Object:
    return {
        "by": section.by,
        "unseen_share": section.unseen,
        "rows": [
            {
                **owner_object(row.owner), "what": row.what, "address": f"{row.address:#x}",
                "symbol": row.symbol, "count": row.count, "costed": row.costed,
                "cycles": str(row.cost),
            }
            for row in section.rows
        ],
        "not_listed": section.others,
    }


_SECTIONS: dict[str, Callable[[Any], Object]] = {
    "exits": _exits, "runstates": _runstates, "pv": _activity, "volume": _volume,
    "losses": _losses, "where": _where,
}
