"""A trace ring in memory and a producer that fills it by Xen's rules, one record a call.

The producer is written from xen/common/trace.c in the plainest way, with a deque of what
the consumer has to receive. It shares no code with tracelib.ring.producer.

As a program it fills a ring that another process drains, as fast as the product's own
producer can:

    python -m tests.support.ring FD PAGES RECORDS
"""

from __future__ import annotations

import mmap
import struct
import sys
from array import array
from collections import deque
from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

from tests.support.uncompiled import load_uncompiled
from tracelib.records import (
    CPU_CHANGE,
    LOST_RECORDS,
    TSC_FLAG,
    WRAP_BUFFER,
    iter_records,
    make_header,
    make_record,
    parse_lost,
    record_bytes,
)
from tracelib.ring import fastpath
from tracelib.ring.producer import Host, RingProducer
from tracelib.ring.results import Drain
from tracelib.ring.runstates import RunstateTable

FORMS: dict[str, ModuleType] = {
    "compiled" if fastpath.COMPILED else "installed": fastpath,
    "uncompiled": load_uncompiled(fastpath),
}
"""The fastpath module in each form that can be had here, by name."""

STALE = 0xA5A5A5A5
"""What lies in a ring or a buffer before anybody wrote there."""


def words_of(data: bytes) -> memoryview:
    """A copy of the bytes as writable 32-bit words."""
    return memoryview(array("I", data))


class MemoryRing:
    """One ring: `words` as a consumer maps it, indexes to be set at will."""

    def __init__(self, pages: int, start: int = 0, words: memoryview | None = None) -> None:
        self.size = pages * 4096 - 8
        self.words = words_of(struct.pack("<I", STALE) * (pages * 1024)) if words is None else words
        self.data = self.words.cast("B")[8:]
        self.set(start, start)

    def set(self, cons: int, prod: int) -> None:
        self.words[0] = cons
        self.words[1] = prod

    @property
    def cons(self) -> int:
        return self.words[0]

    @property
    def prod(self) -> int:
        return self.words[1]

    @property
    def waiting(self) -> int:
        return (self.prod - self.cons) % (2 * self.size)

    def write(self, data: bytes) -> None:
        """Put bytes at prod, over the ring's end if need be, and advance prod."""
        at = self.prod % self.size
        before_end = min(len(data), self.size - at)
        self.data[at : at + before_end] = data[:before_end]
        self.data[: len(data) - before_end] = data[before_end:]
        self.words[1] = (self.prod + len(data)) % (2 * self.size)


class Producer:
    """Xen's trace() for one ring. `expected` is what a consumer that drains everything gets,
    in order, wrap fillers left out; `lost` is how many records found no room so far."""

    LOST_BYTES = 28

    def __init__(self, ring: MemoryRing, current: tuple[int, int] = (0x7FFF, 0)) -> None:
        self.ring = ring
        self.current = current
        self.expected: deque[bytes] = deque()
        self.pushed = 0
        self.lost = 0
        self.pending_lost = 0
        self.pending_since = 0
        self.now = 0

    def push(self, record: bytes) -> bool:
        """Trace one record; False if there was no room for it."""
        self.now += 1
        self.pushed += 1
        if self._needed(len(record)) > self.ring.size - self.ring.waiting:
            self.lost += 1
            self.pending_lost += 1
            if self.pending_lost == 1:
                self.pending_since = self.now
            return False
        if self.pending_lost:
            self._insert(self._lost_record())
            self.pending_lost = 0
        self._insert(record)
        return True

    def fits(self, record: bytes) -> bool:
        return self._needed(len(record)) <= self.ring.size - self.ring.waiting

    def _to_end(self) -> int:
        return self.ring.size - self.ring.prod % self.ring.size

    def _needed(self, size: int) -> int:
        """Bytes that push() would take: lost record, record, and the wraps before them."""
        total = 0
        to_end = self._to_end()
        for part in (self.LOST_BYTES, size) if self.pending_lost else (size,):
            if part > to_end:
                total += to_end
                to_end = self.ring.size
            total += part
            to_end = to_end - part or self.ring.size
        return total

    def _insert(self, record: bytes) -> None:
        if len(record) > self._to_end():
            self._wrap()
        self.ring.write(record)
        self.expected.append(record)

    def _wrap(self) -> None:
        """Fill up to the ring's end: nothing but the header is written, the rest is stale."""
        space = self._to_end()
        extra = space // 4 - 1
        header = WRAP_BUFFER | (TSC_FLAG | extra - 2 << 28 if extra > 7 else extra << 28)
        assert record_bytes(header) == space
        at = self.ring.prod % self.ring.size
        self.ring.write(struct.pack("<I", header) + bytes(self.ring.data[at + 4 : at + space]))

    def _lost_record(self) -> bytes:
        since = self.pending_since
        who = self.current[0] | self.current[1] << 16
        return make_record(
            LOST_RECORDS, self.pending_lost, who, since & 0xFFFFFFFF, since >> 32, tsc=self.now
        )


