"""The trace record as Xen writes it (xen/include/public/trace.h, struct t_rec).

    word 0      bits 0-27 event, bits 28-30 number of extra words (0-7), bit 31: a TSC follows
    words 1-2   the TSC, low word first, only if bit 31 is set
    words ...   the extra words

All words are little-endian 32-bit. A record is 4 to 40 bytes long.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tracelib.units import Tsc

EVENT_MASK = 0x0FFFFFFF
EXTRA_SHIFT = 28
EXTRA_MASK = 0x7
TSC_FLAG = 0x80000000

CLASS_MASK = 0x0FFF0000
"""Bits 16-27; every event of Xen's has at least one of them set, so a header without any
is not a record (a zeroed sector decodes as a row of them)."""

LOST_RECORDS = 0x0001F001
WRAP_BUFFER = 0x0001F002
CPU_CHANGE = 0x0001F003

MAX_RECORD_BYTES = 4 + 8 + 7 * 4


def record_bytes(header: int) -> int:
    """Length in bytes of the record that starts with this header word."""
    return 4 + 4 * ((header >> EXTRA_SHIFT) & EXTRA_MASK) + (8 if header & TSC_FLAG else 0)


def make_header(event: int, extra_words: int, *, tsc: bool) -> int:
    """The header word for an event; the inverse of the three masks above."""
    return event | extra_words << EXTRA_SHIFT | (TSC_FLAG if tsc else 0)


class Record(NamedTuple):
    """One record, decoded as far as its own header says."""

    offset: int
    """Byte offset of the header word in the buffer it was read from."""
    event: int
    tsc: Tsc | None
    extra: tuple[int, ...]

    def encode(self) -> bytes:
        header = make_header(self.event, len(self.extra), tsc=self.tsc is not None)
        time = () if self.tsc is None else (self.tsc & 0xFFFFFFFF, self.tsc >> 32)
        words = (header, *time, *self.extra)
        return struct.pack(f"<{len(words)}I", *words)


def make_record(event: int, *extra: int, tsc: int | None = None) -> bytes:
    """The bytes of one record; `extra` are its words."""
    return Record(0, event, None if tsc is None else Tsc(tsc), extra).encode()


class LostRecords(NamedTuple):
    """What a TRC_LOST_RECORDS record says, in either of its two shapes."""

    count: int  # type: ignore[assignment]  # tuple.count is nothing that anybody needs here
    domain: int | None
    vcpu: int | None
    first_tsc: Tsc | None
    """When the first record was dropped; None in the shape of 2006-2008."""


def parse_lost(extra: tuple[int, ...]) -> LostRecords | None:
    """Decode a lost record's extra words; None if they have neither known shape.

    Four words since September 2008 (count, dom | vcpu << 16, first TSC); one word before.
    """
    if len(extra) == 4:
        count, who, low, high = extra
        return LostRecords(count, who & 0xFFFF, who >> 16, Tsc(low | high << 32))
    if len(extra) == 1:
        return LostRecords(extra[0], None, None, None)
    return None


def iter_records(data: bytes | memoryview, start: int = 0) -> Iterator[Record]:
    """Yield the whole records of `data`, one Python object each: for tests and small inputs.

    Stops before a record that the data cuts short; the caller compares the last record's
    end with len(data). Wrap records are yielded too.
    """
    at = start
    end = len(data)
    while at + 4 <= end:
        (header,) = struct.unpack_from("<I", data, at)
        size = record_bytes(header)
        if at + size > end:
            return
        words = struct.unpack_from(f"<{size // 4}I", data, at)
        tsc = Tsc(words[1] | words[2] << 32) if header & TSC_FLAG else None
        yield Record(at, header & EVENT_MASK, tsc, words[3 if header & TSC_FLAG else 1 :])
        at += size
