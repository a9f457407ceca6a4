"""Why records are missing. Apart from `losses`, so that `status` starts without dataclasses."""

from __future__ import annotations

import enum
from collections.abc import Mapping


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
    DAMAGED = "damaged"
    """Stored, and then damaged on the disk; only a repaired segment states it."""
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
