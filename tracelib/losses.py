"""Every way to lose a record: its cause, its count, its place in the stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracelib.causes import Cause
from tracelib.units import CpuId, Nanoseconds, Tsc

__all__ = ["Cause", "Loss", "merge_losses"]


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
