"""`xtracectl top`: who has the CPUs, who waits for one, what it costs, as it happens."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from tracelib.errors import UsageError
from tracelib.units import Nanoseconds
from xtracectl.inputs import add_clock, add_vendor, add_xen_version, refuse_kvmtrace
from xtracectl.places import Options
from xtracectl.top.view import DELAY, SORTS, VIEWS, View, parse_delay

if TYPE_CHECKING:
    from xtracectl.answers.summarizing import Request
    from xtracectl.top.loop import Samples

HELP = "watch what the guests do: CPU time, waits, VM exits, hypercalls, losses"

_FROM_INPUT = Nanoseconds(1_000_000_000)

_DESCRIPTION = """\
Show, again and again, what the guests did in the last seconds: time on a CPU, waiting for
one and blocked; how long waits were; how often they were put on a CPU; VM exits, their
reasons and what they cost; hypercalls; and what nobody saw because records were lost.

Without INPUT, of the running service, live: each time its rings are flushed. With INPUT,
of a store, a segment or a trace file, interval by interval.

On a terminal, keys change what is shown; h says which. Anywhere else, and with --batch or
--json, everything is printed, one table or line after the other: of an input as fast as
it can be read.

Percentages are of one CPU's time. A domain's are sums: two busy vCPUs are 200.
"""

_EPILOG = """\
examples:
  xtracectl top
  xtracectl top -n 1 -d 10 --by vcpu > load.txt
  xtracectl top x.trace --cpu-hz 2.4G -d 100ms --batch
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    add = parser.add_argument
    add(
        "input", nargs="?", metavar="INPUT",
        help="a store's directory, a segment, an xentrace file, or - for standard input "
        "(default: the running service, live)",
    )
    add(
        "-d", "--delay", metavar="SECONDS", type=parse_delay,
        help="how long each interval is, such as 0.5 or 500ms (default: 3; from INPUT 1)",
    )
    add("-n", "--count", metavar="N", type=int, help="end after so many intervals")
    add(
        "-b", "--batch", action="store_true", help="print tables, also on a terminal",
    )
    add(
        "--by", choices=VIEWS, default="domain",
        help="whose rows to show at first (default: domain)",
    )
    add(
        "--sort", metavar="COLUMN", default="cpu",
        help=f"the column to sort by, the most first: {', '.join(_columns())} (default: cpu)",
    )
    add("--domain", metavar="ID", help="only this domain and its vCPUs")
    add("--json", action="store_true", help="one JSON object an interval, on a line, schema 1")
    add_vendor(parser)
    add_xen_version(parser)
    add_clock(parser)


def _columns() -> list[str]:
    return list(dict.fromkeys(key for row in SORTS.values() for key in row))


def run(options: Options) -> int:
    from xtracectl.top.loop import printed

    view = _view(options)
    if options.count is not None and options.count < 1:
        raise UsageError(f"--count {options.count} is not positive")
    with closing(_samples(options, view)) as samples:
        if options.json or options.batch or not _has_terminal():
            return printed(samples, view, options.count, json=options.json)
        # Not every Python has curses, and printing needs none.
        from xtracectl.top.screen import on_terminal

        return on_terminal(samples, view, options.count)


def _has_terminal() -> bool:
    """Whether there is one with keys and a screen."""
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        from xtracectl.top.screen import is_capable
    except ImportError:
        return False
    return is_capable()


def _view(options: Options) -> View:
    if options.sort not in SORTS[options.by]:
        raise UsageError(
            f"--by {options.by} has no column {options.sort!r}",
            hint=f"it has {', '.join(SORTS[options.by])}",
        )
    delay = options.delay or (DELAY if options.input is None else _FROM_INPUT)
    return View(options.by, options.sort, delay=delay, live=options.input is None)


def _samples(options: Options, view: View) -> Samples:
    """Where samples come from. Raises ServiceError, StoreError, UsageError."""
    from xtracectl.top.loop import Live, Replayed

    request = _request(options)
    if options.input is None:
        return Live(options.socket, options.store, request)
    refuse_kvmtrace(options.input, "top")
    return Replayed(options.input, request, view.delay)


def _request(options: Options) -> Request:
    from tracelib.units import parse_domain
    from xtracectl.answers.summarizing import Request

    return Request(
        domain=None if options.domain is None else parse_domain(options.domain),
        cpu_hz=options.cpu_hz, vendor=options.vendor, xen_version=options.xen_version,
    )
