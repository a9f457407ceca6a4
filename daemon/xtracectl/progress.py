"""How far a long command has got: a line on the terminal, and nothing anywhere else."""

from __future__ import annotations

import os
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tracelib.kvmtrace.names import members
from tracelib.units import format_size

_PATIENCE = 2.0
"""Seconds that pass before anything is shown."""
_PAUSE = 0.25
"""Seconds between two lines."""


class Progress:
    """Bytes read, of all there are, with rate and time left. A context manager; what it
    shows is gone when it ends. May be entered again, for another part of the input."""

    def __init__(self, path: str, *, wanted: bool = True) -> None:
        """Of one input. `wanted`: False shows nothing, since the data is shown."""
        self._total = _size(path)
        self._read = 0
        self._started = time.monotonic()
        self._due = self._started + _PATIENCE
        self._shown = False
        self._wanted = wanted and sys.stderr is not None and sys.stderr.isatty()

    def add(self, size: int) -> None:
        """So many more bytes were read."""
        self._read += size
        if self._wanted and time.monotonic() >= self._due:
            self._show()

    def clear(self) -> None:
        """Make room for something else on the terminal."""
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = False

    def _show(self) -> None:
        now = time.monotonic()
        self._due = now + _PAUSE
        self._shown = True
        rate = self._read / max(now - self._started, 1e-9)
        line = f"{format_size(self._read)} read, {format_size(int(rate))}/s"
        if self._total and rate:
            left = max(0, self._total - self._read) / rate
            line += f", {min(100, 100 * self._read // self._total)} %, {left:.0f} s left"
        self._write(f"\r{line[:78]}\x1b[K")

    def _write(self, text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()


def _size(path: str) -> int:
    """Bytes of a file, or of a directory's or a set's files; 0 if that cannot be told."""
    try:
        if found := members(path):
            return sum(member.stat().st_size for member in found.values())
        status = Path(path).stat()
        if stat.S_ISDIR(status.st_mode):
            return sum(entry.stat().st_size for entry in os.scandir(path) if entry.is_file())
        return status.st_size if stat.S_ISREG(status.st_mode) else 0
    except OSError:
        return 0
