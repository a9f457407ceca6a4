"""`xtracectl rotate`: seal the open segment and begin the next one."""

from __future__ import annotations

import argparse

from tracelib.units import format_size
from xtracectl.client import COMMAND_TIMEOUT, Client
from xtracectl.exits import Exit
from xtracectl.places import Options
from xtracectl.render.table import number_of

HELP = "seal the open segment and begin the next one"

_DESCRIPTION = """\
Seal the open segment and begin the next one. A sealed segment never changes again: copy or
read it as you like. Records that still wait in the rings go into the next one; `xtracectl
flush` first gets them into this one. Prints the name of the sealed file.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """`rotate` has no arguments of its own."""
    parser.description = _DESCRIPTION


def run(options: Options) -> int:
    """Ask for it and say what was sealed."""
    with Client(options.socket) as client:
        sealed = client.ask("rotate", gives=("sealed", "records", "bytes"), timeout=COMMAND_TIMEOUT)
    if sealed["sealed"] is None:
        print("nothing to seal: the open segment has no records")
    else:
        size = format_size(sealed["bytes"])
        print(f"{sealed['sealed']}: {number_of(sealed['records'], 'record')}, {size}")
    return Exit.OK
