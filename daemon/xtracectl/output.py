"""Standard output, with its failures told apart once for all commands.

Python buffers: a full disk or a reader that left shows at some later print, or when the
interpreter exits, and then as noise and exit code 120. Here everything is written before
the exit code is decided, and what cannot be written is OutputError or BrokenPipeError.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tracelib.errors import OutputError
from xtracectl.stopping import Stopped, hurried

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_BUFFER_BYTES = 65536


class _Descriptor(io.RawIOBase):
    """A descriptor whose errors say that it is our output that failed, not just any file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def write(self, data: ReadableBuffer, /) -> int:
        while True:
            try:
                return os.write(self._fd, data)
            except BlockingIOError:
                # Somebody who shares the pipe or terminal has made it non-blocking.
                select.select([], [self._fd], [])
            except BrokenPipeError:
                raise
            except OSError as exc:
                raise OutputError(f"cannot write output: {exc.strerror}", errno=exc.errno) from exc


@contextmanager
def checked() -> Iterator[None]:
    """Run a command whose output counts: all of it is written when this ends.

    Raises OutputError or BrokenPipeError, now or from any print, if it cannot be.
    """
    plain = sys.__stdout__
    if plain is None or sys.stdout is None:
        # The shell's >&-. Anything opened now would be descriptor 1, the socket included.
        raise OutputError("standard output is closed")
    if sys.stdout is not plain:
        # A test captures it.
        yield
        return
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(plain.fileno()), _BUFFER_BYTES),
        # File names may be anything; printing them must not fail.
        encoding=plain.encoding, errors="backslashreplace", line_buffering=plain.isatty(),
    )
    stopped: Stopped | None = None
    try:
        yield
    except Stopped as exc:
        stopped = exc
        raise
    finally:
        # Also for what was printed before an error, which is reported after it.
        try:
            with hurried(stopped):
                sys.stdout.flush()
        except (OutputError, BrokenPipeError, Stopped):
            _discard(plain.fileno())
            raise


def _discard(fd: int) -> None:
    """Let what is still buffered go nowhere, quietly, when the interpreter exits."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, fd)
    os.close(null)


def complain(message: str, hint: str | None = None) -> None:
    """Say what is wrong on standard error, if there is one that takes it."""
    if sys.stderr is None:
        return
    text = f"xtracectl: {message}\n" + (f"  hint: {hint}\n" if hint else "")
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
