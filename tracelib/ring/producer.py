# cython: annotation_typing=False, initializedcheck=False
"""The hypervisor's side of the rings: Xen's trace(), exactly (xen/common/trace.c).

`Host` is what all rings of a hypervisor share, `RingProducer` one CPU's side of its ring.
A record takes this way: switched on, class and subclass in the event mask, CPU in the CPU
mask, a ring there; then either everything it needs fits (a lost record that is due, wrap
fillers, itself) or it is dropped and counted. The consumer is told only when a record
takes the ring from below half full to half full or more.

Compiled with the types in producer.pxd; runs uncompiled with the same results.
"""

from __future__ import annotations

from array import array

from tracelib import records
from tracelib.ring import shared

COMPILED = not __file__.endswith((".py", ".pyc"))

ALL_EVENTS = 0x0FFFF000
"""TRC_ALL: the event mask that Xen boots with."""

# C constants when compiled, by their types in producer.pxd.
_CONS = 0
_PROD = 1
_DATA = 2
_SLOTS = 1024
_PROBES = 32
_LOW_WORD = 0xFFFFFFFF
_EXTRA_BYTES = 28  # of the longest record, 7 words
_LOST_BYTES = 28  # header, TSC and 4 words: count, domain | vCPU << 16, first lost TSC


class Host:
    """What the rings of one hypervisor share.

    `enabled` is Xen's tb_init_done: a ring that finds impossible indexes clears it for
    all. `raised` counts the events raised; the owner delivers them (Xen's tasklet).
    """

    def __init__(self) -> None:
        self.enabled = False
        self.event_mask = ALL_EVENTS
        self.raised = 0


