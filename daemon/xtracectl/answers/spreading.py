"""How many points are how long, or have which value: in bounded memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from heapq import nlargest
from itertools import count

import numpy as np

from tracelib.analysis.results import Spread
from tracelib.clock import Rate
from tracelib.columns import I64, U64

MAX_VALUES = 1 << 16
"""So many values of a group are told apart."""

_EXACT_BITS, _STEP_BITS, _LONGEST_BITS = 6, 5, 48
_LAST_BUCKET = ((_LONGEST_BITS - _STEP_BITS + 1) << _STEP_BITS) - 1
_NANOSECOND = 10**9
_MOST = (1 << 64) - 1


class Bins:
    """Where bars end: 1, 2, 5, 10 and so on nanoseconds, or cycles if the rate is unknown."""

    def __init__(self, rate: Rate | None) -> None:
        self.starts: list[int] = [0]
        """In nanoseconds or cycles."""
        edges = [0]
        for power in count():
            for digit in (1, 2, 5):
                start = digit * 10**power
                cycles = start if rate is None else -(-start * rate.hz // _NANOSECOND)
                if cycles > _MOST:
                    self._edges = np.array(edges, np.uint64)
                    return
                self.starts.append(start)
                edges.append(cycles)

    def count(self, values: U64) -> I64:
        """How many fall into each; in cycles."""
        places = np.searchsorted(self._edges, values, side="right") - 1
        return np.bincount(places, minlength=len(self.starts)).astype(np.int64)


@cache
def bins_of(rate: Rate | None) -> Bins:
    """Those of a clock."""
    return Bins(rate)


@dataclass(slots=True)
class Group:
    """Durations."""

    rate: Rate | None
    spread: Spread = field(default_factory=Spread)
    bins: Bins = field(init=False)
    counts: I64 = field(init=False)
    """By the bins."""

    def __post_init__(self) -> None:
        self.bins = bins_of(self.rate)
        self.counts = np.zeros(len(self.bins.starts), np.int64)

    @property
    def weight(self) -> int:
        return self.spread.sum

    def add(self, values: U64) -> None:
        """More of them, in cycles; at least one."""
        self.counts += self.bins.count(values)
        numbers, counts = np.unique(buckets_of(values), return_counts=True)
        found = Counter(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
        self.spread.add(Spread(len(values), _sum(values), int(values.max()), found))


@dataclass(slots=True)
class Values:
    """Values that are no durations."""

    number: int = 0
    least: int = _MOST
    most: int = 0
    others: int = 0
    """Of values that came when MAX_VALUES others were known."""
    _counts: Counter[int] = field(default_factory=Counter)

    @property
    def weight(self) -> int:
        return self.number

    @property
    def distinct(self) -> int:
        """How many values are told apart."""
        return len(self._counts)

    def add(self, values: U64) -> None:
        """More of them, at least one."""
        self.number += len(values)
        self.least = min(self.least, int(values.min()))
        self.most = max(self.most, int(values.max()))
        for value, number in zip(*map(np.ndarray.tolist, _counted(values)), strict=True):
            if value in self._counts or len(self._counts) < MAX_VALUES:
                self._counts[value] += number
            else:
                self.others += number

    def top(self, number: int) -> list[tuple[int, int]]:
        """The most frequent values, with their numbers; the smallest first among equals."""
        return nlargest(number, self._counts.items(), key=lambda item: (item[1], -item[0]))


def _counted(values: U64) -> tuple[U64, I64]:
    found, counts = np.unique(values, return_counts=True)
    return found, counts.astype(np.int64)


def _sum(values: U64) -> int:
    """Exactly, although the sum may need more than 64 bits."""
    low = int((values & np.uint64(0xFFFFFFFF)).sum())
    return low + (int((values >> np.uint64(32)).sum()) << 32)


def buckets_of(values: U64) -> I64:
    """`tracelib.analysis.histograms.bucket` of many."""
    capped = np.minimum(values, np.uint64(1 << _LONGEST_BITS)).astype(np.int64)
    # frexp's exponent is the number of bits: exact below 2^53.
    bits = np.frexp(capped.astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(bits - _EXACT_BITS, 0)
    return np.minimum((shift << _STEP_BITS) + (capped >> shift), _LAST_BUCKET)
