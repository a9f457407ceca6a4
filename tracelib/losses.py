"""Every way to lose a record: its cause, its count, its place in the stream."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
    DISCARDED = "discarded"
    """Lay in the ring when a service started that was told not to keep them."""
    NOT_TRACED = "not_traced"
    """Switched off on purpose, by a pause or a mask; no loss, but nobody knows what happened."""
    RETENTION = "retention"
    """Deleted with their segment to stay within the store's limits."""


DRAINED_FIRST = frozenset({Cause.WRITE_FAILED})
"""Causes whose records were drained by the run that lost them, and counted as such. All
other causes keep records from ever being drained."""


def produced(drained: int, lost: Mapping[str, int]) -> int:
    """How many records there were to collect in a run that drained so many and lost these,
    by cause: what a share of losses is a share of.

    Xen's lost records count as drained; there is one for many that they tell of.
    """
    return drained + sum(count for cause, count in lost.items() if cause not in DRAINED_FIRST)


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


def merge_losses(losses: Sequence[Loss]) -> list[Loss]:
    """Join losses of the same cause, CPU and detail, so that a long failure stays small."""
    merged: dict[tuple[Cause, CpuId, str], Loss] = {}
    for loss in losses:
        key = loss.cause, loss.cpu, loss.detail
        before = merged.get(key)
        merged[key] = loss if before is None else _join(before, loss)
    return list(merged.values())


def _join(before: Loss, after: Loss) -> Loss:
    return replace(
        before,
        records=_add(before.records, after.records),
        bytes=_add(before.bytes, after.bytes),
        first_tsc=before.first_tsc or after.first_tsc,
        last_tsc=after.last_tsc or before.last_tsc,
        at=after.at,
    )


def _add(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right