class Counts(NamedTuple):
    """What drain and scan count, as the definitions in tracelib.records have it."""

    records: int
    lost_marks: int
    lost: int
    lost_first_tsc: int
    lost_last_tsc: int
    first_tsc: int
    last_tsc: int
    malformed_lost: int


def count_records(data: bytes | memoryview) -> Counts:
    """Count whole records, one Python object each: the oracle for drain and scan."""
    counted = [r for r in iter_records(data) if r.event not in (WRAP_BUFFER, CPU_CHANGE)]
    marks = [r for r in counted if r.event == LOST_RECORDS]
    lost = [parse_lost(r.extra) for r in marks]
    since = [one.first_tsc for one in lost if one is not None and one.first_tsc]
    marked = [r.tsc for r in marks if r.tsc is not None]
    times = [r.tsc for r in counted if r.tsc is not None]
    return Counts(
        records=len(counted),
        lost_marks=len(marks),
        lost=sum(one.count for one in lost if one is not None),
        lost_first_tsc=since[0] if since else 0,
        lost_last_tsc=marked[-1] if marked else 0,
        first_tsc=times[0] if times else 0,
        last_tsc=times[-1] if times else 0,
        malformed_lost=lost.count(None),
    )


def counts_of(drained: Drain) -> Counts:
    """The same fields of a drain's result."""
    return Counts(*(getattr(drained, name) for name in Counts._fields))


class Consumer:
    """Drains one ring into a buffer of its own and keeps what came out."""

    AT = 32
    """Where the payload goes: behind a header slot."""

    def __init__(self, ring: MemoryRing, module: ModuleType = fastpath) -> None:
        self.ring = ring
        self.runstates = RunstateTable(4, 64)
        self._blank = words_of(struct.pack("<I", STALE) * (self.AT + ring.size // 4 + 16))
        self.buffer = words_of(bytes(self._blank))
        self._drain = module.drain

    def drain(self, room: int | None = None) -> tuple[Drain, bytes]:
        """One drain into `room` words, everything if None: the result and the payload.
        Checks that the buffer's words before and behind `room` stay as they were."""
        self.buffer[:] = self._blank
        room = self.ring.size // 4 if room is None else room
        result: Drain = self._drain(
            self.ring.words, self.ring.size, self.buffer, self.AT, room, 1, self.runstates
        )
        end = self.AT + result.payload_bytes // 4
        assert result.payload_bytes <= 4 * room
        assert self.buffer[: self.AT] == self._blank[: self.AT]
        assert self.buffer[self.AT + room :] == self._blank[self.AT + room :]
        return result, bytes(self.buffer[self.AT : end])


def split_records(data: bytes) -> list[bytes]:
    """The records of a payload as bytes, wrap fillers left out."""
    return [r.encode() for r in iter_records(data) if r.event != WRAP_BUFFER]


def numbered_record(number: int) -> bytes:
    """A record that says which it is in its first extra word; 8 to 32 bytes long."""
    return make_record(0x0008F000 | number & 0xFFF, number, *[number] * (number % 7))


def numbered_stream(count: int) -> bytes:
    """Records of 8 bytes, numbered from 0; rings are multiples of 8, so none ever wraps."""
    words = array("I", bytes(8 * count))
    words[0::2] = array("I", [make_header(0x00801001, 1, tsc=False)]) * count
    words[1::2] = array("I", range(count))
    return words.tobytes()


def main(argv: Sequence[str]) -> None:
    fd, pages, count = map(int, argv)
    mapping = mmap.mmap(fd, pages * 4096)
    host = Host()
    host.enabled = True
    producer = RingProducer(host)
    producer.attach(memoryview(mapping).cast("I"))
    stream = words_of(numbered_stream(count))
    at = 0
    while at < len(stream):
        at = producer.replay(stream, at, len(stream))


if __name__ == "__main__":
    main(sys.argv[1:])
