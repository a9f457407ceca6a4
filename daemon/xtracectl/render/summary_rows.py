"""Rows of a summary's sections as JSON. Cycles are strings: they may need more than 53 bits."""

from __future__ import annotations

from typing import Any

from tracelib.analysis.exits import ExitRow
from tracelib.analysis.labels import value_text
from tracelib.analysis.results import Owner, Spread
from tracelib.analysis.runstates import SPELLS, STATES, CpuRow, StateRow
from tracelib.analysis.tallies import TallyRow
from tracelib.analysis.volume import Amount
from tracelib.units import PROCESSES

Object = dict[str, Any]


def owner_object(owner: Owner) -> Object:
    """Whose row it is; a process of KVM's by its pid."""
    if owner.domain is not None and owner.domain >= PROCESSES:
        pid = owner.domain - PROCESSES
        return {"domain": None, "pid": pid, "vcpu": owner.vcpu, "cpu": owner.cpu}
    return {"domain": owner.domain, "vcpu": owner.vcpu, "cpu": owner.cpu}


def spread_object(spread: Spread) -> Object:
    """Durations in cycles: number, sum and maximum exact, percentiles within an error."""
    return {
        "number": spread.number,
        "sum": str(spread.sum),
        "mean": str(spread.mean),
        **{f"p{percent}": str(spread.percentile(percent)) for percent in (50, 95, 99)},
        "max": str(spread.most),
    }


def exit_object(row: ExitRow, running: int) -> Object:
    """One reason's exits; `running` is how long their owner ran."""
    return {
        **owner_object(row.owner),
        "reason": row.cause.reason,
        "name": row.cause.name,
        "nested": row.cause.nested,
        "count": row.seen,
        "paired": row.cost.number,
        "cut_loss": row.cut_loss,
        "cut_end": row.cut_end,
        "cut_unseen": row.cut_unseen,
        "cycles": spread_object(row.cost),
        "off_cpu_runnable": str(row.off_runnable),
        "off_cpu_blocked": str(row.off_blocked),
        "running": str(running),
    }


def state_object(row: StateRow) -> Object:
    """A vCPU's or a domain's time by state, and how long it stayed in them."""
    return {
        **owner_object(row.owner),
        "vcpus": row.vcpus,
        "cycles": {name: str(time) for name, time in zip(STATES, row.times, strict=True)},
        "spells": {
            name: spread_object(spread) for name, spread in zip(SPELLS, row.spells, strict=True)
        },
        "moves": row.moves,
        "contradictions": row.contradictions,
    }


def cpu_object(row: CpuRow) -> Object:
    """What a physical CPU did."""
    return {
        "cpu": row.cpu,
        "idle": str(row.idle),
        "busy": str(row.busy),
        "switching": str(row.switching),
        "lost": str(row.lost),
        "unknown": str(row.unknown),
        "domains": {str(domain): str(cycles) for domain, cycles in sorted(row.domains.items())},
        "steps_back": row.steps_back,
    }


def tally_object(row: TallyRow) -> Object:
    """Records by what they are about."""
    return {
        **owner_object(row.owner),
        "event": row.event,
        "value": None if row.value is None else str(row.value),
        "label": value_text(row.event, row.value),
        "values": row.values,
        "count": row.count,
        "costed": row.costed,
        "cycles": str(row.cost),
        "off_cpu": str(row.off),
    }


def amount_object(amount: Amount) -> Object:
    """Records and bytes."""
    return {"records": amount.records, "bytes": amount.bytes}
