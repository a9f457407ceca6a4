# cython: annotation_typing=False, initializedcheck=False
"""Histograms of durations: bounded in memory, with a bound on how wrong a percentile can be.

Values below 64 have a bucket each; from there on 32 buckets share each power of two, so a
bucket is never wider than 1/32 of its values. What is 2**48 or more is in the last bucket.

Compiled with the types in histograms.pxd.
"""

from __future__ import annotations

from array import array

from tracelib.analysis import bits, codes

# C constants when compiled, by their types in histograms.pxd.
_EXACT_BITS = 6
_STEP_BITS = 5
_BUCKETS = (codes.LONGEST_BITS - _STEP_BITS + 1) << _STEP_BITS
_FIRST_ROOM = 16
_FULL = 0xFFFFFFFF


class Histograms:
    """As many as `limit`, by numbers from 1 on. Number 0 is where those are counted that
    find no room: it means nothing."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.number = 1
        self._room = _FIRST_ROOM
        self._counts = memoryview(array("I", bytes(4 * _BUCKETS * self._room)))

    def new(self) -> int:
        """The number of a new one; 0 if there is no room."""
        if self.number > self.limit:
            return 0
        if self.number == self._room:
            self._room *= 2
            longer = memoryview(array("I", bytes(4 * _BUCKETS * self._room)))
            longer[: len(self._counts)] = self._counts
            self._counts = longer
        self.number += 1
        return self.number - 1

    def note(self, number: int, value: int) -> None:
        """Count a value. A bucket that is full stays so."""
        at = number * _BUCKETS + bucket(value)
        if self._counts[at] != _FULL:
            self._counts[at] += 1

    def zero(self) -> None:
        """Forget all that was counted."""
        for at in range(len(self._counts)):
            self._counts[at] = 0

    def buckets(self, number: int) -> dict[int, int]:
        """The buckets of one that are not empty."""
        counts = memoryview(self._counts)[number * _BUCKETS : (number + 1) * _BUCKETS].tolist()
        return {bucket: count for bucket, count in enumerate(counts) if count}


def bucket(value: int) -> int:
    """The bucket that a value falls into."""
    shift = bits.length(value) - _EXACT_BITS
    if shift <= 0:
        return value
    return min((shift << _STEP_BITS) + (value >> shift), _BUCKETS - 1)


def bucket_middle(bucket: int) -> int:
    """The middle of a bucket's values."""
    if bucket < 1 << _EXACT_BITS:
        return bucket
    shift = (bucket >> _STEP_BITS) - 1
    low = bucket - (shift << _STEP_BITS)
    half = 1
    return (low << shift) + (half << shift) // 2
