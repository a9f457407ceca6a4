# cython: annotation_typing=False, initializedcheck=False
"""Counters by a pair of numbers: the one data structure of the analysis.

A hash table from two 64-bit keys to a row of 64-bit counters. It grows as it fills, up to
a limit; what finds no room after that is added up in row 0, so that memory is bounded and
no total is ever wrong. Rows never move, so their numbers can be kept.

Compiled with the types in tables.pxd; uncompiled it gives the same rows in the same order.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from tracelib.analysis import codes

COMPILED = not __file__.endswith((".py", ".pyc"))
"""Whether this module runs as C."""

# C constants when compiled, by their types in tables.pxd.
_FACTOR = 0x9E3779B97F4A7C15
_ALL_BITS = 0xFFFFFFFFFFFFFFFF
_FIRST_BITS = 6


class Table:
    """`columns` counters for each pair of keys, for at most `limit` pairs."""

    def __init__(self, columns: int, limit: int) -> None:
        self.columns = columns
        self.limit = limit
        self.rows = 1
        """How many rows there are, row 0 included."""
        self.stride = codes.KEYS + columns
        self._bits = _FIRST_BITS
        self._mask = (1 << _FIRST_BITS) - 1
        self._slots = memoryview(array("I", bytes(4 << _FIRST_BITS)))
        self._room = 1 << (_FIRST_BITS - 2)
        self.cells = memoryview(array("Q", bytes(8 * self.stride * self._room)))
        """Row after row: the two keys and the counters, so that they share a cache line."""

    def row(self, high: int, low: int) -> int:
        """The row of these keys, new or old; OTHERS if there is no room for a new one."""
        at = self._start(high, low)
        while True:
            row = self._slots[at]
            if row == codes.OTHERS:
                return self._add(high, low, at)
            place = row * self.stride
            if self.cells[place] == high and self.cells[place + 1] == low:
                return row
            at = (at + 1) & self._mask

    def add(self, row: int, column: int, amount: int) -> None:
        """Add to a counter."""
        self.cells[row * self.stride + codes.KEYS + column] += amount

    def raise_to(self, row: int, column: int, amount: int) -> None:
        """Make a counter that keeps a maximum at least so high."""
        at = row * self.stride + codes.KEYS + column
        if self.cells[at] < amount:
            self.cells[at] = amount

    def zero(self, column: int) -> None:
        """Set one counter of every row to 0; rows keep their keys and numbers."""
        for row in range(self.rows):
            self.cells[row * self.stride + codes.KEYS + column] = 0

    def keys(self, row: int) -> tuple[int, int]:
        """What a row is for."""
        place = row * self.stride
        return self.cells[place], self.cells[place + 1]

    def items(self) -> Iterator[tuple[int, int, list[int]]]:
        """Keys and counters of each row in the order they came, row 0 left out."""
        cells = memoryview(self.cells)[self.stride : self.rows * self.stride].tolist()
        columns = (cells[column :: self.stride] for column in range(self.stride))
        for high, low, *counters in zip(*columns, strict=True):
            yield high, low, counters

    def others(self) -> list[int]:
        """The counters of row 0."""
        return memoryview(self.cells)[codes.KEYS : self.stride].tolist()

    def _start(self, high: int, low: int) -> int:
        mixed = (high * _FACTOR & _ALL_BITS) ^ low
        mixed ^= mixed >> 29
        mixed = mixed * _FACTOR & _ALL_BITS
        return mixed >> (64 - self._bits)

    def _add(self, high: int, low: int, at: int) -> int:
        if self.rows > self.limit:
            return codes.OTHERS
        if self.rows == self._room:
            self._grow()
            at = self._free(high, low)
        row = self.rows
        self.rows += 1
        self._slots[at] = row
        self.cells[row * self.stride] = high
        self.cells[row * self.stride + 1] = low
        return row

    def _free(self, high: int, low: int) -> int:
        """The empty slot where these keys belong."""
        at = self._start(high, low)
        while self._slots[at] != codes.OTHERS:
            at = (at + 1) & self._mask
        return at

    def _grow(self) -> None:
        """Twice the room; three in four slots stay empty, so that searches stay short."""
        self._bits += 1
        self._mask = (1 << self._bits) - 1
        self._room *= 2
        self._slots = memoryview(array("I", bytes(4 << self._bits)))
        longer = memoryview(array("Q", bytes(8 * self.stride * self._room)))
        longer[: len(self.cells)] = self.cells
        self.cells = longer
        for row in range(1, self.rows):
            place = row * self.stride
            self._slots[self._free(self.cells[place], self.cells[place + 1])] = row
