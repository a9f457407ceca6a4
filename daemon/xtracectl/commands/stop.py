"""`xtracectl stop`: end the service, with nothing left behind."""

from __future__ import annotations

import argparse

from tracelib.errors import ServiceError
from tracelib.units import format_duration, parse_duration
from xtracectl.client import Client
from xtracectl.exits import Exit
from xtracectl.places import Options

HELP = "stop the service"

_DESCRIPTION = """\
Stop the service: tracing off, every ring drained once more, the segment sealed. Waits until
that is done. (Under systemd, `systemctl stop xtraced` does the same; this is for a service
that was started by hand.)
"""

_PATIENCE = 60 * 10**9


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `stop`."""
    parser.description = _DESCRIPTION
    parser.add_argument(
        "--no-wait", action="store_true", help="return as soon as the service has agreed to stop"
    )
    parser.add_argument(
        "--timeout", type=parse_duration, default=_PATIENCE, metavar="DURATION",
        help=f"how long to wait (default: {format_duration(_PATIENCE)})",
    )


def run(options: Options) -> int:
    """Ask for it and wait until the service has closed the connection."""
    with Client(options.socket) as client:
        pid = client.ask("stop", gives=("pid",))["pid"]
        if options.no_wait:
            print(f"stopping (pid {pid})")
        elif client.wait_closed(options.timeout / 10**9):
            print(f"stopped (pid {pid})")
        else:
            raise ServiceError(
                f"the service (pid {pid}) agreed to stop, but has not after"
                f" {format_duration(options.timeout)}",
                hint="it may be waiting for the disk; see xtracectl status",
            )
    return Exit.OK
