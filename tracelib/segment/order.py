# cython: annotation_typing=False
"""Are the records of a CPU in time order? The one thing `verify` does per record that
nothing else does; order.pxd gives it C types where there is a compiler."""

from __future__ import annotations

from tracelib import records
from tracelib.ring import shared


def steps_back(data: memoryview, start: int, end: int, tsc: int) -> tuple[int, int, int]:
    """Where time goes backwards in the whole records of `data[start:end]`.

    `data` is of format "I", positions are in words; `tsc` is the time before the first
    record. Returns the position of the first record whose TSC is below the one before it
    (`end` if there is none), by how many cycles, and how many such records there are. Those
    without a TSC, and wrap fillers, whose TSC is stale memory, have no part in it.
    """
    words = shared.address(data)
    at = start
    first = end
    cycles = 0
    steps = 0
    while at < end:
        header = words[at]
        if header & records.TSC_FLAG and header & records.EVENT_MASK != records.WRAP_BUFFER:
            high = words[at + 2]
            now = words[at + 1] | high << 32
            if now < tsc:
                steps += 1
                if first == end:
                    first = at
                    cycles = tsc - now
            tsc = now
        extra = (header >> records.EXTRA_SHIFT) & records.EXTRA_MASK
        at += 1 + extra + (2 if header & records.TSC_FLAG else 0)
    return first, cycles, steps
