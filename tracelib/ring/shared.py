"""Access to memory that somebody else reads and writes at the same time.

The compiled modules use the C twins of these functions in shared.pxd (atomic loads and
stores, memcpy, fences); this file is what they are where nothing is compiled, and the
description of both. A module uses them as `shared.load(...)` after `from tracelib.ring
import shared` in its .py and `from tracelib.ring cimport shared` in its .pxd.

What the uncompiled functions promise: a memoryview of format "I" reads and writes an
element by one aligned 32-bit access, so an index is never seen half written; and on x86
the processor keeps loads in order, stores in order, and a store behind the loads before
it, which is all that a ring's consumer and producer need. Between two calls the
interpreter runs thousands of instructions, so no compiler reorders them. On arm64 the
processor gives no such order: there only the compiled form is right, and the uncompiled
one may, rarely, see an index before the records that it covers.
"""

from __future__ import annotations


def address(words: memoryview) -> memoryview:
    """Where the words are: in C a pointer to the first, here the view itself."""
    return words


def load(words: memoryview, index: int) -> int:
    """One word, read exactly once."""
    value: int = words[index]
    return value


def store(words: memoryview, index: int, value: int) -> None:
    """One word, written exactly once."""
    words[index] = value


def copy(into: memoryview, at: int, source: memoryview, start: int, count: int) -> None:
    """`count` words from `source[start:]` to `into[at:]`; the two do not overlap."""
    into[at : at + count] = source[start : start + count]


def read_barrier() -> None:
    """Loads after this are not done before the loads before it."""


def write_barrier() -> None:
    """Stores after this are not seen before the stores before it."""


def full_barrier() -> None:
    """Nothing after this is done before anything before it."""
