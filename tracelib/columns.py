"""Records as columns: one numpy array for each thing that every record has.

tracelib.batches makes them from chunks, tracelib.merge puts those of several CPUs in one
order. Wrap fillers and cpu_change records are not among them; lost records are.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

U8: TypeAlias = npt.NDArray[np.uint8]
U16: TypeAlias = npt.NDArray[np.uint16]
U32: TypeAlias = npt.NDArray[np.uint32]
U64: TypeAlias = npt.NDArray[np.uint64]
I64: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

MAX_EXTRA = 7

NOBODY_KNOWN = 0xFFFFFFFF



class Flag(enum.IntFlag):
    """What is known of one record beside its own words."""

    TIMED = 1
    """It carries a TSC of its own; else `tsc` is that of the last record on its CPU with one."""
    DATED = 2
    """`tsc` is known: not an untimed record before the first timed one of its CPU."""
    BEFORE_START = 4
    """It lay in the ring before the service started."""
    QUEUE_FULL = 8
    """What it tells, if it is a lost record, was lost because the service had no buffer."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Records in some order, one element a record in every array but `words`."""

    event: U32
    """28-bit event id."""
    cpu: U16
    tsc: U64
    """Own TSC, or the last one on that CPU; 0 if not even that is known."""
    key: U64
    """What time order is by: the highest TSC so far on that CPU, so it never goes back; 0
    where `tsc` is not known."""
    running: U32
    """Who ran on that CPU: domain << 16 | vCPU, or NOBODY_KNOWN. At a switch, the record of
    the one that leaves still counts as his, the record of the one that comes as his own."""
    extra: U8
    """Number of extra words."""
    flags: U8
    at: I64
    """Where the record's extra words start in `words`."""
    words: U32
    """The payload words of the batch, padded so that all seven words at `at` are inside."""

    def __len__(self) -> int:
        return len(self.event)

    def word(self, index: int, rows: Mask | I64 | slice = slice(None)) -> U32:
        """Extra word `index` of the given rows. Rows with fewer words give rubbish, which
        is why callers select by `extra` first."""
        return self.words[self.at[rows] + index]

    def wide(self, index: int, rows: Mask | I64 | slice = slice(None)) -> U64:
        """The 64-bit value in extra words `index` (low) and `index + 1` (high)."""
        at = self.at[rows] + index
        high = self.words[at + 1].astype(np.uint64)
        return high << np.uint64(32) | self.words[at]

    def cut(self, start: int, stop: int) -> Self:
        """Rows start..stop with only the words they need; for batches still in file order."""
        low = int(self.at[start]) if stop > start else 0
        high = int(self.at[stop - 1]) + MAX_EXTRA if stop > start else 0
        part = self.take(slice(start, stop))
        return replace(part, at=part.at - low, words=self.words[low:high])

    def take(self, rows: Mask | I64 | slice) -> Self:
        """The selected rows; `words` is shared."""
        return type(self)(
            self.event[rows], self.cpu[rows], self.tsc[rows], self.key[rows], self.running[rows],
            self.extra[rows], self.flags[rows], self.at[rows], self.words,
        )

    def ordered(self, order: I64) -> Self:
        """All rows in another order; faster than `take`."""
        return type(self)(
            self.event.take(order), self.cpu.take(order), self.tsc.take(order),
            self.key.take(order), self.running.take(order), self.extra.take(order),
            self.flags.take(order), self.at.take(order), self.words,
        )


def gathered(batch: Columns) -> Columns:
    """The same rows with words of their own, for keeping few rows of a large batch."""
    places = batch.at[:, None] + np.arange(MAX_EXTRA)
    at = np.arange(0, MAX_EXTRA * len(batch), MAX_EXTRA)
    return replace(batch, at=at, words=batch.words[places].ravel())


def concatenate(parts: list[Columns]) -> Columns:
    """One batch of several; the rows keep their order."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part.words) for part in parts)])
    return Columns(
        np.concatenate([part.event for part in parts]),
        np.concatenate([part.cpu for part in parts]),
        np.concatenate([part.tsc for part in parts]),
        np.concatenate([part.key for part in parts]),
        np.concatenate([part.running for part in parts]),
        np.concatenate([part.extra for part in parts]),
        np.concatenate([part.flags for part in parts]),
        np.concatenate([part.at + start for part, start in zip(parts, starts, strict=False)]),
        np.concatenate([part.words for part in parts]),
    )
