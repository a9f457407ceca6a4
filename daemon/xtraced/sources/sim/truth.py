"""What a simulated hypervisor did, exactly: the truth that captures are checked against.

The counts of `cpus` and `events` are taken inside the ring producer, so masks apply to
them: produced = inserted + dropped, and dropped = reported + forgotten + pending. Those of
`vcpus` are facts about the guests while tracing was on, whatever was masked or dropped.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

from tracelib.store import fsops
from tracelib.units import CpuId
from xtraced.sources.sim import guests
from xtraced.sources.sim.engine import Engine, Vcpu
from xtraced.sources.sim.hypervisor import Hypervisor
from xtraced.sources.sim.options import SimOptions, argv

SCHEMA = 1


def truth(options: SimOptions, hypervisor: Hypervisor, engine: Engine | None) -> dict[str, Any]:
    """Everything, ready for JSON; numbers of CPUs, exits and calls are strings as keys."""
    return {
        "schema": SCHEMA,
        "options": argv(options),
        "seed": options.seed,
        "tsc_hz": options.tsc_hz,
        "delivered": hypervisor.delivered,
        "cpus": {str(cpu): _cpu(hypervisor, cpu) for cpu in hypervisor.rings},
        "events": _events(hypervisor),
        "vcpus": [] if engine is None else _vcpus(options, engine),
    }


def reset(hypervisor: Hypervisor, engine: Engine | None) -> None:
    """Count anew. Xen's own counts of losses are not touched."""
    hypervisor.delivered = 0
    for ring in hypervisor.rings.values():
        ring.reset_counts()
    if engine is not None:
        for vcpu in _all_vcpus(engine):
            vcpu.reset_counts()


def check(path: Path) -> None:
    """Raises StoreError now if `write` would, as far as that can be known."""
    with fsops.translated("write", path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        # Made and not just asked for: a file system that is read-only tells root then only.
        part, fd = _create_part(path)
        fsops.close(fd, path=part)
        part.unlink()


def write(what: dict[str, Any], path: Path) -> None:
    """Replace the truth file at once. Raises StoreError."""
    with fsops.translated("write", path):
        part, fd = _create_part(path)
        fsops.write_all(fd, encode(what), 0, path=part)
        fsops.close(fd, path=part)
        part.replace(path)


def _create_part(path: Path) -> tuple[Path, int]:
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    return part, fsops.create_exclusive(part)


def encode(what: dict[str, Any]) -> bytes:
    return (json.dumps(what, indent=1) + "\n").encode()


def _cpu(hypervisor: Hypervisor, cpu: CpuId) -> dict[str, int]:
    ring = hypervisor.rings[cpu]
    return {
        "ring_bytes": ring.size,
        "produced": ring.produced,
        "produced_bytes": ring.produced_bytes,
        "inserted": ring.produced - ring.dropped,
        "inserted_bytes": ring.produced_bytes - ring.dropped_bytes,
        "dropped": ring.dropped,
        "reported": ring.reported,
        "forgotten": ring.forgotten,
        "pending": ring.lost,
        "lost_records": ring.lost_marks,
        "wraps": ring.wraps,
        "notified": ring.notified,
    }


def _events(hypervisor: Hypervisor) -> dict[str, dict[str, int]]:
    """By event in hex: produced, and how many of them were dropped."""
    sums: dict[int, list[int]] = {}
    for ring in hypervisor.rings.values():
        for event, (produced, dropped) in ring.events().items():
            both = sums.setdefault(event, [0, 0])
            both[0] += produced
            both[1] += dropped
    return {
        f"{event:05x}": {"produced": produced, "dropped": dropped}
        for event, (produced, dropped) in sorted(sums.items())
    }


def _all_vcpus(engine: Engine) -> list[Vcpu]:
    return [*engine.vcpus, *(cpu.idle for cpu in engine.cpus)]


def _vcpus(options: SimOptions, engine: Engine) -> list[dict[str, Any]]:
    return [_vcpu(options, vcpu) for vcpu in _all_vcpus(engine)]


def _vcpu(options: SimOptions, vcpu: Vcpu) -> dict[str, Any]:
    """Cycles in each runstate from the first to the last change of runstate; exits that
    were followed by an entry, with their cycles on a CPU (`cycles`) and from the exit to the
    entry (`span`); hypercalls, direct and as part of a multicall."""
    calls = vcpu.hypercalls()
    row = vcpu.exit_row
    return {
        "domain": vcpu.domain,
        "vcpu": vcpu.number,
        "kind": ("idle", "pv", "hvm")[vcpu.kind],
        "runstates": {
            "running": vcpu.running, "runnable": vcpu.runnable, "blocked": vcpu.blocked,
        },
        "changes": vcpu.changes,
        "exits": _exits(options, vcpu),
        "open_exit": None if row < 0 else guests.exit_reason(row, options.family),
        "hypercalls": {str(call): direct for call, (direct, _) in enumerate(calls) if direct},
        "subcalls": {str(call): inner for call, (_, inner) in enumerate(calls) if inner},
    }  # fmt: skip


def _exits(options: SimOptions, vcpu: Vcpu) -> dict[str, dict[str, int]]:
    """By the vendor's reason; rows that share one are added."""
    sums: dict[str, dict[str, int]] = {}
    for row, (count, cycles, span) in enumerate(vcpu.exits()):
        if count == 0:
            continue
        reason = str(guests.exit_reason(row, options.family))
        total = sums.setdefault(reason, {"count": 0, "cycles": 0, "span": 0})
        total["count"] += count
        total["cycles"] += cycles
        total["span"] += span
    return sums
