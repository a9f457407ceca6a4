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
from tracelib.xentrace.buffer import PIECE_BYTES, StreamBuffer
from tracelib.xentrace.format import HEADER_BYTES, MARK, fixed_layout

SEARCH_BYTES = 64 << 20
"""A file without a cpu_change record in this many bytes is no trace at all."""

_NOT_A_TRACE = "not an xentrace file: no cpu_change record"
_NO_START = "the file starts inside a window; whose, is not known"
_NO_HEADER = "no cpu_change record where the window ends"
_HEAD_BYTES = 1024


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
    """From `offset` on; at the end of a cut stream with those that should follow it."""


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

    def __init__(self, start: int = 0) -> None:
        """`start` is where in the stream the first bytes lie: behind a window, or at 0."""
        self._buffer = StreamBuffer(start)
        self._state = _State.HEADER
        self._steps = {
            _State.HEADER: self._header,
            _State.WINDOW: self._window,
            _State.LOST: self._lost,
        }
        self._events: deque[Window | Damage] = deque()
        self._cpu = CpuId(0)
        self._header_at = 0
        """Where the current window's header is."""
        self._claimed_end = 0
        """Where the current window ends, as its header says."""
        self._lost_at = 0
        """Where the damage begins behind which a window is searched."""

    def feed(self, data: bytes | memoryview) -> None:
        """Hand in the next bytes of the stream."""
        self._buffer.feed(data)

    def close(self) -> None:
        """Say that nothing follows."""
        self._buffer.close()

    def next_event(self) -> Window | Damage | None:
        """The next window or damage; None if more bytes are needed, or at the end."""
        if not self._buffer.worth_a_look():
            return None
        while not self._events:
            if self._state is _State.DONE or not self._steps[self._state]():
                return None
        return self._events.popleft()

    # Each step returns False when it can do nothing without more bytes, or at the end. All
    # positions are offsets in the stream.

    def _header(self) -> bool:
        buffer = self._buffer
        if not buffer.have(HEADER_BYTES):
            return self._short_tail() if buffer.closed else False
        found = buffer.header_at(buffer.at)
        if found is None:
            return self._no_header()
        if self._whole_windows():
            return True
        cpu, size = found
        self._cpu = CpuId(cpu)
        self._header_at = buffer.at
        buffer.at += HEADER_BYTES
        self._claimed_end = buffer.at + size
        self._state = _State.WINDOW
        return True

    def _whole_windows(self) -> bool:
        """What nearly all of a file is: windows without fault, at hand in whole."""
        buffer = self._buffer
        stop = buffer.at
        for cpu, start, stop in buffer.windows():
            if stop > start:
                self._events.append(Window(CpuId(cpu), start, buffer.payload(start, stop)))
        found = stop > buffer.at
        buffer.at = stop
        return found

    def _no_header(self) -> bool:
        buffer = self._buffer
        if buffer.at == 0:
            if not buffer.have(_HEAD_BYTES) and not buffer.closed:
                return False
            head = buffer.peek(_HEAD_BYTES)
            layout = fixed_layout(head, whole=len(head) < _HEAD_BYTES)
            if layout is not None:
                raise FormatError(
                    f"{layout}, a format this release does not read", offset=0,
                    hint="read it with the xentrace_format of Xen 3.0",
                )
        self._lost_at = buffer.at
        self._state = _State.LOST
        return True

    def _short_tail(self) -> bool:
        """The last bytes of the stream, too few for a cpu_change record."""
        buffer = self._buffer
        tail = buffer.peek(HEADER_BYTES)
        cut = MARK.startswith(tail[: len(MARK)])
        if buffer.at == 0 and not cut:
            raise FormatError(_NOT_A_TRACE, offset=0)
        if tail:
            early = HEADER_BYTES - len(tail)
            if cut:
                self._damage(
                    buffer.at, buffer.end + early,
                    f"the file ends inside a cpu_change record, {early} bytes before its end",
                )
            else:
                reason = "trailing bytes that are no cpu_change record"
                self._damage(buffer.at, buffer.end, reason)
        buffer.at = buffer.end
        self._state = _State.DONE
        return bool(tail)

    def _window(self) -> bool:
        buffer = self._buffer
        start, claimed = buffer.at, self._claimed_end
        # The next header is wanted too: it proves the window's size right.
        wanted = min(claimed - start + HEADER_BYTES, PIECE_BYTES)
        if not buffer.have(wanted) and not buffer.closed:
            return False
        end = min(claimed, buffer.end)
        stop = buffer.walk(start, end)
        if stop == claimed and buffer.may_end(stop):
            self._give(start, stop)
            self._state = _State.HEADER
        elif buffer.header_at(stop):
            self._give(start, stop)
            self._wrong_size()
            self._state = _State.HEADER
        elif end < claimed and not buffer.closed and end - stop < MAX_RECORD_BYTES:
            self._give(start, stop)
        else:
            return self._damaged_window(start, stop)
        return True

    def _damaged_window(self, start: int, stop: int) -> bool:
        """The row of records breaks at `stop`, the header says another end."""
        buffer, claimed = self._buffer, self._claimed_end
        cut = claimed > buffer.end and buffer.end - stop < MAX_RECORD_BYTES
        if cut and buffer.believed(start, stop) == stop:
            self._give(start, stop)
            early = claimed - buffer.end
            reason = f"the file ends inside a window, {early} bytes before the window's end"
            self._damage(stop, claimed, reason)
            buffer.at = buffer.end
        elif stop < claimed <= buffer.end and buffer.may_end(claimed):
            self._hole(start, stop)
        else:
            end = buffer.find_window(stop)
            if end is None:
                return self._give_up(start, stop)
            self._loose_end(start, stop, end)
        self._state = _State.HEADER
        return True

    def _hole(self, start: int, stop: int) -> None:
        """The window's end is sure, something inside is damaged."""
        keep = self._buffer.believed(start, stop)
        self._give(start, keep)
        self._islands(self._buffer.last_tsc(start, keep), keep, self._claimed_end)

    def _loose_end(self, start: int, stop: int, end: int) -> None:
        """Where the window ends is not known, but the next one starts at `end`."""
        keep = self._buffer.believed(start, end)
        if keep == end:
            self._give(start, keep)
            self._wrong_size()
            return
        # Past the first break only a row that runs right up to a window is believed.
        keep = min(keep, stop)
        self._give(start, keep)
        if self._claimed_end >= end:
            # All of it is this window's, says its header: some bytes of it are missing.
            self._islands(self._buffer.last_tsc(start, keep), keep, end)
        else:
            # Behind the claimed end may lie what was another CPU's window.
            self._damage(keep, end, _NO_HEADER if keep == self._claimed_end else self._why(keep))
        self._buffer.at = end

    def _islands(self, last_tsc: int, broken: int, end: int) -> None:
        """Give the believable rows of records between damaged places, up to the window's end."""
        while broken < end:
            again, stop = self._buffer.resume(last_tsc, broken, end)
            if again == end:
                # The last time may be what is damaged: a wrong bit made it too high.
                again, stop = self._buffer.resume(0, broken, end)
            self._damage(broken, again, self._why(broken))
            self._give(again, stop)
            if again < stop:
                last_tsc = self._buffer.last_tsc(again, stop)
            broken = stop

    def _give_up(self, start: int, stop: int) -> bool:
        """No window was found yet. Wait for more, but not with any amount in memory."""
        if self._buffer.end - start < 2 * PIECE_BYTES:
            return False
        self._give(start, self._buffer.believed(start, stop))
        self._lost_at = self._buffer.at
        self._state = _State.LOST
        return True

    def _lost(self) -> bool:
        """Search a window from here on, dropping what has been searched."""
        buffer = self._buffer
        found = buffer.find_window(buffer.at)
        at_start = self._lost_at == 0
        if found is None:
            buffer.at = buffer.searched
            if at_start and buffer.at > SEARCH_BYTES:
                raise FormatError(_NOT_A_TRACE, offset=0)
            return False
        if at_start and found == buffer.end:
            raise FormatError(_NOT_A_TRACE, offset=0)
        self._damage(self._lost_at, found, _NO_START if at_start else _NO_HEADER)
        buffer.at = found
        self._state = _State.HEADER
        return True

    def _give(self, start: int, stop: int) -> None:
        if stop > start:
            self._events.append(Window(self._cpu, start, self._buffer.payload(start, stop)))
        self._buffer.at = stop

    def _damage(self, start: int, end: int, reason: str) -> None:
        self._events.append(Damage(start, reason, end - start))

    def _wrong_size(self) -> None:
        """The records are whole, only the header does not say where they end."""
        first = self._header_at + HEADER_BYTES
        said, real = self._claimed_end - first, self._buffer.at - first
        reason = f"window size says {said} bytes, its records take {real}"
        self._events.append(Damage(self._header_at, reason, 0))

    def _why(self, at: int) -> str:
        zeros = self._buffer.payload(at, at + 4) == bytes(4)
        return "zeros where a record should start" if zeros else "what lies here is no record"
