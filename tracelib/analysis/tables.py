# cython: annotation_typing=False
"""Counters by a pair of numbers: the one data structure of the analysis.

A hash table from two 64-bit keys to a row of 64-bit counters. It grows as it fills, up to
a limit; what finds no room after that is added up in row 0, so that memory is bounded and
no total is ever wrong. Rows never move, so their numbers can be kept.

Compiled with the types in tables.pxd; uncompiled it gives the same rows in the same order.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from tracelib.analysis import bits

COMPILED = not __file__.endswith((".py", ".pyc"))
"""Whether this module runs as C."""

OTHERS = 0
"""The row of everything that found no room."""

# C constants when compiled, by their types in tables.pxd.
_FACTOR = 0x9E3779B97F4A7C15
_ALL_BITS = 0xFFFFFFFFFFFFFFFF
_FIRST_BITS = 6
_EXACT_BITS = 7
_STEP_BITS = 6


class Table:
    """`columns` counters for each pair of keys, for at most `limit` pairs."""

    def __init__(self, columns: int, limit: int) -> None:
        self.columns = columns
        self.limit = limit
        self.rows = 1
        """How many rows there are, row 0 included."""
        self.refused = 0
        """How often a pair found no room."""
        self._bits = _FIRST_BITS
        self._mask = (1 << _FIRST_BITS) - 1
        self._slots = memoryview(array("I", bytes(4 << _FIRST_BITS)))
        self._room = 1 << (_FIRST_BITS - 1)
        self._keys = memoryview(array("Q", bytes(16 * self._room)))
        self.values = memoryview(array("Q", bytes(8 * columns * self._room)))
        """Row after row."""

    def row(self, high: int, low: int) -> int:
        """The row of these keys, new or old; OTHERS if there is no room for a new one."""
        at = self._start(high, low)
        while True:
            row = self._slots[at]
            if row == 0:
                return self._add(high, low, at)
            if self._keys[2 * row] == high and self._keys[2 * row + 1] == low:
                return row
            at = (at + 1) & self._mask

    def add(self, row: int, column: int, amount: int) -> None:
        """Add to a counter."""
        self.values[row * self.columns + column] += amount

    def raise_to(self, row: int, column: int, amount: int) -> None:
        """Make a counter that keeps a maximum at least so high."""
        at = row * self.columns + column
        if self.values[at] < amount:
            self.values[at] = amount

    def keys(self, row: int) -> tuple[int, int]:
        """What a row is for."""
        return self._keys[2 * row], self._keys[2 * row + 1]

    def zero(self, column: int) -> None:
        """Set one counter of every row to 0; rows keep their keys and numbers."""
        at = column
        end = self.rows * self.columns
        while at < end:
            self.values[at] = 0
            at += self.columns

    def items(self) -> Iterator[tuple[int, int, list[int]]]:
        """Keys and counters of each row in the order they came, row 0 left out."""
        keys, values = memoryview(self._keys).tolist(), memoryview(self.values).tolist()
        for row in range(1, self.rows):
            start = row * self.columns
            yield keys[2 * row], keys[2 * row + 1], values[start : start + self.columns]

    def others(self) -> list[int]:
        """The counters of row 0."""
        return memoryview(self.values).tolist()[: self.columns]

    def _start(self, high: int, low: int) -> int:
        mixed = (high * _FACTOR & _ALL_BITS) ^ low
        mixed ^= mixed >> 29
        mixed = mixed * _FACTOR & _ALL_BITS
        return mixed >> (64 - self._bits)

    def _add(self, high: int, low: int, at: int) -> int:
        if self.rows > self.limit:
            self.refused += 1
            return OTHERS
        if self.rows == self._room:
            self._grow()
            at = self._free(high, low)
        row = self.rows
        self.rows += 1
        self._slots[at] = row
        self._keys[2 * row] = high
        self._keys[2 * row + 1] = low
        return row

    def _free(self, high: int, low: int) -> int:
        """The empty slot where these keys belong."""
        at = self._start(high, low)
        while self._slots[at] != 0:
            at = (at + 1) & self._mask
        return at

    def _grow(self) -> None:
        """Twice the room; half of the slots stay empty, so that searches stay short."""
        self._bits += 1
        self._mask = (1 << self._bits) - 1
        self._room *= 2
        self._slots = memoryview(array("I", bytes(4 << self._bits)))
        self._keys = _doubled(self._keys)
        self.values = _doubled(self.values)
        for row in range(1, self.rows):
            at = self._free(self._keys[2 * row], self._keys[2 * row + 1])
            self._slots[at] = row


def _doubled(words: memoryview) -> memoryview:
    """The same numbers, and as many zeros behind them."""
    longer = memoryview(array("Q", bytes(16 * len(words))))
    longer[: len(words)] = words
    return longer


def bucket(value: int) -> int:
    """The number of the histogram bucket that a value falls into.

    Values below 128 have a bucket each; from there on 64 buckets share each power of two,
    so that a bucket is never wider than 1/64 of its values.
    """
    shift = bits.length(value) - _EXACT_BITS
    return value if shift <= 0 else (shift << _STEP_BITS) + (value >> shift)


def note(table: Table, series: int, value: int) -> None:
    """Count a value in a series' histogram, which is rows of (series, bucket)."""
    table.add(table.row(series, bucket(value)), 0, 1)
