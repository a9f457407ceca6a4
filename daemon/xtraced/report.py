"""The answer to `status`: every component's statistics in one, and what they mean.

Nothing here waits or touches the disk: status answers with the disk frozen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tracelib.cpulist import format_cpu_list
from tracelib.losses import Cause
from tracelib.masks import passes
from tracelib.ring import fastpath
from tracelib.status import (
    CpuStatus,
    LedgerStatus,
    MaskStatus,
    PoolStatus,
    SourceStatus,
    Status,
    StoreStatus,
    WriterStatus,
)
from tracelib.units import CpuId, Nanoseconds, format_duration
from tracelib.version import VERSION
from xtraced.clock import Clock
from xtraced.collector import Collector
from xtraced.masking import MaskKeeper
from xtraced.sources import RUNSTATE_CHANGE, Source
from xtraced.staging import StagingPool

STALL_IS_TROUBLE = 1_000_000_000
"""A write, or a disk slower than the rings, for more than a second (ns) makes the service
degraded."""

MISSED_IS_TROUBLE = 3
"""So many rings found half full by the timer, and never an event: the notifier is dead."""

SILENCE = 10_000_000_000
"""No record on any CPU for so long (ns), with a ring set aside, is suspicious."""

QUIET = 60_000_000_000
"""No record at all for so long (ns) is suspicious by itself, if the scheduler is traced."""

NO_BUFFER = "no buffer"


@dataclass(frozen=True, slots=True)
class Run:
    """What the service knows of itself."""

    started_at: Nanoseconds
    started: Nanoseconds
    """The same moment on the monotonic clock."""
    phase: str
    """ "starting", "collecting", "paused" or "stopping"."""
    ring_pages_wanted: int
    tsc_hz: int | None
    tsc_source: str | None
    masks: MaskKeeper


def report(
    run: Run, source: Source, collector: Collector, pool: StagingPool, writer: WriterStatus,
    store: StoreStatus, ledger: LedgerStatus, failed: Mapping[int, int], *, clock: Clock,
) -> Status:
    """The whole status, as of now."""
    cpus = [_with_failed(account.status(), failed) for account in collector.accounts]
    stalled = collector.shortage.stalled_for
    now = clock.realtime()
    pool_status = PoolStatus(
        buffers=pool.buffers,
        buffer_bytes=pool.buffer_bytes,
        free=pool.free,
        stalled_since=None if stalled is None else now - stalled,
        stalled=collector.shortage.waited,
    )
    wakes = collector.wake_status()
    newest = max((account.last_data or 0 for account in collector.accounts), default=0)
    reasons = [
        *_storage_trouble(writer, stalled, now),
        *(f"CPU {cpu.cpu} is set aside: {cpu.trouble}" for cpu in cpus if cpu.trouble),
    ]
    if any(cpu.trouble for cpu in cpus) and now - max(newest, run.started_at) > SILENCE:
        # Xen switches tracing off host-wide when it sees an impossible consumer index.
        reasons.append("nothing has moved since: tracing was probably stopped by Xen")
    if run.phase == "collecting":
        reasons += _nothing_comes(run, source, now - max(newest, run.started_at))
    if wakes.event == 0 and wakes.missed >= MISSED_IS_TROUBLE:
        reasons.append(f"0 events while rings crossed half ({wakes.missed} times): timer only")
    state = run.phase
    if reasons and state == "collecting":
        state = "degraded"
    hypervisor = source.hypervisor
    return Status(
        state=state,
        healthy=state == "collecting",
        reasons=reasons,
        version=VERSION,
        compiled=fastpath.COMPILED,
        pid=os.getpid(),
        started_at=run.started_at,
        uptime=clock.monotonic() - run.started,
        records=sum(cpu.records for cpu in cpus),
        bytes=sum(cpu.bytes for cpu in cpus),
        lost=_sum_lost(cpus),
        lost_unknown=sorted({cause for cpu in cpus for cause in cpu.lost_unknown}),
        source=SourceStatus(
            name=hypervisor.name,
            hypervisor=" ".join(filter(None, (hypervisor.name, hypervisor.version))),
            cpu_vendor=hypervisor.cpu_vendor,
            exit_family=hypervisor.exit_family,
            tsc_hz=run.tsc_hz,
            tsc_source=run.tsc_source,
            ring_pages_wanted=run.ring_pages_wanted,
            ring_pages=source.ring_pages,
        ),
        masks=mask_status(run),
        cpus=sorted([*cpus, *_without_buffer(source)], key=lambda cpu: cpu.cpu),
        wakes=wakes,
        pool=pool_status,
        writer=writer,
        store=store,
        ledger=ledger,
    )


def mask_status(run: Run) -> MaskStatus:
    """The masks asked for and in force."""
    return MaskStatus(
        events_wanted=run.masks.wanted.events,
        events=run.masks.in_force.events,
        cpus_wanted=format_cpu_list(run.masks.wanted.cpus),
        cpus=format_cpu_list(run.masks.in_force.cpus),
    )


def _storage_trouble(
    writer: WriterStatus, stalled: Nanoseconds | None, now: Nanoseconds
) -> Iterable[str]:
    if writer.failing_since is not None:
        lasted = format_duration(now - writer.failing_since)
        yield f"nothing could be stored for {lasted}: {writer.last_error}"
    busy_since = writer.busy_since
    if busy_since is not None and now - busy_since > STALL_IS_TROUBLE:
        yield f"disk stalled: a write has been in flight for {format_duration(now - busy_since)}"
    if stalled is not None and stalled > STALL_IS_TROUBLE:
        yield (
            f"the disk is slower than the rings: they have been waiting for staging buffers "
            f"for {format_duration(stalled)}"
        )


def _nothing_comes(run: Run, source: Source, silent_for: int) -> Iterable[str]:
    """R10: health is progress. Why no records can come, or that none have."""
    traced = run.masks.in_force.cpus
    if not run.masks.ours:
        yield f"another program changed the masks: {run.masks.in_force.events:#010x} is in force"
    if run.masks.in_force.events == 0:
        yield "the event mask lets nothing through"
    elif traced is not None and not any(ring.cpu in traced for ring in source.rings):
        yield "the CPU mask names no CPU that has a ring"
    elif silent_for > QUIET and passes(run.masks.in_force.events, RUNSTATE_CHANGE):
        # Schedulers are never quiet for so long, not even on an idle host.
        yield f"no record on any CPU for {format_duration(silent_for)}: is tracing still on?"


def _with_failed(cpu: CpuStatus, failed: Mapping[int, int]) -> CpuStatus:
    count = failed.get(cpu.cpu)
    return replace(cpu, lost={**cpu.lost, str(Cause.WRITE_FAILED): count}) if count else cpu


def _sum_lost(cpus: Iterable[CpuStatus]) -> dict[str, int]:
    total: dict[str, int] = {}
    for cpu in cpus:
        for cause, count in cpu.lost.items():
            total[cause] = total.get(cause, 0) + count
    return total


def _without_buffer(source: Source) -> list[CpuStatus]:
    """CPUs that exist in the numbering but have no ring (R22)."""
    have = {ring.cpu for ring in source.rings}
    return [
        CpuStatus(
            cpu=cpu, ring_bytes=0, fill=0, high_water=0, records=0, bytes=0, lost={},
            lost_unknown=[], last_drain=None, last_wake=None, trouble=NO_BUFFER,
        )
        for cpu in map(CpuId, range(source.hypervisor.cpus)) if cpu not in have
    ]
