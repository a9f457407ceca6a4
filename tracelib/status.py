"""What the service says of itself: the answer to `status`, one dataclass a component.

The JSON that `xtracectl status --json` prints is `dataclasses.asdict` of `Status`. Times
are CLOCK_REALTIME nanoseconds, durations nanoseconds, sizes bytes. Fields may be added
under the same schema number; a field that changes its meaning raises it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class SourceStatus:
    name: str
    hypervisor: str
    """Name and version, for people."""
    cpu_vendor: str | None
    exit_family: str | None
    tsc_hz: int | None
    tsc_source: str | None
    ring_pages_wanted: int
    ring_pages: int


@dataclass(frozen=True, slots=True)
class MaskStatus:
    """Event masks as Xen's numbers; CPU sets as text ("all", "0-3,7")."""

    events_wanted: int
    events: int
    cpus_wanted: str
    cpus: str


@dataclass(frozen=True, slots=True)
class CpuStatus:
    cpu: int
    ring_bytes: int
    """Data size of its ring; 0 if it has no buffer."""
    fill: int
    """Bytes waiting in the ring now."""
    high_water: int
    """Most bytes ever found waiting by a drain."""
    records: int
    """Records drained in this run: lost records count, wrap fillers do not."""
    bytes: int
    lost: dict[str, int]
    """Records lost by cause (tracelib.losses.Cause)."""
    lost_unknown: list[str]
    """Causes by which records were lost whose number nobody can know."""
    last_drain: int | None
    last_wake: str | None
    """Why the last drain happened: "start", "event", "timer", "command", "stop"."""
    trouble: str | None
    """Why this CPU is set aside, e.g. impossible indexes, or "no buffer"."""


@dataclass(frozen=True, slots=True)
class WakeStatus:
    """Why the collector woke, how often. `missed` counts timer wakes that found a ring at
    least half full without an event: many of them and no events mean a dead notifier."""

    event: int
    timer: int
    command: int
    missed: int


@dataclass(frozen=True, slots=True)
class PoolStatus:
    buffers: int
    buffer_bytes: int
    free: int
    stalled_since: int | None
    """Since when the disk is slower than the rings; None if it is not."""
    stalled: int
    """Total time that the rings waited for a free buffer, in this run."""


@dataclass(frozen=True, slots=True)
class Latency:
    p50: int
    p99: int
    max: int


@dataclass(frozen=True, slots=True)
class WriterStatus:
    direct: bool | None
    """O_DIRECT in use; None before the first write."""
    direct_reason: str
    queued: int
    """Staging buffers waiting for the writer, the one being written included."""
    writes: int
    bytes: int
    sizes: dict[str, int]
    """Writes by size: the largest power of two not above it, to the number of writes."""
    latency: Latency | None
    """Of the last 1024 writes; None before the first."""
    busy_since: int | None
    """Start of the write in flight; None if none is."""
    last_error: str | None
    last_error_at: int | None
    failing_since: int | None
    """Since when nothing could be stored; None if the last write succeeded."""
    failed_blocks: int
    failed_records: int


@dataclass(frozen=True, slots=True)
class StoreStatus:
    directory: str
    segments: int
    """Sealed segments plus the open one."""
    bytes: int
    oldest: int | None
    """Creation time of the oldest segment."""
    open_segment: str | None
    open_bytes: int
    max_bytes: int
    keep_free: int
    max_age: int
    max_segments: int
    """Limits in force; 0 means none."""
    free_bytes: int | None
    """What the file system has left for the service."""
    acting: str | None
    """The limit that deleted a segment last: "max_bytes", "keep_free", "max_age" or
    "max_segments"."""
    deleted_segments: int
    deleted_records: int
    deleted_bytes: int


@dataclass(frozen=True, slots=True)
class LedgerStatus:
    """All runs of the service in this store together, by the store's ledger and its open
    segment: produced = records - lost_marks + lost."""

    since: int
    """When the oldest segment that it counts was created."""
    rebuilt: bool
    """Whether what had been deleted before `since` is missing from it."""
    records: int
    """Stored, and maybe deleted since; lost records count."""
    lost_marks: int
    """Lost records among them."""
    lost: dict[str, int]
    lost_unknown: list[str]
    deleted_segments: int
    deleted_records: int
    """Deleted by retention."""
    deleted_bytes: int


@dataclass(frozen=True, slots=True)
class Status:
    state: str
    """ "starting", "collecting", "paused", "degraded" or "stopping"."""
    healthy: bool
    reasons: list[str]
    """Why it is degraded or paused, a sentence each."""
    version: str
    compiled: bool
    """Whether the inner loop runs compiled."""
    pid: int
    started_at: int
    uptime: int
    records: int
    bytes: int
    lost: dict[str, int]
    lost_unknown: list[str]
    source: SourceStatus
    masks: MaskStatus
    cpus: list[CpuStatus]
    wakes: WakeStatus
    pool: PoolStatus
    writer: WriterStatus
    store: StoreStatus
    ledger: LedgerStatus
    schema: int = field(default=SCHEMA)
