"""`xtracectl pause`: switch tracing off; the service stays."""

from __future__ import annotations

import argparse

from xtracectl.client import COMMAND_TIMEOUT, Client
from xtracectl.exits import Exit
from xtracectl.places import Options

HELP = "switch tracing off, and keep the service"

_DESCRIPTION = """\
Switch tracing off in the hypervisor: guests run as if nobody traced. What was recorded is
kept, and status says "paused". `xtracectl resume` goes on.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """`pause` has no arguments of its own."""
    parser.description = _DESCRIPTION


def run(options: Options) -> int:
    """Ask for it and say what state the service is in."""
    with Client(options.socket) as client:
        answer = client.ask("pause", gives=("state",), timeout=COMMAND_TIMEOUT)
    print(answer["state"])
    return Exit.OK
