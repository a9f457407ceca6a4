"""Bytes and numbers in memory, as the engine reads and writes them.

memory.pxd has the C twins: pointers instead of views, and memcpy.
"""

from __future__ import annotations

SLACK = 48
"""So many bytes behind what is copied, and where it is copied to, must be there too."""


def characters(view: memoryview) -> memoryview:
    """The view itself; in C a pointer to its first byte."""
    return view


def pair(target: memoryview, at: int, value: int) -> None:
    """Two decimal digits."""
    target[at] = 48 + value // 10
    target[at + 1] = 48 + value % 10


def numbers(view: memoryview) -> memoryview:
    """The same for 64-bit numbers."""
    return view


def copy(target: memoryview, out: int, source: memoryview, start: int, end: int) -> int:
    """Copy source[start:end] to target[out:]; where that ends."""
    stop = out + end - start
    target[out:stop] = source[start:end]
    return stop
