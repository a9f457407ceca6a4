# cython: annotation_typing=False, initializedcheck=False
"""Records into rows: one pass over a CPU's payload fills the columns of a batch.

Plain Python; rows.pxd gives it C types where a compiler was at hand at install time.
tracelib.columns says what each column means.
"""

from __future__ import annotations

from tracelib import records

LAST_TSC, KEY, DATED, RUNNING, WRAPS, BACK = range(6)
"""Places in the state: what is carried from one batch of a CPU to the next. WRAPS and BACK
count wrap fillers, and steps back in time."""

STATE_WORDS = 6

_ALL32 = 0xFFFFFFFF
_TIMED = 1
_DATED = 2


def fill(
    data: memoryview, count: int, flags: int, state: memoryview,
    events: memoryview, extras: memoryview, all_flags: memoryview, ats: memoryview,
    tscs: memoryview, keys: memoryview, runnings: memoryview,
) -> int:
    """Fill a row for each record in the first `count` words of `data`; the number of rows.

    `flags` are those that all rows have. The columns, of formats I B B q Q Q I, have room
    for `count` rows; `state` is of format Q. Ends early where no record can start, or one
    goes past the end.
    """
    last, key, dated = state[0], state[1], state[2]
    running = state[3]
    rows = 0
    at = 0
    while at < count:
        header = data[at]
        event = header & records.EVENT_MASK
        extra = header >> records.EXTRA_SHIFT & records.EXTRA_MASK
        timed = header >> 31
        words = at + 1 + 2 * timed
        if header & records.CLASS_MASK == 0 or words + extra > count:
            break
        if event == records.WRAP_BUFFER or event == records.CPU_CHANGE:
            state[4] += event == records.WRAP_BUFFER
            at = words + extra
            continue
        if timed:
            high = data[at + 2]
            now = high << 32 | data[at + 1]
            state[5] += now < last
            last = now
            key = now if now > key else key
            dated = 1
        shown = running
        if event & 0x0FFFF000 == 0x21000 and extra:
            if event & 0x0FFFF0FF == 0x21001 or event == 0x21002:
                # Somebody comes.
                running = data[words]
                shown = running
            elif event & 0x0FFFFF0F == 0x21001:
                # Somebody leaves, and this is still his.
                shown = data[words]
                running = _ALL32
        elif event == records.LOST_RECORDS:
            running = _ALL32
            shown = _ALL32
        events[rows] = event
        extras[rows] = extra
        all_flags[rows] = flags | timed | dated << 1
        ats[rows] = words
        tscs[rows] = last
        keys[rows] = key
        runnings[rows] = shown
        rows += 1
        at = words + extra
    state[0], state[1], state[2], state[3] = last, key, dated, running
    return rows
