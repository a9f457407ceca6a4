"""`xtracectl status`: is it collecting, what is it losing, what does it hold."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from tracelib.control.commands import DEFAULT_INTERVAL, check_args
from tracelib.errors import RefusedError, ServiceError
from tracelib.units import parse_duration
from xtracectl.client import TIMEOUT, Client
from xtracectl.exits import Exit
from xtracectl.places import Options
from xtracectl.render.status import render

HELP = "what the service does, loses and holds"

_DESCRIPTION = """\
Show what the service does, loses and holds: what is wrong first, then the rings of each
CPU, the writer and the store.

Exit codes: 0 collecting and healthy, 1 degraded or paused, 3 not running, 4 cannot tell.
"""

_SCHEMA = 1
"""The schema (tracelib.status.SCHEMA) that `render` knows; --json passes on any."""

_HOME, _CLEAR_LINE, _CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `status`."""
    parser.description = _DESCRIPTION
    parser.add_argument(
        "--json", action="store_true",
        help="everything, as one JSON object with a schema number; with --watch, one a line",
    )
    parser.add_argument(
        "--watch", nargs="?", type=parse_duration, const=DEFAULT_INTERVAL, metavar="SECONDS",
        help="show it again and again (every second, or so many; 500ms and 2m are fine too)",
    )


def run(options: Options) -> int:
    """Ask and show."""
    code = Exit.CANNOT_TELL
    try:
        for status in _statuses(options):
            _show(status, options)
            code = Exit.OK if status.get("healthy") is True else Exit.PROBLEMS
    except RefusedError as exc:
        # Whatever the reason: how the service is, nobody knows.
        raise ServiceError(f"no status: {exc}", hint=exc.hint) from exc
    return code


def _statuses(options: Options) -> Iterator[dict[str, Any]]:
    interval = options.watch
    if interval is not None:
        check_args("subscribe", {"interval": interval})
    with Client(options.socket) as client:
        if interval is None:
            yield client.ask("status")
        else:
            patience = interval / 10**9 + TIMEOUT
            yield from client.stream("subscribe", {"interval": interval}, patience=patience)


def _show(status: Mapping[str, Any], options: Options) -> None:
    watching = options.watch is not None
    if options.json:
        text = _json(status, indent=None if watching else 2)
    elif watching and sys.stdout.isatty():
        # Overwritten, not cleared first: a screen that goes blank in between flickers.
        lines = "".join(f"{line}{_CLEAR_LINE}\n" for line in _text(status).splitlines())
        text = f"{_HOME}{lines}{_CLEAR_REST}"
    else:
        text = _text(status) + ("\n" if watching else "")
    print(text, end="", flush=True)


def _json(status: Mapping[str, Any], *, indent: int | None) -> str:
    import json  # Takes some milliseconds, and most people want text.

    return json.dumps(status, indent=indent) + "\n"


def _text(status: Mapping[str, Any]) -> str:
    if status.get("schema") != _SCHEMA:
        raise ServiceError(
            f"the service's status has schema {status.get('schema')!r:.20}, not {_SCHEMA}",
            hint="use xtracectl and xtraced of the same release, or --json",
        )
    try:
        return render(status)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise ServiceError("the service's status makes no sense", hint="try --json") from exc
