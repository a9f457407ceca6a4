# cython: annotation_typing=False, initializedcheck=False
"""The rows of a long table that matter: of many that have the first key in common, those with
the most in some column, and the sum of the others.

A row is tested by the histogram bucket that its number is in, so somewhat more rows are left
than are wanted, and none that is wanted is missing. Compiled with the types in sieve.pxd.
"""

from __future__ import annotations

from tracelib.analysis import codes
from tracelib.analysis.histograms import Histograms, bucket
from tracelib.analysis.tables import Table

# Columns of a row of groups, before the sums. C constants when compiled.
_SIZE = 0
_HISTOGRAM = 1
_LEAST = 2
_LEFT_OUT = 3
_SUMS = 4
_NOTHING_PASSES = 1 << 32


class Sieve:
    """Over a table as it is now. Rows whose first counter is 0 are none."""

    def __init__(self, table: Table, column: int, kept: int) -> None:
        """Of each first key that is to be thinned out at least `kept` rows are left, those
        with the most in `column`."""
        self._table = table
        self._column = column
        self._kept = kept
        self._groups = Table(_SUMS + table.columns, table.limit)
        self._histograms = Histograms(table.limit // max(kept, 1) + 1)
        self._count()

    def sizes(self) -> dict[int, int]:
        """First keys, and how many rows each has."""
        return {high: counters[_SIZE] for high, _, counters in self._groups.items()}

    def thin(self, high: int) -> None:
        """Leave only the first rows of this key."""
        self._groups.add(self._groups.row(high, 0), _HISTOGRAM, self._histograms.new())

    def drop(self, high: int) -> None:
        """Leave nothing of this key."""
        self._groups.add(self._groups.row(high, 0), _LEAST, _NOTHING_PASSES)

    def left(self) -> list[tuple[int, ...]]:
        """Keys and counters of the rows that are left, as they came."""
        self._weigh()
        table, groups = self._table, self._groups
        found = []
        for row in range(1, table.rows):
            place = row * table.stride
            if table.cells[place + codes.KEYS] == 0:
                continue
            group = self._group(row)
            least = groups.cells[group * groups.stride + codes.KEYS + _LEAST]
            if least == _NOTHING_PASSES:
                continue
            if bucket(table.cells[place + codes.KEYS + self._column]) >= least:
                found.append(tuple([table.cells[at] for at in range(place, place + table.stride)]))
            else:
                self._leave_out(place, group)
        return found

    def rest(self, high: int) -> list[int]:
        """How many rows of this key were thinned out, and the sums of their counters."""
        place = self._groups.row(high, 0) * self._groups.stride + codes.KEYS + _LEFT_OUT
        return memoryview(self._groups.cells)[place : place + 1 + self._table.columns].tolist()

    def _group(self, row: int) -> int:
        return self._groups.row(self._table.cells[row * self._table.stride], 0)

    def _count(self) -> None:
        table = self._table
        for row in range(1, table.rows):
            if table.cells[row * table.stride + codes.KEYS]:
                self._groups.add(self._group(row), _SIZE, 1)

    def _weigh(self) -> None:
        """Find out from which bucket on rows are left, where a key is to be thinned out."""
        if self._histograms.number == 1:
            return
        table, groups = self._table, self._groups
        for row in range(1, table.rows):
            place = row * table.stride + codes.KEYS
            number = groups.cells[self._group(row) * groups.stride + codes.KEYS + _HISTOGRAM]
            if number and table.cells[place]:
                self._histograms.note(number, table.cells[place + self._column])
        for high, _, counters in groups.items():
            if counters[_HISTOGRAM]:
                groups.add(groups.row(high, 0), _LEAST, self._least(counters[_HISTOGRAM]))

    def _least(self, histogram: int) -> int:
        """The bucket from which on enough rows are left."""
        counts = self._histograms.buckets(histogram)
        wanted = self._kept
        for number in sorted(counts, reverse=True):
            wanted -= counts[number]
            if wanted <= 0:
                return number
        return 0

    def _leave_out(self, place: int, group: int) -> None:
        self._groups.add(group, _LEFT_OUT, 1)
        for column in range(self._table.columns):
            amount = self._table.cells[place + codes.KEYS + column]
            self._groups.add(group, _SUMS + column, amount)
