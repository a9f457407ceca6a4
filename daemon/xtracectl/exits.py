"""Exit codes of xtracectl: one table, printed in xtracectl(1) too; a test compares them."""

from __future__ import annotations

import enum

from tracelib.errors import (
    DataError,
    NotRunningError,
    OutputError,
    RefusedError,
    ServiceError,
    UsageError,
    WorldError,
    XtraceError,
)


class Exit(enum.IntEnum):
    """How a run of xtracectl ended."""

    OK = 0
    PROBLEMS = 1
    USAGE = 2
    NOT_RUNNING = 3
    CANNOT_TELL = 4
    REFUSED = 5
    TROUBLE = 6
    OUTPUT = 7
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143
    """128 + the signal's number, as a shell reports it."""
    BROKEN_PIPE = 141
    """128 + SIGPIPE: what a program that does not ignore the signal ends with."""


MEANINGS: dict[Exit, str] = {
    Exit.OK: "fine; for status: the service collects and is healthy",
    Exit.PROBLEMS: "problems found in the data; for status: the service is degraded or paused",
    Exit.USAGE: "a wrong argument or configuration; nothing was done",
    Exit.NOT_RUNNING: "the service is not running",
    Exit.CANNOT_TELL: "the service could not be asked, so nobody knows: no permission, no "
    "answer in time, or an answer that makes no sense",
    Exit.REFUSED: "the service was asked and refused",
    Exit.TROUBLE: "a file or device could not be read or written",
    Exit.OUTPUT: "standard output is closed, full or failing",
    Exit.HUNG_UP: "the terminal hung up (SIGHUP); dump -f and top end with 0 or 1",
    Exit.INTERRUPTED: "interrupted from the keyboard (SIGINT); dump -f and top end with 0 or 1",
    Exit.TERMINATED: "asked to end (SIGTERM); dump -f and top end with 0 or 1",
    Exit.BROKEN_PIPE: "whoever read standard output left",
}

# The first class that fits.
_BY_ERROR: tuple[tuple[type[XtraceError], Exit], ...] = (
    (UsageError, Exit.USAGE),
    (DataError, Exit.PROBLEMS),
    (OutputError, Exit.OUTPUT),
    (NotRunningError, Exit.NOT_RUNNING),
    (RefusedError, Exit.REFUSED),
    (ServiceError, Exit.CANNOT_TELL),
    (WorldError, Exit.TROUBLE),
)


def exit_code(error: XtraceError) -> Exit:
    """The code for an error that ends the run."""
    return next(code for kind, code in _BY_ERROR if isinstance(error, kind))
