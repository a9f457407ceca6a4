"""How `top` looks at a sample, and what its keys change: no terminal here, only state."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tracelib.errors import UsageError
from tracelib.units import Nanoseconds, format_duration, parse_duration

SHORTEST = Nanoseconds(100_000_000)
DELAY = Nanoseconds(3_000_000_000)
LONGEST = Nanoseconds(3_600_000_000_000)

VIEWS = ("domain", "vcpu", "cpu")

SORTS = {
    "domain": ("name", "vcpus", "cpu", "wait", "blocked", "unseen", "mwait", "runs", "exits",
               "cost", "calls"),
    "vcpu": ("name", "cpu", "wait", "blocked", "unseen", "mwait", "runs", "exits", "cost",
             "calls"),
    "cpu": ("name", "cpu", "idle", "switch", "unseen", "records", "lost", "gaps"),
}  # fmt: skip
"""What rows can be sorted by, column by column from the left."""

ENTER, ESCAPE, BACKSPACE = "\n", "\x1b", "\x7f"

UP, DOWN, PAGE_UP, PAGE_DOWN, HOME, END = "up", "down", "pageup", "pagedown", "home", "end"
BACK, REDRAW = "back", "redraw"
"""Keys that are no characters, as `View.press` knows them."""

_VIEW_KEYS = {"D": "domain", "V": "vcpu", "1": "cpu"}
_SORT_KEYS = {
    "N": "name", "P": "cpu", "W": "wait", "M": "mwait", "X": "runs", "E": "exits", "C": "calls",
}  # fmt: skip
_MOVES = {UP: -1, DOWN: 1, PAGE_UP: -20, PAGE_DOWN: 20, HOME: -(1 << 30), END: 1 << 30}

_TYPED_AT_MOST = 20


class Act(enum.Enum):
    """What is to be done after a key."""

    NOTHING = enum.auto()
    DRAW = enum.auto()
    SAMPLE = enum.auto()
    """Take the next sample now."""
    BACK = enum.auto()
    """Go back to the sample before."""
    QUIT = enum.auto()


_ACTS = {
    "q": Act.QUIT, " ": Act.SAMPLE, ENTER: Act.SAMPLE, BACK: Act.BACK, "b": Act.BACK,
    REDRAW: Act.DRAW,
}  # fmt: skip


@dataclass(slots=True)
class View:
    """What is shown of a sample, in which order."""

    by: str = "domain"
    sort: str = "cpu"
    reverse: bool = False
    """The least first."""
    delay: Nanoseconds = DELAY
    live: bool = True
    """Samples come with time; else they are stepped through, and `delay` is what it is."""
    offset: int = 0
    """The first row that is shown."""
    help: bool = False
    typed: str | None = None
    """What was typed of a new delay; None if it is not asked for."""
    message: str = ""

    def scrolled(self, rows: int, room: int) -> int:
        """The first row to show of so many, if there is room for `room`."""
        self.offset = min(max(0, self.offset), max(0, rows - room))
        return self.offset

    def press(self, key: str) -> Act:
        """A key: a character, or one of the names above."""
        self.message = ""
        if self.typed is not None:
            return self._type(key)
        if self.help:
            self.help = False
            return Act.QUIT if key == "q" else Act.DRAW
        if key in _MOVES:
            self.offset = max(0, self.offset + _MOVES[key])
        elif key in _VIEW_KEYS:
            self._look_by(_VIEW_KEYS[key])
        elif key in _SORT_KEYS and _SORT_KEYS[key] in SORTS[self.by]:
            self.sort = _SORT_KEYS[key]
        elif key in ("<", ">"):
            self._sort_beside(1 if key == ">" else -1)
        elif key == "S":
            self._sort_beside(1)
        elif key == "R":
            self.reverse = not self.reverse
        elif key in ("h", "?"):
            self.help = True
        elif key in ("d", "s"):
            self._ask_delay()
        else:
            return _ACTS.get(key, Act.NOTHING)
        return Act.DRAW

    def _ask_delay(self) -> None:
        if self.live:
            self.typed = ""
        else:
            self.message = "how long an interval of an input is, -d says"

    def _look_by(self, by: str) -> None:
        """The same key again goes back to domains."""
        self.by = "domain" if self.by == by else by
        self.offset = 0
        if self.sort not in SORTS[self.by]:
            self.sort = "cpu"

    def _sort_beside(self, step: int) -> None:
        row = SORTS[self.by]
        self.sort = row[(row.index(self.sort) + step) % len(row)]

    def _type(self, key: str) -> Act:
        """One more character of the delay."""
        assert self.typed is not None
        if key == ENTER:
            self._set_delay(self.typed)
            self.typed = None
        elif key == ESCAPE:
            self.typed = None
        elif key == BACKSPACE:
            self.typed = self.typed[:-1]
        elif len(key) == 1 and key.isprintable() and len(self.typed) < _TYPED_AT_MOST:
            self.typed += key
        return Act.DRAW

    def _set_delay(self, text: str) -> None:
        if not text.strip():
            return
        try:
            self.delay = parse_delay(text)
        except UsageError as error:
            self.message = error.message
        else:
            self.message = f"every {format_duration(self.delay)}"


def parse_delay(text: str) -> Nanoseconds:
    """Seconds, or a duration such as 500ms. Raises UsageError."""
    delay = parse_duration(text)
    if not SHORTEST <= delay <= LONGEST:
        low, high = format_duration(SHORTEST), format_duration(LONGEST)
        raise UsageError(f"a delay is {low} to {high}, not {text.strip()}")
    return delay
