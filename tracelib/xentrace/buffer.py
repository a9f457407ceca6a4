"""The part of a stream that the decoder has at hand, and the ways to look into it.

All positions are offsets in the stream. What lies before `at` is given up: it is dropped
when more bytes come in.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from tracelib.records import MAX_RECORD_BYTES
from tracelib.xentrace.format import HEADER_BYTES, MARK, parse_header
from tracelib.xentrace.walk import last_time, resume, walk, walk_strictly, windows

PIECE_BYTES = 16 << 20
"""A longer window is given in pieces of about this length: it bounds the memory. Xen's
rings, and so its windows, are usually between 4 KiB and 1 MiB."""

_LOOK_AGAIN_BYTES = 64 << 10
"""While searching, look again only after so many more bytes: byte-wise feeding stays linear."""

_ROOM = 1024
"""So many windows are looked for at once."""


class StreamBuffer:
    """Bytes come in by `feed`; they are joined only when somebody needs so many."""

    def __init__(self, start: int = 0) -> None:
        """`start` is where in the stream the first bytes lie."""
        self.at = start
        self.closed = False
        """Nothing follows what was fed."""
        self.searched = 0
        """No plausible window starts before this, from where it was searched."""
        self._pieces: list[bytes | memoryview] = []
        self._data = b""
        self._base = start
        """Where self._data starts."""
        self._fed = start
        self._found = memoryview(array("Q", bytes(24 * _ROOM)))
        self._wait_for = 0
        """Not worth another look before so many bytes were fed."""

    def feed(self, data: bytes | memoryview) -> None:
        if data:
            self._pieces.append(data)
            self._fed += len(data)

    def close(self) -> None:
        self.closed = True

    @property
    def end(self) -> int:
        """Where what can be looked at ends."""
        return self._base + len(self._data)

    def have(self, count: int) -> bool:
        """Whether `count` bytes lie at `at`; takes in what was fed only if it helps."""
        if self.end - self.at < count and (self.closed or self._fed - self.at >= count):
            self._join()
        return self.end - self.at >= count

    def worth_a_look(self) -> bool:
        """False as long as a search that ran out of bytes has too few new ones."""
        if self._wait_for:
            if self._fed < self._wait_for and not self.closed:
                return False
            self._wait_for = 0
            self._join()
        return True

    def _join(self) -> None:
        if self._pieces:
            self._data = b"".join([self._data[self.at - self._base :], *self._pieces])
            self._base = self.at
            self._pieces.clear()

    # Looking at it.

    def peek(self, count: int) -> bytes:
        """Up to so many bytes at `at`."""
        start = self.at - self._base
        return self._data[start : start + count]

    def payload(self, start: int, stop: int) -> memoryview:
        """The bytes between two offsets, aligned to words in memory."""
        view = memoryview(self._data)[start - self._base : stop - self._base]
        return view if (start - self._base) % 4 == 0 else memoryview(bytes(view))

    def header_at(self, at: int) -> tuple[int, int] | None:
        """CPU and window size of a plausible cpu_change record there."""
        return parse_header(self._data, at - self._base)

    def may_end(self, at: int) -> bool:
        """Whether a window may end there: another one or the stream's end follows."""
        return self.end - at < HEADER_BYTES or self.header_at(at) is not None

    def walk(self, start: int, end: int) -> int:
        """Where the row of whole records from `start` breaks; `end` if it does not."""
        words = self._words(start, end)
        return start + 4 * walk(words, 0, len(words))

    def windows(self) -> Iterator[tuple[int, int, int]]:
        """CPU, start and end of the windows from `at` on, as far as all that is at hand is as
        it should be (walk.windows)."""
        base = self.at
        if (base - self._base) % 4:
            return
        count = windows(self._words(base, self.end), 0, (self.end - base) // 4, self._found)
        for at in range(0, 3 * count, 3):
            cpu, first, stop = self._found[at : at + 3]
            yield cpu, base + 4 * first, base + 4 * stop

    def believed(self, start: int, end: int) -> int:
        """How far that row is to be believed if something in it is damaged."""
        words = self._words(start, end)
        return start + 4 * walk_strictly(words, 0, len(words), 0)

    def resume(self, last_tsc: int, broken: int, end: int) -> tuple[int, int]:
        """Start and end of the next believable row of records behind damage at `broken`, in
        a window that ends at `end`; `end` twice if there is none.

        Its words are aligned to the end: bytes may be missing where the damage is.
        """
        first = broken + (end - broken) % 4
        words = self._words(first, end)
        at = resume(words, 0, len(words), last_tsc)
        stop = walk_strictly(words, at, len(words), last_tsc)
        return first + 4 * at, first + 4 * stop

    def last_tsc(self, start: int, stop: int) -> int:
        """The last TSC in a row of whole records; 0 if there is none."""
        words = self._words(start, stop)
        return last_time(words, 0, len(words))

    def _words(self, start: int, end: int) -> memoryview:
        return self.payload(start, end - (end - start) % 4).cast("I")

    # Searching.

    def find_window(self, start: int) -> int | None:
        """Where the next plausible window starts; the stream's end if there is none, None
        if more bytes are needed to tell."""
        at = max(start, self.searched)
        while True:
            found = self._data.find(MARK, at - self._base)
            if found < 0:
                if self.closed:
                    return self.end
                self._search_later(max(start, self.end - len(MARK) + 1))
                return None
            at = self._base + found
            plausible = self._plausible(at)
            if plausible is None:
                self._search_later(at)
                return None
            if plausible:
                return at
            at += 1

    def _search_later(self, at: int) -> None:
        self.searched = at
        self._wait_for = self._fed + _LOOK_AGAIN_BYTES

    def _plausible(self, at: int) -> bool | None:
        """Whether a window starts here; None if more bytes are needed to tell."""
        if self.end - at < HEADER_BYTES:
            return False if self.closed else None
        header = self.header_at(at)
        if header is None or header[1] > PIECE_BYTES:
            return False
        start = at + HEADER_BYTES
        end = start + header[1]
        if end + HEADER_BYTES > self.end and not self.closed:
            return None
        if end > self.end:
            return self.end - self.walk(start, self.end) < MAX_RECORD_BYTES
        return self.may_end(end) or self.walk(start, end) == end
