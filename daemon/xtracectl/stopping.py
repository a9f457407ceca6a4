"""Signals that ask to end, as an exception: files are then tidied up, and the exit code says
which signal it was.

SIGINT, SIGTERM and SIGHUP raise Stopped wherever the program is, with two exceptions. What
`held` encloses, a piece of output, is finished first if that takes no longer than a second
(a reader that takes nothing must not keep us from ending). And a signal that comes again at
once is the same request: timeout(1) sends it to the process and then to its group.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_SAME = 0.5
"""Seconds within which a second signal is the same request."""
_HELD_AT_MOST = 1.0
"""Seconds."""


class Stopped(KeyboardInterrupt):
    """Somebody asks us to end; `signal` says how."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.signal = number


class _State:
    """Of the process: so are signals."""

    def __init__(self) -> None:
        self.holders = 0
        self.waiting: int | None = None
        """A signal that came while output was held."""
        self.last = -_SAME


_state = _State()


@contextmanager
def raised() -> Iterator[None]:
    """Raise Stopped for these signals inside; afterwards they do what they did before.
    Those that are ignored, as below nohup(1), stay so."""
    ours = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, _stop) for number in ours}
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, _out_of_patience)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _state.last = -_SAME


@contextmanager
def held() -> Iterator[None]:
    """Do something to its end, unless that takes too long, before Stopped is raised."""
    _state.holders += 1
    try:
        yield
    finally:
        _state.holders -= 1
        if not _state.holders and _state.waiting is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            _raise_waiting()


@contextmanager
def hurried(stopped: Stopped | None) -> Iterator[None]:
    """Do what is left to do after Stopped was raised; it is raised again after a second."""
    if stopped is not None:
        _state.waiting = stopped.signal
        signal.setitimer(signal.ITIMER_REAL, _HELD_AT_MOST)
    try:
        yield
    finally:
        if stopped is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            _state.waiting = None


def _stop(number: int, _: FrameType | None) -> None:
    now = time.monotonic()
    if now < _state.last + _SAME:
        return
    _state.last = now
    if _state.holders and _state.waiting is None:
        _state.waiting = number
        signal.setitimer(signal.ITIMER_REAL, _HELD_AT_MOST)
    else:
        _state.waiting = None
        raise Stopped(number)


def _out_of_patience(*_: object) -> None:
    if _state.waiting is not None:
        _raise_waiting()


def _raise_waiting() -> None:
    number, _state.waiting = _state.waiting, None
    assert number is not None
    raise Stopped(number)
