"""Every way to lose a record: its cause, its count, its place in the stream (design: loss is data)."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tracelib.units import CpuId, Nanoseconds, Tsc


class Cause(enum.StrEnum):
    """Why records are missing. Retention is deliberate, so it is counted but is not a loss."""

    RING_FULL = "ring_full"
    """Xen had no room in the ring and said so in a lost record."""
    QUEUE_FULL = "queue_full"
    """Xen had no room because every staging buffer waited for the disk."""
    RING_CORRUPT = "ring_corrupt"
    """Indexes or records in the ring were impossible."""
    WRITE_FAILED = "write_failed"
    """Drained, but the store did not take them."""
    CRASH = "crash"
    """Drained by a service that died before they were stored."""
    TAIL_UNKNOWN = "tail_unknown"
    """The ring was full when tracing was switched off; Xen forgets that count."""
    RETENTION = "retention"
    """Deleted with their segment to stay within the store's limits."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Records of one CPU that are missing from the stream."""

    cause: Cause
    cpu: CpuId
    records: int | None
    """How many; None where nobody can know."""
    bytes: int | None = None
    first_tsc: Tsc | None = None
    last_tsc: Tsc | None = None
    at: Nanoseconds | None = None
    """CLOCK_REALTIME when it was noticed."""
    detail: str = ""
