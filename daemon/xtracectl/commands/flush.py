"""`xtracectl flush`: everything that is in the rings now, onto the disk."""

from __future__ import annotations

import argparse

from tracelib.units import format_size
from xtracectl.client import COMMAND_TIMEOUT, Client
from xtracectl.exits import Exit
from xtracectl.places import Options
from xtracectl.render.table import number_of

HELP = "bring everything that is in the rings onto the disk"

_DESCRIPTION = """\
Drain every ring now and wait until its records are safe on the disk. Without it, records of
a quiet CPU stay in its ring for up to the flush interval (collect.flush_interval).
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """`flush` has no arguments of its own."""
    parser.description = _DESCRIPTION


def run(options: Options) -> int:
    """Ask for it and say how much it was."""
    with Client(options.socket) as client:
        stored = client.ask("flush", gives=("records", "bytes"), timeout=COMMAND_TIMEOUT)
    size = format_size(stored["bytes"])
    print(f"{number_of(stored['records'], 'record')} ({size}) drained and stored")
    return Exit.OK
