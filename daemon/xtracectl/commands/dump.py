"""`xtracectl dump`: the records themselves."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import TYPE_CHECKING

from tracelib.errors import UsageError
from xtracectl.exits import Exit
from xtracectl.inputs import Tally, add_clock, add_inputs, add_vendor, paths
from xtracectl.places import Options, parse_path

if TYPE_CHECKING:
    from xtracectl.following import Ending
    from xtracectl.request import Request
    from xtracectl.sink import Sink

HELP = "print the records, decoded, filtered and in time order"

FORMATS = ("text", "json", "csv", "xentrace")

_DESCRIPTION = """\
Print records, those of all CPUs in time order. Where records are missing, a line says so
in its place, whatever is filtered.

A line of text has the seconds since the first record (cycles if the clock rate is
unknown), the CPU, the vCPU that ran there, the event and its fields. "~" behind the time
marks records that carry none: theirs is that of the record before. "<" marks records that
were in the ring before the service started.
"""

_EPILOG = """\
times: 2.5s or 250ms after the first record; 2026-11-30T22:14:05 (local time, or with Z or
+01:00); --since=-10m for ten minutes before now; tsc:NUMBER for a raw time stamp.

examples:
  xtracectl dump --since=-1m --event sched.verbose --domain 3
  xtracectl dump x.trace --cpu-hz 2.4G --limit 100
  xtracectl dump --format xentrace -o x.trace && xenalyze x.trace
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    add_inputs(parser)
    add = parser.add_argument
    add("--format", choices=FORMATS, default="text", help="default: text")
    add(
        "--time", choices=("elapsed", "wall", "tsc"),
        help="what a line of text begins with: seconds since the first record (default), the "
        "time of day in UTC, or the raw time stamp",
    )
    add(
        "--formats", metavar="FILE", type=parse_path,
        help="lines by the rules of a file as xentrace_format has them; xtracectl(1) says more",
    )
    add("--since", metavar="TIME", help="leave out what is earlier")
    add("--until", metavar="TIME", help="leave out this moment and what is later")
    add("--cpu", metavar="LIST", help="only these CPUs, such as 0-3,7")
    add("--domain", metavar="ID", help="only records that name this domain, or came while it ran")
    add(
        "--event", metavar="LIST", action="append",
        help="only these: names (vmexit, csched2_*), numbers (21011), classes (sched, hvm.emul)",
    )
    add("--limit", metavar="N", type=int, help="stop after so many lines")
    add_vendor(parser)
    add(
        "-f", "--follow", action="store_true",
        help="begin a second before now, unless --since says otherwise, and go on as the store "
        "grows",
    )
    add("-o", "--output", metavar="FILE", default="-", help="write there; - is standard output")
    add_clock(parser)


def run(options: Options) -> int:
    from xtracectl import sink
    from xtracectl.dumping import head
    from xtracectl.following import Ending
    from xtracectl.request import Request

    request = Request.parse(options)
    inputs = paths(options)
    if options.follow and len(inputs) > 1:
        raise UsageError("-f follows one store, not several inputs")
    tally = Tally(several=len(inputs) > 1)
    left = request.limit
    ending = Ending(normal=options.follow)
    with sink.opened(options.output, binary=request.format == "xentrace") as out:
        out.write(head(request.format))
        for path in inputs:
            with tally.guard(), ending.awaited():
                left = _show(path, request, out, left, options, ending, tally)
    return tally.code


def _show(
    path: str, request: Request, out: Sink, left: int | None, options: Options,
    ending: Ending, tally: Tally,
) -> int | None:
    """One input; how many lines are still wanted after it."""
    from tracelib.reading import parts
    from xtracectl.dumping import Dump
    from xtracectl.following import follow
    from xtracectl.progress import Progress
    from xtracectl.sink import is_shown

    progress = Progress(path, wanted=not is_shown(options.output))
    for place, part in enumerate(found := parts(path), start=1):
        with closing(part()) as reader:
            dump = Dump(request, reader, out, left)
            with ending.awaited():
                with progress:
                    dump.whole(progress.add)
                if options.follow and place == len(found):
                    follow(reader, dump, options.socket)
            left = dump.left
            dump.finish()
            tally.note(Exit.PROBLEMS if reader.problems else Exit.OK)
        if ending.reached:
            break
    return left
