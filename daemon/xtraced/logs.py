"""The service's log: structlog on standard error, JSON for machines, plain lines for people.

Every call is one of structlog's synchronous ones: its asynchronous ones need asyncio.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TextIO

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

from tracelib.units import Nanoseconds
from xtraced.clock import Clock, SystemClock

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_SYSLOG = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}

BURST = 5
"""So many messages of one event are shown in an interval; the rest is folded."""
INTERVAL = Nanoseconds(60 * 10**9)


class Logs:
    """The log as configured: the handle to change its level and to flush what it folded."""

    def __init__(self, level: str, limiter: RateLimiter) -> None:
        self.level = level
        self._limiter = limiter

    def flush(self) -> None:
        """Say how much was folded since it was last said; at stop, or now and then."""
        for event, folded in self.take_folded().items():
            structlog.get_logger().info("messages_folded", of=event, folded=folded)

    def take_folded(self) -> dict[str, int]:
        """How many messages of each event were folded and not told yet; they count as told."""
        return self._limiter.take_folded()

    def _filter(self, _: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if _LEVELS.get(method, 50) < _LEVELS[self.level]:
            raise structlog.DropEvent
        return event


def configure(
    level: str, format: str, *, stream: TextIO | None = None, clock: Clock | None = None
) -> Logs:
    """Set structlog up for the whole process: to standard error, by the machine's clock.

    `level` and `format` are what the [log] section says.
    """
    stream = sys.stderr if stream is None else stream
    clock = SystemClock() if clock is None else clock
    limiter = RateLimiter(clock)
    logs = Logs(level, limiter)
    console = format == "console" or (format == "auto" and stream.isatty())
    structlog.configure(
        processors=[
            logs._filter,
            limiter,
            structlog.processors.add_log_level,
            _timestamper(clock),
            *(_console(stream) if console else _json(stream)),
        ],
        # Passes everything; `_filter` decides, since a reload changes the level.
        wrapper_class=structlog.make_filtering_bound_logger(0),
        logger_factory=lambda *_: _StreamLogger(stream),
        # Loggers made at import time must follow a configuration that comes later.
        cache_logger_on_first_use=False,
    )
    return logs


@dataclass(slots=True)
class _Window:
    start: Nanoseconds
    shown: int = 0
    folded: int = 0


class RateLimiter:
    """A structlog processor: at most BURST warnings of one event (and CPU) per INTERVAL.

    The first one shown after some were folded says how many, as `folded`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._windows: dict[tuple[str, object], _Window] = {}
        # The writer thread logs too, and a count that loses one is no count.
        self._lock = threading.Lock()

    def __call__(self, _: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if _LEVELS.get(method, 50) < _LEVELS["warning"]:
            return event
        with self._lock:
            window = self._window((str(event["event"]), event.get("cpu")))
            if window.shown == BURST:
                window.folded += 1
                raise structlog.DropEvent
            window.shown += 1
            if window.folded:
                event["folded"], window.folded = window.folded, 0
        return event

    def take_folded(self) -> dict[str, int]:
        """How many of each event were folded and not told yet; they count as told now."""
        folded: dict[str, int] = {}
        with self._lock:
            for (event, _), window in self._windows.items():
                if window.folded:
                    folded[event] = folded.get(event, 0) + window.folded
                    window.folded = 0
        return folded

    def _window(self, key: tuple[str, object]) -> _Window:
        now = self._clock.monotonic()
        window = self._windows.setdefault(key, _Window(now))
        if now - window.start >= INTERVAL:
            window.start, window.shown = now, 0
        return window


class _StreamLogger:
    """Writes lines. One that cannot be written (a full disk, a pipe without a reader) is
    dropped: the log must not stop the collection."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # ValueError: the stream is closed.
            return

    debug = info = warning = error = critical = msg


def _timestamper(clock: Clock) -> Processor:
    def stamp(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        seconds, rest = divmod(clock.realtime(), 10**9)
        now = datetime.fromtimestamp(seconds, UTC)
        # First in its line, since the eye looks for it there; level and event follow.
        first = {"timestamp": f"{now:%Y-%m-%dT%H:%M:%S}.{rest // 10**6:03}Z"}
        return {**first, "level": event.pop("level"), "event": event.pop("event"), **event}

    return stamp


def _console(stream: TextIO) -> list[Processor]:
    render = structlog.dev.ConsoleRenderer(
        colors=stream.isatty(),
        pad_event_to=24,
        # Not rich's, which depends on what else is installed.
        exception_formatter=structlog.dev.plain_traceback,
    )
    return [render]


def _json(stream: TextIO) -> list[Processor]:
    render = structlog.processors.JSONRenderer(default=str)
    if not goes_to_journal(stream):
        return [structlog.processors.format_exc_info, render]

    def render_with_priority(logger: WrappedLogger, method: str, event: EventDict) -> str:
        # "<4>" before a line is its priority; the journal takes it off (sd-daemon(3)).
        return f"<{_SYSLOG.get(method, 3)}>{render(logger, method, event)!s}"

    return [structlog.processors.format_exc_info, render_with_priority]


def goes_to_journal(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the stream is the one that systemd connected to the journal (systemd.exec(5),
    $JOURNAL_STREAM: device and inode)."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):  # ValueError: closed, or no descriptor behind it.
        return False
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"