class RingProducer:
    """One CPU's side of its ring. `attach` gives it the ring; without one, records vanish.

    Counters are unsigned and only grow, until `reset_counts`: `produced` records (and
    bytes) passed the masks; each of them was either `inserted` or `dropped`. `lost` is
    Xen's own count of drops that no lost record has told yet; `reported` the drops that
    lost records told, `forgotten` those that `forget_lost` wiped.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.traced = True
        self.size = 0
        self.lost = 0
        self.lost_first_tsc = 0
        self.current = 0
        self.reset_counts()

    def reset_counts(self) -> None:
        """Set all counters but Xen's own to zero."""
        self.produced = 0
        self.produced_bytes = 0
        self.dropped = 0
        self.dropped_bytes = 0
        self.reported = 0
        self.forgotten = 0
        self.lost_marks = 0
        self.wraps = 0
        self.notified = 0
        self._events = array("I", bytes(4 * _SLOTS))
        self._produced_of = array("Q", bytes(8 * _SLOTS))
        self._dropped_of = array("Q", bytes(8 * _SLOTS))

    def attach(self, words: memoryview) -> None:
        """Take this ring (its whole mapping, format "I") and empty it."""
        self._words = words
        self._base = shared.address(words)
        self.size = 4 * (len(words) - _DATA)
        self._half = self.size >> 1
        words[_CONS] = words[_PROD] = 0

    def forget_lost(self) -> None:
        """What switching tracing off does to Xen's count."""
        self.forgotten += self.lost
        self.lost = 0

    def trace(self, event: int, extra: tuple[int, ...] = (), tsc: int = 0, *, timed: bool) -> bool:
        """`put` for people: up to seven words; True if the record went into the ring."""
        header = event | len(extra) << 28 | (records.TSC_FLAG if timed else 0)
        words = [*extra, 0, 0, 0, 0, 0, 0, 0]
        return self.put(header, tsc, *words[:7])

    def put(
        self, header: int, tsc: int, a: int, b: int, c: int, d: int, e: int, f: int, g: int
    ) -> bool:
        """Trace one record: its header word, the TSC now, and its extra words.

        `tsc` is stored only if the header says so, but must be right: a lost record may
        carry it. Returns True if the record went into the ring.
        """
        if not self._wanted(header):
            return False
        record = 4 + ((header >> 26) & _EXTRA_BYTES) + ((header >> 28) & 8)
        slot = self._count(header, record)
        if not self._make_room(record, tsc):
            self.dropped += 1
            self.dropped_bytes += record
            self._dropped_of[slot] += 1
            if self.lost == 0:
                self.lost_first_tsc = tsc
            self.lost += 1
            return False
        self._write(header, tsc, a, b, c, d, e, f, g)
        self._finish(record)
        return True

    def replay(self, words: memoryview, start: int, end: int) -> int:
        """Trace the whole records of `words[start:end]` (format "I") verbatim.

        Stops before the first one that has no room in the ring, so that nothing is dropped,
        or that `end` cuts; returns where. Wrap fillers are skipped: this ring makes its own.
        Not while `lost` is set.
        """
        at = start
        while at < end and self.host.enabled:
            header = words[at]
            record = 4 + ((header >> 26) & _EXTRA_BYTES) + ((header >> 28) & 8)
            count = record >> 2
            if at + count > end:
                return at
            if (header & records.EVENT_MASK) != records.WRAP_BUFFER and self._wanted(header):
                if not self._make_room(record, 0):
                    return at
                self._count(header, record)
                place = _DATA + (self._at >> 2)
                for word in range(count):
                    self._base[place + word] = words[at + word]
                self._finish(record)
            at += count
        return at

    def events(self) -> dict[int, tuple[int, int]]:
        """Per event: how many were produced, and how many of them dropped.

        Where there are a thousand kinds and more, the latecomers are counted as event 0.
        """
        return {
            self._events[slot]: (self._produced_of[slot], self._dropped_of[slot])
            for slot in range(_SLOTS)
            if self._produced_of[slot]
        }

    def _wanted(self, header: int) -> bool:
        """Whether the masks let this event through; lost and wrap records never ask."""
        if not self.host.enabled or not self.traced or self.size == 0:
            return False
        both = self.host.event_mask & header & records.EVENT_MASK
        return (both >> 16) != 0 and (both & 0xF000) != 0

    def _count(self, header: int, record: int) -> int:
        """Count a produced record; returns its event's slot."""
        event = header & records.EVENT_MASK
        slot = (event ^ (event >> 9) ^ (event >> 16)) & (_SLOTS - 1)
        tries = 0
        while self._events[slot] != event:
            if self._events[slot] == 0 and slot != 0:
                self._events[slot] = event
            elif tries == _PROBES:
                slot = 0
                break
            else:
                slot = (slot + 1) & (_SLOTS - 1)
                tries += 1
        self.produced += 1
        self.produced_bytes += record
        self._produced_of[slot] += 1
        return slot

    def _waiting(self) -> int:
        """Bytes not consumed yet, by the indexes as they are now.

        Impossible indexes stop tracing on the whole host and count as a full ring.
        Indexes more than a ring apart are possible to Xen; see `_make_room`.
        """
        prod = shared.load(self._base, _PROD)
        cons = shared.load(self._base, _CONS)
        if ((prod | cons) & 3) != 0 or prod >= 2 * self.size or cons >= 2 * self.size:
            self.host.enabled = False
            return self.size
        self._prod = prod
        return prod - cons if prod >= cons else prod - cons + 2 * self.size

    def _make_room(self, record: int, tsc: int) -> bool:
        """Whether everything fits; if so, write what goes before the record."""
        waiting = self._waiting()
        if not self.host.enabled:
            self._below = False
            return False
        to_wrap = self._bytes_to_wrap()
        needed = record
        if self.lost != 0:
            if to_wrap < _LOST_BYTES:
                needed += to_wrap
                to_wrap = self.size
            needed += _LOST_BYTES
            to_wrap -= _LOST_BYTES
            if to_wrap == 0:
                to_wrap = self.size
        if to_wrap < record:
            needed += to_wrap
        # Indexes more than a ring apart make Xen's unsigned difference huge: all fits.
        fits = waiting > self.size or needed <= self.size - waiting
        self._below = fits and waiting < self._half
        if fits:
            self._write_before(record, tsc)
        return fits

    def _bytes_to_wrap(self) -> int:
        """From the producer index to the ring's end; also sets where the next record goes."""
        self._at = self._prod if self._prod < self.size else self._prod - self.size
        return self.size - self._at

    def _write_before(self, record: int, tsc: int) -> None:
        """The lost record that is due and the wrap fillers that are needed."""
        if self.lost != 0:
            if self._bytes_to_wrap() < _LOST_BYTES:
                self._write_wrap(tsc)
            self._write(
                records.LOST_RECORDS | 4 << 28 | records.TSC_FLAG, tsc,
                self.lost & _LOW_WORD, self.current,
                self.lost_first_tsc & _LOW_WORD, self.lost_first_tsc >> 32, 0, 0, 0,
            )  # fmt: skip
            self.reported += self.lost
            self.lost_marks += 1
            self.lost = 0
            self._publish(_LOST_BYTES)
        if self._bytes_to_wrap() < record:
            self._write_wrap(tsc)

    def _write_wrap(self, tsc: int) -> None:
        """Fill up to the ring's end; what the filler's extra words were stays there."""
        space = self._bytes_to_wrap()
        extra = space - 4
        header = records.WRAP_BUFFER
        if extra > _EXTRA_BYTES:
            extra -= 8
            header |= records.TSC_FLAG
            place = _DATA + (self._at >> 2)
            self._base[place + 1] = tsc & _LOW_WORD
            self._base[place + 2] = tsc >> 32
        self._base[_DATA + (self._at >> 2)] = header | extra << 26
        self.wraps += 1
        self._publish(space)
        self._bytes_to_wrap()

    def _write(
        self, header: int, tsc: int, a: int, b: int, c: int, d: int, e: int, f: int, g: int
    ) -> None:
        place = _DATA + (self._at >> 2)
        words = self._base
        extra = (header >> 28) & 7
        words[place] = header
        if header & records.TSC_FLAG:
            words[place + 1] = tsc & _LOW_WORD
            words[place + 2] = tsc >> 32
            place += 2
        if extra > 0:
            words[place + 1] = a
        if extra > 1:
            words[place + 2] = b
        if extra > 2:
            words[place + 3] = c
        if extra > 3:
            words[place + 4] = d
        if extra > 4:
            words[place + 5] = e
        if extra > 5:
            words[place + 6] = f
        if extra > 6:
            words[place + 7] = g

    def _publish(self, record: int) -> None:
        """Move the producer index over what was written."""
        self._prod += record
        if self._prod >= 2 * self.size:
            self._prod -= 2 * self.size
        shared.write_barrier()
        shared.store(self._base, _PROD, self._prod)

    def _finish(self, record: int) -> None:
        """Publish the record itself; raise the event if it crossed the half."""
        self._publish(record)
        if self._below and self._waiting() >= self._half:
            self.host.raised += 1
            self.notified += 1
