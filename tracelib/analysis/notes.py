# cython: annotation_typing=False, initializedcheck=False
"""Events one by one, for whoever wants more than sums: finished intervals, and records.

The engine writes them here as it comes to them, in rows of numbers; the caller takes the rows
each time that the engine returns for more records, so no more are held than records are loaded.
Nothing is noted unless it is asked for. Compiled with the types in notes.pxd.
"""

from __future__ import annotations

from array import array

from tracelib.analysis import codes

_FIRST_ROWS = 256


class Notes:
    """Rows of codes.NOTE_COLUMNS numbers of 64 bits, by their tag:

        EXITED   vCPU's index, CPU, row of `exits`, exit's TSC, entry's TSC, cost, address
        HANDLED  the same for each handler record of the exit, with its row of `tallies`
        SPELL    vCPU's index, CPU, states (before << 8 | old << 4 | new), first and last TSC
        RECORD   vCPU's index, CPU, header, TSC of the record or of the exit that it belongs
                 to, and seven words in four numbers, the first one low

    An exit whose pair, and a spell whose end, the trace does not show is not there.
    """

    def __init__(self, wanted: int) -> None:
        """`wanted`: sum of codes.WANT_ bits."""
        self.wanted = wanted
        self.rows = 0
        self.cells = memoryview(array("Q", bytes(8 * codes.NOTE_COLUMNS * _FIRST_ROWS)))
        self._room = _FIRST_ROWS

    def add(self, tag: int, vcpu: int, cpu: int, what: int, since: int) -> int:
        """A new row; where its last four columns are."""
        if self.rows == self._room:
            self._grow()
        at = self.rows * codes.NOTE_COLUMNS
        self.cells[at] = tag
        self.cells[at + 1] = vcpu
        self.cells[at + 2] = cpu
        self.cells[at + 3] = what
        self.cells[at + 4] = since
        self.rows += 1
        return at + 5

    def take(self) -> bytes:
        """All rows since the last call."""
        taken = memoryview(self.cells)[: self.rows * codes.NOTE_COLUMNS].tobytes()
        self.rows = 0
        return taken

    def _grow(self) -> None:
        self._room *= 2
        longer = memoryview(array("Q", bytes(8 * codes.NOTE_COLUMNS * self._room)))
        longer[: len(self.cells)] = self.cells
        self.cells = longer
