"""Gaps: places in the stream where records are missing, whoever says so.

Xen says it by a lost record in the stream, a segment in a loss block beside the records.
The latter become rows of the stream too, so that every format shows them in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracelib.clock import Clock
from tracelib.columns import NOBODY_KNOWN, Columns, Flag, Mask
from tracelib.losses import Cause, Loss
from tracelib.records import LOST_RECORDS, parse_lost
from tracelib.units import CpuId, Tsc

STATED_LOSS = 0x0000FFFF
"""The event of a row that stands for a stated loss; without class bits it is nobody else's.
Its one extra word is the index in the list of losses."""

MALFORMED = "malformed lost record"


@dataclass(frozen=True, slots=True)
class Gap:
    """Records of one CPU that are missing."""

    cpu: CpuId
    cause: Cause
    records: int | None
    """None where nobody can know."""
    first_tsc: Tsc | None
    """When the first one was lost; None if unknown."""
    last_tsc: Tsc | None
    detail: str = ""
    cut: bool = False
    """Only a part of the gap lies in the time that was asked for: how many records of it
    do, is unknown, and `records` is that of the whole gap."""


def gap_rows(batch: Columns) -> Mask:
    """Which rows are gaps."""
    rows: Mask = (batch.event == LOST_RECORDS) | (batch.event == STATED_LOSS)
    return rows


def gap_at(batch: Columns, row: int, stated: Sequence[Loss]) -> Gap:
    """The gap that a row says."""
    extra = tuple(batch.words[batch.at[row] : batch.at[row] + batch.extra[row]].tolist())
    cpu = CpuId(int(batch.cpu[row]))
    if batch.event[row] == STATED_LOSS:
        loss = stated[extra[0]]
        return Gap(cpu, loss.cause, loss.records, loss.first_tsc, loss.last_tsc, loss.detail)
    last = Tsc(int(batch.tsc[row])) if batch.flags[row] & Flag.DATED else None
    lost = parse_lost(extra)
    cause = Cause.QUEUE_FULL if batch.flags[row] & Flag.QUEUE_FULL else Cause.RING_FULL
    if lost is None:
        return Gap(cpu, cause, None, None, last, MALFORMED)
    return Gap(cpu, cause, lost.count, lost.first_tsc or None, last)


def stated_rows(losses: Sequence[Loss], clock: Clock) -> Columns:
    """Stated losses as rows of the stream, in time order, for tracelib.merge."""
    times = [place_of(loss, clock) for loss in losses]
    order = sorted(range(len(losses)), key=lambda index: times[index] or 0)
    count = len(losses)
    tsc = np.array([times[index] or 0 for index in order], np.uint64)
    dated = np.array([times[index] is not None for index in order], np.uint8)
    words = np.zeros(count + 7, np.uint32)
    words[:count] = order
    return Columns(
        np.full(count, STATED_LOSS, np.uint32),
        np.array([losses[index].cpu for index in order], np.uint16),
        tsc, tsc,
        np.full(count, NOBODY_KNOWN, np.uint32),
        np.ones(count, np.uint8),
        dated * np.uint8(Flag.DATED),
        np.arange(count), words,
    )


def place_of(loss: Loss, clock: Clock) -> Tsc | None:
    """Where in the stream a loss belongs: at its end, as a lost record is. None if nothing
    tells."""
    known = loss.last_tsc or loss.first_tsc
    if known is None and loss.at is not None and clock.dated:
        return clock.tsc_at_realtime(loss.at)
    return known
