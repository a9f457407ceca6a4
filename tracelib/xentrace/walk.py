# cython: annotation_typing=False
"""Where a row of records ends: the one thing done per record before decoding.

Plain Python; walk.pxd gives it C types where a compiler was at hand at install time.
"""

from __future__ import annotations

JUMP_LIMIT = 1 << 44
"""Cycles between two neighbours on a CPU that only damage explains: 1.2 hours at 4 GHz."""


def walk(words: memoryview, start: int, end: int) -> int:
    """Index of the first word of words[start:end] that does not start a whole record.

    `words` is cast to 'I'. Equal to `end` if the row is whole; else a header without class
    bits, a cpu_change record, or a record that would go past `end` lies there.
    """
    at = start
    while at < end:
        header = words[at]
        if header & 0x0FFF0000 == 0 or header & 0x0FFFFFFF == 0x0001F003:
            break
        following = at + 1 + ((header >> 28) & 7) + 2 * (header >> 31)
        if following > end:
            break
        at = following
    return at


def windows(words: memoryview, start: int, end: int, found: memoryview) -> int:
    """Find whole windows from the header at words[start] on, as far as all is as it should
    be: plausible headers, records that end where their header says, another header behind.

    `found` is cast to "Q" and gets three numbers for each window: CPU, index of its first
    word, index behind its last. Returns how many there are, at most as many as have room.
    """
    room = len(found) // 3
    count = 0
    at = start
    while count < room and at + 3 <= end:
        if words[at] != 0x2001F003 or words[at + 1] >> 16 or words[at + 2] & 3:
            break
        first = at + 3
        stop = first + (words[at + 2] >> 2)
        if stop + 3 > end or words[stop] != 0x2001F003:
            break
        if words[stop + 1] >> 16 or words[stop + 2] & 3 or walk(words, first, stop) != stop:
            break
        found[3 * count] = words[at + 1]
        found[3 * count + 1] = first
        found[3 * count + 2] = stop
        count += 1
        at = stop
    return count


def walk_strictly(words: memoryview, start: int, end: int, last_tsc: int) -> int:
    """Like `walk`, for rows known to be damaged somewhere: stops at what Xen never writes.

    That is an event of no or several classes, an event of the general class that is neither
    a lost nor a wrap record, and a TSC below `last_tsc` or the one before it, or far above
    (0: nothing is known yet). Without these, bytes shifted by the damage pass for records.
    """
    at = start
    limit = JUMP_LIMIT
    while at < end:
        header = words[at]
        event_class = header & 0x0FFF0000
        event = header & 0x0FFFFFFF
        if event_class == 0 or event_class & (event_class - 1):
            break
        if event_class == 0x00010000 and event != 0x0001F001 and event != 0x0001F002:
            break
        timed = header >> 31
        following = at + 1 + ((header >> 28) & 7) + 2 * timed
        if following > end:
            break
        # A wrap record's time is stale memory.
        if timed and event != 0x0001F002:
            high = words[at + 2]
            tsc = high << 32 | words[at + 1]
            if tsc < last_tsc or (last_tsc and tsc - last_tsc > limit):
                break
            last_tsc = tsc
        at = following
    return at


def resume(words: memoryview, start: int, end: int, last_tsc: int) -> int:
    """Index of the first record behind damage from which a row is to be believed.

    A row begins with a plausible TSC, since 64 bits that fit to those before are the proof
    that a record starts there; and it runs strictly to `end`, or has several such records.
    Returns `end` if there is none.
    """
    at = start
    limit = JUMP_LIMIT
    while at + 3 <= end:
        event_class = words[at] & 0x0FFF0000
        if words[at] >> 31 and event_class and event_class & (event_class - 1) == 0:
            high = words[at + 2]
            tsc = high << 32 | words[at + 1]
            if tsc and tsc >= last_tsc and (last_tsc == 0 or tsc - last_tsc <= limit):
                stop = walk_strictly(words, at, end, tsc)
                if stop == end or timed_records(words, at, stop) >= 4:
                    return at
                # Everything on this row fails alike; going on behind it keeps this linear.
                at = stop
        at += 1
    return end


def timed_records(words: memoryview, start: int, end: int) -> int:
    """How many records of a whole row have a TSC."""
    at = start
    count = 0
    while at < end:
        header = words[at]
        count += header >> 31
        at += 1 + ((header >> 28) & 7) + 2 * (header >> 31)
    return count


def last_time(words: memoryview, start: int, end: int) -> int:
    """TSC of the last record with one in a whole row; 0 if none has."""
    at = start
    tsc = 0
    while at < end:
        header = words[at]
        if header >> 31 and header & 0x0FFFFFFF != 0x0001F002:
            high = words[at + 2]
            tsc = high << 32 | words[at + 1]
        at += 1 + ((header >> 28) & 7) + 2 * (header >> 31)
    return tsc
