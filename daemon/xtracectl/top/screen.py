"""`top` on a terminal: keys in, a screen out. What is on it is decided elsewhere.

The terminal is restored however this ends: by a key, a signal or an error.
"""

from __future__ import annotations

import curses
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from xtracectl.render.top import Screen, help_screen, screen, waiting
from xtracectl.stopping import Stopped
from xtracectl.top import view as topview
from xtracectl.top.loop import NANO, Samples
from xtracectl.top.sampling import Sample
from xtracectl.top.view import Act, View

_FIRST = 1.0
"""Seconds that the first sample takes at most: an empty screen says nothing."""

_HISTORY = 200
"""So many samples of an input can be gone back to."""

_ESCAPE_MS = 25
"""Milliseconds after which an escape is a key of its own."""

_FORM_FEED = "\x0c"

_NAMES = {
    curses.KEY_UP: topview.UP, curses.KEY_DOWN: topview.DOWN,
    curses.KEY_LEFT: topview.BACK, curses.KEY_RIGHT: " ",
    curses.KEY_PPAGE: topview.PAGE_UP, curses.KEY_NPAGE: topview.PAGE_DOWN,
    curses.KEY_HOME: topview.HOME, curses.KEY_END: topview.END,
    curses.KEY_ENTER: topview.ENTER, curses.KEY_BACKSPACE: topview.BACKSPACE,
    curses.KEY_RESIZE: topview.REDRAW, "\r": topview.ENTER, "\b": topview.BACKSPACE,
    _FORM_FEED: topview.REDRAW,
}  # fmt: skip


def is_capable() -> bool:
    """Whether the terminal can be drawn on."""
    try:
        curses.setupterm(os.environ.get("TERM", "dumb"), sys.__stdout__.fileno())  # type: ignore[union-attr]
    except curses.error:
        return False
    return bool(curses.tigetstr("cup") and curses.tigetstr("clear"))


def on_terminal(samples: Samples, view: View, count: int | None) -> int:
    """Until q, a signal, or so many samples; the exit code."""
    try:
        with _terminal() as window:
            _Loop(window, samples, view, count).run()
    except Stopped:
        if not samples.live:
            raise
    return samples.code()


@contextmanager
def _terminal() -> Iterator[curses.window]:
    curses.set_escdelay(_ESCAPE_MS)
    window = curses.initscr()
    try:
        curses.noecho()
        curses.cbreak()
        window.keypad(True)
        with suppress(curses.error):
            # Not every terminal can hide it.
            curses.curs_set(0)
        yield window
    finally:
        with suppress(curses.error):
            curses.curs_set(1)
        curses.endwin()


class _Loop:
    def __init__(
        self, window: curses.window, samples: Samples, view: View, count: int | None
    ) -> None:
        self._window = window
        self._samples = samples
        self._view = view
        self._left = count
        self._shown: deque[Sample] = deque(maxlen=_HISTORY if not samples.live else 1)
        self._back = 0
        """How many samples back the one is that is looked at."""
        self._due = time.monotonic() + min(_FIRST, view.delay / NANO)

    def run(self) -> None:
        if not self._samples.live:
            self._take()
        act = Act.DRAW
        while act is not Act.QUIT:
            if act is Act.SAMPLE:
                if self._left == 0:
                    return
                self._take()
            if act is not Act.NOTHING:
                self._draw()
            act = self._wait()

    def _take(self) -> None:
        """The next sample: one that was left by going back, or a new one."""
        self._due = time.monotonic() + self._view.delay / NANO
        if self._back:
            self._back -= 1
            return
        sample = self._samples.next()
        if sample is not None:
            self._shown.append(sample)
            self._left = None if self._left is None else self._left - 1
        elif not self._samples.live:
            self._view.message = "this is the end"

    def _wait(self) -> Act:
        """For a key, or for the next sample."""
        left = self._due - time.monotonic()
        self._window.timeout(max(0, round(left * 1000)) if self._samples.live else -1)
        try:
            key = self._window.get_wch()
        except curses.error:
            # Nothing was pressed in time, or a signal came that means nothing to us.
            late = self._samples.live and time.monotonic() >= self._due
            return Act.SAMPLE if late else Act.NOTHING
        act = self._view.press(_NAMES.get(key, key if isinstance(key, str) else ""))
        if act is Act.BACK:
            self._back = min(self._back + 1, max(0, len(self._shown) - 1))
            return Act.DRAW
        if key == curses.KEY_RESIZE:
            curses.update_lines_cols()
        elif key == _FORM_FEED:
            # Something else has written on the terminal.
            self._window.redrawwin()
        return act

    def _draw(self) -> None:
        height, width = self._window.getmaxyx()
        drawn = self._screen(width, height)
        self._window.erase()
        for row, line in enumerate(drawn.lines[:height]):
            look = curses.A_REVERSE if row == drawn.heads else curses.A_NORMAL
            if line.startswith("!"):
                look = curses.A_BOLD
            with suppress(curses.error):
                # The last cell of the last row cannot be passed.
                self._window.addnstr(row, 0, line.ljust(width), width, look)
        self._window.refresh()

    def _screen(self, width: int, height: int) -> Screen:
        if self._view.help:
            return help_screen(self._view, width, height)
        if not self._shown:
            return waiting(self._samples.trouble, self._view, width, height)
        sample = self._shown[-1 - self._back]
        if self._samples.trouble:
            sample = replace(sample, notes=(*sample.notes, self._samples.trouble))
        return screen(sample, self._view, width, height)
