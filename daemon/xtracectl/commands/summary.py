"""`xtracectl summary`: what the guests did, and what the trace could not see."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from tracelib.errors import UsageError
from xtracectl.exits import Exit
from xtracectl.inputs import (
    Tally,
    add_clock,
    add_inputs,
    add_vendor,
    add_xen_version,
    paths,
    refuse_kvmtrace,
    warn,
)
from xtracectl.places import Options
from xtracectl.symbolizing import add_symbols, symbol_book

if TYPE_CHECKING:
    from tracelib.chunks import Problem

HELP = "sum a trace up: exits and their cost, runstates, hypercalls, volume, losses"

SECTIONS = ("exits", "runstates", "pv", "volume", "losses")
WHERE = "where"

_DESCRIPTION = """\
Sum a trace up. Sections, all of them unless --section says which:

  exits      VM exits by vCPU and reason: how often, and what each cost from the exit to
             the next entry, without the time that the vCPU was off its CPU in between
  runstates  time running, waiting for a CPU, blocked; how long waits were; each CPU's
             time by domain
  pv         hypercalls, traps and page faults; memory, interrupts, power states
  volume     records and bytes by class, event and CPU: what to mask to get less
  losses     where records are missing
  where      the code addresses at which guests exited, trapped or faulted; only if it is
             asked for, with --section or --symbols

Each section says what share of the time it could not see. What was cut by a loss is
listed apart and is in no average.
"""

_EPILOG = """\
examples:
  xtracectl summary --since=-10m
  xtracectl summary x.trace --section exits --domain 3 --cpu-hz 2.4G
  xtracectl summary --since=-1h --interval 10s --by domain > load.csv
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    add_inputs(parser, kvmtrace=True)
    add = parser.add_argument
    add(
        "--section", action="append", choices=(*SECTIONS, WHERE),
        help="only this one; may be repeated",
    )
    add(
        "--by", choices=("domain", "vcpu", "cpu"), default="vcpu",
        help="whose rows to show (default: vcpu)",
    )
    add("--domain", metavar="ID", help="only this domain's")
    add("--since", metavar="TIME", help="count nothing that is earlier; times are dump's")
    add("--until", metavar="TIME", help="count only what is earlier")
    add(
        "--interval", metavar="TIME",
        help="a time series instead, a line for each owner and interval such as 1s or 100ms: "
        "CSV, or with --json an object a line",
    )
    add("--top", metavar="N", type=int, default=10, help="rows of a detail table (default: 10)")
    add_symbols(parser)
    add_vendor(parser)
    add_xen_version(parser)
    add_clock(parser)
    add("--json", action="store_true", help="one JSON object, schema 1")


def run(options: Options) -> int:
    from xtracectl.answers.summarizing import Report, Request, summarize
    from xtracectl.progress import Progress
    from xtracectl.render.summary import text
    from xtracectl.render.summary_json import json_text

    if options.interval is not None:
        return _series(options)
    if options.top < 1:
        raise UsageError(f"--top {options.top} is not positive")
    if options.symbols and not options.section:
        options.section = [*SECTIONS, WHERE]
    request = replace(Request.parse(options), book=symbol_book(options))
    inputs = paths(options)
    tally = Tally(several=len(inputs) > 1)
    reports: list[Report] = []
    for path in inputs:
        with tally.guard(), Progress(path) as progress:
            for report in summarize(path, request, progress.add):
                reports.append(report)
                if report.problems:
                    tally.note(Exit.PROBLEMS)
        if reports and (stopped := reports[-1].stopped):
            tally.stop(stopped)
            break
    if options.json:
        print(json_text(reports))
    else:
        print("\n\n".join(text(report, top=options.top) for report in reports))
    return tally.code


def _series(options: Options) -> int:
    """A time series, written as it is found."""
    from tracelib.units import parse_duration
    from xtracectl import sink
    from xtracectl.answers.intervals import series
    from xtracectl.answers.summarizing import Request
    from xtracectl.progress import Progress
    from xtracectl.render.summary_intervals import CsvSeries, json_lines

    if options.section or options.symbols:
        raise UsageError("--interval has columns of its own", hint="leave out --section, --symbols")
    every = parse_duration(options.interval)
    if every <= 0:
        raise UsageError(f"--interval {options.interval} is no time")
    request = Request.parse(options)
    inputs = paths(options)
    if len(inputs) > 1:
        raise UsageError("--interval is for one input, not several")
    refuse_kvmtrace(inputs[0], "--interval")
    table = CsvSeries(request.by)
    problems: list[Problem] = []
    guessed = False
    with sink.opened(sink.STANDARD_OUTPUT, binary=False) as out:
        head = "" if options.json else table.head
        progress = Progress(inputs[0], wanted=not sink.is_shown(sink.STANDARD_OUTPUT))
        with progress:
            for piece in series(inputs[0], request, every, progress.add, problems.extend):
                lines = json_lines(piece, options.top) if options.json else table.lines(piece)
                out.write((head + "".join(lines)).encode())
                head = ""
                guessed = piece.verdict.guessed
        out.write(head.encode())
    for problem in problems:
        warn(str(problem))
    if guessed:
        warn("whose exit reasons these are is guessed from them; see --vendor")
    return Exit.PROBLEMS if problems else Exit.OK
