# cython: annotation_typing=False
"""kvmtrace records, turned into records of the shape that Xen's have.

A record is as long before as after, so offsets stay what they are in the file:

    kvmtrace        head, process, vCPU, [time, two words], words
    afterwards      head, [time, low word first], process, vCPU, words

The words given are in the machine's byte order already. What is left to tell apart is how
the head's bit fields lie, and which half of the time comes first: a sum of the two flags.

Plain Python; records.pxd gives it C types where a compiler was at hand at install time.
"""

from __future__ import annotations

FIELDS_FROM_TOP = 1
"""The head's bit fields begin at its highest bit, as compilers for big-endian machines lay
them: event 28 bits, number of words 3, time 1. Else they begin at the lowest."""

HIGH_HALF_FIRST = 2

CUT = -1

MOST_WORDS = 5
"""KVM's macros pass no more (KVMTRACE_5D)."""
MOST_PID = 1 << 22
"""PID_MAX_LIMIT of 64-bit kernels."""
MOST_VCPU = 1 << 12
"""No KVM of that time gave a guest as many."""

# C constants when compiled, by their types in records.pxd.
_FROM_TOP = 1
_HIGH_FIRST = 2
_CUT = -1
_MOST_WORDS = 5
_MOST_PID = 1 << 22
_MOST_VCPU = 1 << 12
_ENTRYEXIT = 0x10
_HANDLER = 0x20


def head(word: int, form: int) -> int:
    """A head word with its fields where Xen has them: event, number of words, time flag."""
    if form & _FROM_TOP:
        return word >> 4 | (word >> 1 & 7) << 28 | (word & 1) << 31
    return word


def size(words: memoryview, at: int, end: int, form: int) -> int:
    """How many words the record at words[at] has; 0 if no record can start there, CUT if one
    could and goes on behind words[end]. `words` is of format "I".

    What the kernel never writes is no record: an event of another category, more words than
    its macros take, an entry or exit without a time, a process or vCPU beyond all limits.
    """
    if at >= end:
        return _CUT
    word = head(words[at], form)
    category = word >> 12 & 0xFFFF
    extra = word >> 28 & 7
    timed = word >> 31
    if category != _ENTRYEXIT and category != _HANDLER:
        return 0
    if extra > _MOST_WORDS or (category == _ENTRYEXIT and not timed):
        return 0
    if at + 1 < end and words[at + 1] > _MOST_PID:
        return 0
    if at + 2 < end and words[at + 2] > _MOST_VCPU:
        return 0
    length = 3 + 2 * timed + extra
    return _CUT if at + length > end else length


def find(words: memoryview, at: int, end: int, form: int) -> int:
    """Where from words[at] on the next record could start, whole or cut; `end` if nowhere."""
    while at < end and size(words, at, end, form) == 0:
        at += 1
    return at


def translate(words: memoryview, at: int, end: int, form: int, out: memoryview) -> int:
    """Put the records from words[at] on, turned, at the same places of `out`; where that
    ends, which is at `end`, at a record that is cut, or where none can start.

    A record's head gets the class of tracelib.events.kvm and two words more.
    """
    while at < end:
        length = size(words, at, end, form)
        if length <= 0:
            break
        word = head(words[at], form)
        extra = word >> 28 & 7
        category = 0x1000 if word & 0x10000 else 0x2000
        out[at] = word & 0x80000FFF | 0x04000000 | category | (extra + 2) << 28
        owner = at + 1
        if word >> 31:
            low = at + 3
            high = at + 4
            if form & _HIGH_FIRST:
                low = at + 4
                high = at + 3
            out[at + 1] = words[low]
            out[at + 2] = words[high]
            owner = at + 3
        out[owner] = words[at + 1]
        out[owner + 1] = words[at + 2]
        following = at + length
        for place in range(following - extra, following):
            out[place] = words[place]
        at = following
    return at


def last(words: memoryview, at: int, end: int, form: int) -> int:
    """Where the last of the whole records from words[at] to words[end] starts."""
    start = at
    while at < end:
        start = at
        at += size(words, at, end, form)
    return start


def coverage(words: memoryview, form: int) -> int:
    """How many of the words belong to whole records of this form."""
    at = 0
    covered = 0
    end = len(words)
    while at < end:
        length = size(words, at, end, form)
        if length > 0:
            covered += length
            at += length
        else:
            at += 1
    return covered
