"""The command line of `xtraced`: arguments in, an exit code out.

What the codes mean is a table in xtraced(8); the unit's RestartPreventExitStatus relies on
it. trio and all that collects are imported only once there is something to collect.
"""

from __future__ import annotations

import argparse
import enum
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tracelib.errors import (
    ConfigError,
    LockedError,
    SourceError,
    StoreError,
    UsageError,
    XtraceError,
)
from tracelib.ring import fastpath
from tracelib.version import VERSION
from xtraced import config
from xtraced.checks import warnings
from xtraced.config import Override
from xtraced.describe import shown
from xtraced.settings import TABLE, Settings


class Exit(enum.IntEnum):
    """Exit codes of `xtraced`."""

    FINE = 0
    FAILED = 1
    """Stopped with data lost at the stop, or for a reason that has no code of its own."""
    USAGE = 2
    SOURCE_REFUSED = 3
    LOCKED = 4
    STORE_REFUSED = 5


_BY_ERROR: tuple[tuple[type[XtraceError], Exit], ...] = (
    (UsageError, Exit.USAGE),
    (SourceError, Exit.SOURCE_REFUSED),
    (LockedError, Exit.LOCKED),
    (StoreError, Exit.STORE_REFUSED),
    (XtraceError, Exit.FAILED),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service in the foreground; the exit code (argparse exits by itself for usage)."""
    arguments = build_parser().parse_args(argv)
    try:
        return _main(arguments)
    except XtraceError as error:
        _complain(error)
        return exit_code(error)


def exit_code(error: XtraceError) -> Exit:
    """The code for an error that ends the service."""
    return next(code for cls, code in _BY_ERROR if isinstance(error, cls))


def build_parser() -> argparse.ArgumentParser:
    """The arguments; xtraced(8) names each of them, and a test compares."""
    parser = argparse.ArgumentParser(
        prog="xtraced",
        description="Collect a Xen host's trace records, around the clock, into a bounded store.",
        epilog="Settings and their defaults: xtraced.toml(5). Exit codes: xtraced(8).",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help=f"configuration file ({config.DEFAULT_PATH})")
    override = partial(add, dest="overrides", action="append", default=[])
    for option, key, metavar in _SHORTHANDS:
        override(
            option, type=partial(Override, option, key), metavar=metavar, help=f"the setting {key}"
        )
    override(
        "--set", type=_assignment, metavar="KEY=VALUE",
        help="any setting; beats the file; may be repeated",
    )
    add(
        "--check-config", action="store_true",
        help="say what is wrong with the settings, or what they come to, and exit",
    )
    add("--version", action="store_true", help="say version and fast path, and exit")
    return parser


_SHORTHANDS = (
    ("--source", "source.kind", "xen|sim|file:PATH"),
    ("--store", "store.directory", "DIR"),
    ("--socket", "control.socket", "PATH"),
)


def summary(settings: Settings, path: Path | None) -> str:
    """What the settings come to: each that is not at its default, and how many are."""
    defaults = Settings()
    own = [key for key in TABLE if settings.get(key) != defaults.get(key)]
    lines = [f"{path or 'no configuration file'}: no problems"]
    lines += [f"  {key} = {shown(key, settings.get(key))}" for key in own]
    lines += [f"warning: {warning}" for warning in warnings(settings)]
    lines.append(f"{len(TABLE) - len(own)} settings have their default values")
    return "\n".join(lines)


def _main(arguments: argparse.Namespace) -> int:
    if arguments.version:
        sys.stdout.write(f"{_version()}\n")
        return Exit.FINE
    path = config.find(arguments.config)
    settings = config.load(path, arguments.overrides)
    if arguments.check_config:
        sys.stdout.write(f"{summary(settings, path)}\n")
        return Exit.FINE
    # Until the service handles them; the default would be to die, although neither means that.
    for early in (signal.SIGHUP, signal.SIGUSR1):
        signal.signal(early, signal.SIG_IGN)
    from xtraced import app

    def reload(current: Settings) -> config.Reloaded:
        return config.reload(current, config.find(arguments.config), arguments.overrides)

    return app.run(settings, reload)


def _version() -> str:
    how = "compiled" if fastpath.COMPILED else "not compiled: plain Python, slower"
    return f"xtraced {VERSION} (fast path {how})"


def _assignment(text: str) -> Override:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return Override("--set", key.strip(), value.strip())


def _complain(error: XtraceError) -> None:
    """One line for each thing that is wrong, and a hint where there is one."""
    problems = error.problems if isinstance(error, ConfigError) else (error.message,)
    for problem in problems:
        sys.stderr.write(f"xtraced: {problem}\n")
    if error.hint is not None:
        sys.stderr.write(f"hint: {error.hint}\n")
