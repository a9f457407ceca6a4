"""The decoder: bytes in, windows and damage out. No I/O, so that every cut can be tried.

The states, and what moves between them:

    HEADER   at the start of a window    a cpu_change record -> WINDOW
                                         anything else       -> LOST
    WINDOW   its records                 the row ends where the header says -> HEADER
                                         a cpu_change record comes earlier  -> HEADER, damage
                                         anything else: search the next cpu_change record,
                                         keep what is whole before it       -> HEADER, damage
    LOST     no window to hold on to     the next cpu_change record -> HEADER, damage
    DONE     the end

A file is never refused for damage: each damaged place costs one `Damage`, and everything
whole before and behind it is given. Two rules keep garbage out. A cpu_change record found
by searching counts only if its window leads to another one, to the end, or consists of
records throughout. And in a window known to be damaged, records are taken only as far as
`walk_strictly` believes them.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import NamedTuple

from tracelib.errors import FormatError
from tracelib.records import MAX_RECORD_BYTES
from tracelib.units import CpuId
from tracelib.xentrace.format import HEADER_BYTES, MARK, fixed_layout, parse_header
from tracelib.xentrace.walk import last_time, resume, walk, walk_strictly

PIECE_BYTES = 16 << 20
"""A longer window is given in pieces of about this length: it bounds the memory. Xen's
rings, and so its windows, are usually between 4 KiB and 1 MiB."""

SEARCH_BYTES = 64 << 20
"""A file without a cpu_change record in this many bytes is no trace at all."""

_NOT_A_TRACE = "not an xentrace file: no cpu_change record"
_NO_START = "the file starts inside a window; whose, is not known"
_NO_HEADER = "no cpu_change record where the window ends"
_HEAD_BYTES = 1024
_LOOK_AGAIN_BYTES = 64 << 10
"""While searching, look again only after so many more bytes: byte-wise feeding stays linear."""


class Window(NamedTuple):
    """Whole records of one CPU; `offset` is where the payload starts in the stream."""

    cpu: CpuId
    offset: int
    payload: memoryview


class Damage(NamedTuple):
    """A place where the stream is not what it should be."""

    offset: int
    reason: str
    missing_bytes: int


class _State(enum.Enum):
    HEADER = enum.auto()
    WINDOW = enum.auto()
    LOST = enum.auto()
    DONE = enum.auto()


class WindowDecoder:
    """Feed it bytes in any pieces, ask for events until None, `close()` it at the end.

    Window payloads stay valid for as long as they are referred to. `next_event` raises
    FormatError, once it is clear that this is no xentrace file.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._data = b""
        self._base = 0
        """Stream offset of self._data[0]."""
        self._at = 0
        """Index in self._data of what comes next; nothing before it is needed any more."""
        self._fed = 0
        self._closed = False
        self._wait_for = 0
        """Not worth another look before so many bytes were fed."""
        self._searched = 0
        """Stream offset up to which no plausible window starts."""
        self._state = _State.HEADER
        self._steps = {
            _State.HEADER: self._header,
            _State.WINDOW: self._window,
            _State.LOST: self._lost,
        }
        self._events: deque[Window | Damage] = deque()
        self._cpu = CpuId(0)
        self._header_at = 0
        """Stream offset of the current window's header."""
        self._claimed_end = 0
        """Stream offset at which the current window ends, as its header says."""
        self._lost_at = 0
        """Stream offset where the damage begins behind which a window is searched."""

    def feed(self, data: bytes) -> None:
        """Hand in the next bytes of the stream."""
        if data:
            self._pieces.append(data)
            self._fed += len(data)

    def close(self) -> None:
        """Say that nothing follows."""
        self._closed = True

    def next_event(self) -> Window | Damage | None:
        """The next window or damage; None if more bytes are needed, or at the end."""
        if self._wait_for:
            if self._fed < self._wait_for and not self._closed:
                return None
            self._wait_for = 0
            self._join()
        while not self._events:
            if self._state is _State.DONE or not self._steps[self._state]():
                return None
        return self._events.popleft()

    # Each step returns False when it can do nothing without more bytes, or at the end.

    def _header(self) -> bool:
        if not self._have(HEADER_BYTES):
            return self._short_tail() if self._closed else False
        found = parse_header(self._data, self._at)
        if found is None:
            return self._no_header()
        cpu, size = found
        self._cpu = CpuId(cpu)
        self._header_at = self._offset
        self._at += HEADER_BYTES
        self._claimed_end = self._offset + size
        self._state = _State.WINDOW
        return True

    def _no_header(self) -> bool:
        if self._offset == 0:
            if not self._have(_HEAD_BYTES) and not self._closed:
                return False
            layout = fixed_layout(self._data, whole=self._fed < _HEAD_BYTES)
            if layout is not None:
                raise FormatError(
                    f"{layout}, a format this release does not read", offset=0,
                    hint="read it with the xentrace_format of Xen 3.0",
                )
        self._lost_at = self._offset
        self._state = _State.LOST
        return True

    def _short_tail(self) -> bool:
        """The last bytes of the stream, too few for a cpu_change record."""
        tail = self._data[self._at :]
        cut = MARK.startswith(tail[: len(MARK)])
        if self._offset == 0 and not cut:
            raise FormatError(_NOT_A_TRACE, offset=0)
        if tail:
            early = HEADER_BYTES - len(tail)
            self._damage(
                self._at, self._at + len(tail),
                f"the file ends inside a cpu_change record, {early} bytes early"
                if cut else "trailing bytes that are no cpu_change record",
            )
        self._at = len(self._data)
        self._state = _State.DONE
        return bool(tail)

    def _window(self) -> bool:
        rest = self._claimed_end - self._offset
        # The next header is wanted too: it proves the window's size right.
        if not self._have(min(rest + HEADER_BYTES, PIECE_BYTES)) and not self._closed:
            return False
        start, claimed = self._at, self._at + rest
        end = min(claimed, len(self._data))
        stop = self._walk(start, end)
        if stop == claimed and self._may_end(stop):
            self._give(start, stop)
            self._state = _State.HEADER
        elif parse_header(self._data, stop):
            self._give(start, stop)
            self._wrong_size()
            self._state = _State.HEADER
        elif end < claimed and not self._closed and end - stop < MAX_RECORD_BYTES:
            self._give(start, stop)
        else:
            return self._damaged_window(start, stop, claimed)
        return True

    def _may_end(self, stop: int) -> bool:
        """Whether a window may end here: another one or the stream's end follows."""
        left = len(self._data) - stop
        return left < HEADER_BYTES or parse_header(self._data, stop) is not None

    def _damaged_window(self, start: int, stop: int, claimed: int) -> bool:
        """The row breaks at `stop`, the header says `claimed`."""
        size = len(self._data)
        cut = claimed > size and size - stop < MAX_RECORD_BYTES
        if cut and self._believed(start, stop) == stop:
            self._give(start, stop)
            reason = f"the file ends inside a window, {claimed - size} bytes early"
            self._damage(stop, claimed, reason)
            self._at = size
            self._state = _State.HEADER
            return True
        if stop < claimed <= size and self._may_end(claimed):
            self._hole(start, stop, claimed)
        else:
            end = self._find_window(stop)
            if end is None:
                return self._give_up(start, stop)
            self._loose_end(start, stop, claimed, end)
        self._state = _State.HEADER
        return True

    def _hole(self, start: int, stop: int, end: int) -> None:
        """The window's end is sure, something inside is damaged."""
        keep = self._believed(start, stop)
        again = self._resume(start, keep, end)
        self._give(start, keep)
        self._damage(keep, again, self._why(keep))
        self._give(again, end)

    def _loose_end(self, start: int, stop: int, claimed: int, end: int) -> None:
        """Where the window ends is not known, but the next one starts at `end`."""
        keep = self._believed(start, end)
        if keep != end:
            # Past the first break only a row that runs right up to a window is believed.
            keep = min(keep, stop)
        self._give(start, keep)
        if keep == end:
            self._wrong_size()
        else:
            self._damage(keep, end, _NO_HEADER if keep == claimed else self._why(keep))
            self._at = end

    def _give_up(self, start: int, stop: int) -> bool:
        """No window was found yet. Wait for more, but not with any amount in memory."""
        if len(self._data) - start < 2 * PIECE_BYTES:
            return False
        keep = self._believed(start, stop)
        self._give(start, keep)
        self._lost_at = self._offset
        self._state = _State.LOST
        return True

    def _lost(self) -> bool:
        """Search a window from here on, dropping what has been searched."""
        found = self._find_window(self._at)
        at_start = self._lost_at == 0
        if found is None:
            self._at = self._searched - self._base
            if at_start and self._offset > SEARCH_BYTES:
                raise FormatError(_NOT_A_TRACE, offset=0)
            return False
        if at_start and found == len(self._data):
            raise FormatError(_NOT_A_TRACE, offset=0)
        reason = _NO_START if at_start else _NO_HEADER
        self._damage(self._lost_at - self._base, found, reason)
        self._at = found
        self._state = _State.HEADER
        return True

    # The buffer.

    @property
    def _offset(self) -> int:
        return self._base + self._at

    def _have(self, count: int) -> bool:
        """Whether `count` bytes lie at self._at; takes in what was fed only if it helps."""
        if len(self._data) - self._at >= count:
            return True
        if self._pieces and (self._closed or self._fed - self._offset >= count):
            self._join()
        return len(self._data) - self._at >= count

    def _join(self) -> None:
        if self._pieces:
            self._data = b"".join([self._data[self._at :], *self._pieces])
            self._base += self._at
            self._at = 0
            self._pieces.clear()

    def _words(self, start: int, end: int) -> memoryview:
        return memoryview(self._data)[start : end - (end - start) % 4].cast("I")

    # Walking, searching, giving. All positions are indexes into self._data.

    def _walk(self, start: int, end: int) -> int:
        words = self._words(start, end)
        return start + 4 * walk(words, 0, len(words))

    def _believed(self, start: int, end: int) -> int:
        words = self._words(start, end)
        return start + 4 * walk_strictly(words, 0, len(words), 0)

    def _resume(self, start: int, keep: int, end: int) -> int:
        words = self._words(start, end)
        broken = (keep - start) // 4
        return start + 4 * resume(words, broken, len(words), last_time(words, 0, broken))

    def _find_window(self, start: int) -> int | None:
        """Where the next plausible window starts; the stream's end if there is none, None
        if more bytes are needed to tell."""
        at = max(start, self._searched - self._base)
        while True:
            at = self._data.find(MARK, at)
            verdict = False if at < 0 else self._plausible(at)
            if verdict:
                return at
            if at < 0 and self._closed:
                return len(self._data)
            if at < 0 or verdict is None:
                kept = at if at >= 0 else max(start, len(self._data) - len(MARK) + 1)
                self._searched = self._base + kept
                self._wait_for = self._fed + _LOOK_AGAIN_BYTES
                return None
            at += 1

    def _plausible(self, at: int) -> bool | None:
        """Whether a window starts here; None if more bytes are needed to tell."""
        size = len(self._data)
        if size - at < HEADER_BYTES:
            return False if self._closed else None
        header = parse_header(self._data, at)
        if header is None or header[1] > PIECE_BYTES:
            return False
        start = at + HEADER_BYTES
        end = start + header[1]
        if end + HEADER_BYTES > size and not self._closed:
            return None
        if end > size:
            return size - self._walk(start, size) < MAX_RECORD_BYTES
        return self._may_end(end) or self._walk(start, end) == end

    def _give(self, start: int, stop: int) -> None:
        if stop > start:
            payload = memoryview(self._data)[start:stop]
            if start % 4:
                payload = memoryview(bytes(payload))
            self._events.append(Window(self._cpu, self._base + start, payload))
        self._at = stop

    def _damage(self, start: int, end: int, reason: str) -> None:
        self._events.append(Damage(self._base + start, reason, end - start))

    def _wrong_size(self) -> None:
        """The records are whole, only the header does not say where they end."""
        first = self._header_at + HEADER_BYTES
        said, real = self._claimed_end - first, self._offset - first
        reason = f"window size says {said} bytes, its records take {real}"
        self._events.append(Damage(self._header_at, reason, 0))

    def _why(self, at: int) -> str:
        zeros = not any(self._data[at : at + 4])
        return "zeros where a record should start" if zeros else "what lies here is no record"
