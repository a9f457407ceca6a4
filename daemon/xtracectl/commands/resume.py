"""`xtracectl resume`: switch tracing on again."""

from __future__ import annotations

import argparse

from xtracectl.client import COMMAND_TIMEOUT, Client
from xtracectl.exits import Exit
from xtracectl.places import Options

HELP = "switch tracing on again after a pause"

_DESCRIPTION = """\
Switch tracing on again after `xtracectl pause`, with the masks it had. Nothing happens if
the service collects already.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """`resume` has no arguments of its own."""
    parser.description = _DESCRIPTION


def run(options: Options) -> int:
    """Ask for it and say what state the service is in."""
    with Client(options.socket) as client:
        answer = client.ask("resume", gives=("state",), timeout=COMMAND_TIMEOUT)
    print(answer["state"])
    return Exit.OK
