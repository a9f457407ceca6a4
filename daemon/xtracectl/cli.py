"""The command line of `xtracectl`: arguments in, an exit code out.

A command is a module of xtracectl.commands with three names:

    HELP                    one line for `xtracectl --help`
    configure(parser)       adds its arguments, and a description that teaches
    run(options) -> int     carries it out; `options` has the arguments, and store and socket

Only the module of the command that was asked for is imported: `xtracectl status` has to
answer before the reading side's libraries would be loaded.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol, cast

from tracelib.errors import UsageError, XtraceError
from tracelib.version import VERSION
from xtracectl import output, stopping
from xtracectl.exits import Exit, exit_code
from xtracectl.places import DEFAULT_CONFIG, DEFAULT_SOCKET, DEFAULT_STORE, Options, parse_path

COMMANDS = (
    "status", "top", "dump", "summary", "diff", "distribution", "info", "verify", "repair",
    "rotate", "flush", "pause", "resume", "mask", "snapshot", "stop",
)

_DESCRIPTION = """\
Show what xtraced does, and read what it kept.

  xtracectl status              is it collecting, what is it losing, what does it hold
  xtracectl top                 what the guests do right now
  xtracectl dump                the records, decoded and in time order
  xtracectl dump x.trace        those of a file: xentrace's, or one of our segments
  xtracectl summary             what the guests did: exits, runstates, hypercalls, losses
  xtracectl COMMAND --help      more about a command
"""

_EPILOG = """\
Exit codes: 0 fine, 1 problems (status: degraded), 2 usage, 3 not running, 4 cannot tell;
xtracectl(1) has all of them.
"""


_OBJECTS = 100_000
"""So many new objects before rubbish is looked for. Imports make thousands, which stay: an
eighth of the time that a small capture takes went into looking through them."""


class Command(Protocol):
    """What a module of xtracectl.commands looks like."""

    HELP: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Options], int]


class Parser(argparse.ArgumentParser):
    """argparse, with mistakes reported as all others are."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"{self.prog} --help")


def program() -> int:
    """`main`, for a process that does nothing else."""
    gc.set_threshold(_OBJECTS)
    code = main()
    # All goes anyway: not to be looked through a last time.
    gc.freeze()
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Nothing that is expected to go wrong is a traceback."""
    try:
        with stopping.raised(), output.checked():
            return _run(sys.argv[1:] if argv is None else argv)
    except XtraceError as error:
        output.complain(error.message, error.hint)
        return exit_code(error)
    except BrokenPipeError:
        return Exit.BROKEN_PIPE
    except stopping.Stopped as stopped:
        return 128 + stopped.signal


def _run(argv: Sequence[str]) -> int:
    options = Options()
    try:
        build_parser(_command_in(argv)).parse_args(argv, options)
    except SystemExit:
        # --help and --version have printed what they had to, and exit is how argparse says so.
        return Exit.OK
    return load(options.command).run(options)


def load(name: str) -> Command:
    """The module of a command."""
    return cast(Command, importlib.import_module(f"xtracectl.commands.{name}"))


def build_parser(only: str | None = None) -> Parser:
    """The arguments of all commands, or of `only` one: its module alone is imported."""
    parser = Parser(
        prog="xtracectl", description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"xtracectl {VERSION}")
    _add_places(parser, None)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS if only is None else (only,):
        command = load(name)
        sub = commands.add_parser(
            name, help=command.HELP, description=command.HELP, allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        _add_places(sub, argparse.SUPPRESS)
        command.configure(sub)
    return parser


def _add_places(parser: argparse.ArgumentParser, default: str | None) -> None:
    """The options that stand before or after the command."""
    add = parser.add_argument_group("places").add_argument
    add(
        "--store", type=parse_path, metavar="DIR", dest="given_store", default=default,
        help=f"where segments are kept (default: the configuration's, or {DEFAULT_STORE})",
    )
    add(
        "--socket", type=parse_path, metavar="PATH", dest="given_socket", default=default,
        help=f"where the service listens (default: the configuration's, or {DEFAULT_SOCKET})",
    )
    add(
        "--config", type=parse_path, metavar="FILE", dest="given_config", default=default,
        help=f"the configuration that says so (default: {DEFAULT_CONFIG})",
    )


_PLACES = ("--store", "--socket", "--config")


def _command_in(argv: Sequence[str]) -> str | None:
    """The command, if it is one; None to have argparse say what is wrong, or help."""
    words = iter(argv)
    for word in words:
        if word in _PLACES:
            next(words, None)
        elif not word.startswith("-"):
            return word if word in COMMANDS else None
        elif word in ("-h", "--help"):
            return None
    return None
