"""`xtracectl snapshot`: keep what was recorded until now, whatever retention does."""

from __future__ import annotations

import argparse

from tracelib.units import format_size, parse_duration
from xtracectl.client import COMMAND_TIMEOUT, Client
from xtracectl.exits import Exit
from xtracectl.places import Options
from xtracectl.render.table import moment, number_of

HELP = "keep what was recorded until now, whatever retention deletes"

_DESCRIPTION = """\
Bring everything that is in the rings onto the disk, seal the open segment, and give all
sealed segments, or those of the last minutes, a second name in a new directory below the
store's `snapshots`. Retention does not touch it; read it like any store, and delete it when
it is no longer needed. It takes no room as long as the store has those segments too.

Prints the directory's name first.
"""

_EPILOG = """\
examples:
  xtracectl snapshot --last 10m
  xtracectl summary "$(xtracectl snapshot --last 1m | head -n 1)"
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds --last."""
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.add_argument(
        "--last", metavar="DURATION", type=parse_duration,
        help="only segments with records of so long a time, such as 10m (default: all)",
    )


def run(options: Options) -> int:
    """Ask for it and say what was kept."""
    args = {} if options.last is None else {"last": options.last}
    gives = ("path", "segments", "records", "bytes", "first", "last")
    with Client(options.socket) as client:
        kept = client.ask("snapshot", args, gives=gives, timeout=COMMAND_TIMEOUT)
    if kept["path"] is None:
        print("nothing to keep: no segment has records of that time")
        return Exit.OK
    print(kept["path"])
    what = f"{number_of(kept['segments'], 'segment')}, {number_of(kept['records'], 'record')}"
    print(f"  {what}, {format_size(kept['bytes'])}")
    if kept["first"] is not None:
        print(f"  from {moment(kept['first'])} to {moment(kept['last'])}")
    return Exit.OK
