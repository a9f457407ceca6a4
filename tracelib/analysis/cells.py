"""Where a table's cells are, for who works on many of them; cells.pxd has the C twin."""

from __future__ import annotations


def address(cells: memoryview) -> memoryview:
    """The view itself; in C a pointer to the first cell, good until the table grows."""
    return cells
