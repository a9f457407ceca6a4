"""`xtracectl dump`: the records themselves."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import TYPE_CHECKING

from tracelib.errors import UsageError
from xtracectl.exits import Exit
from xtracectl.inputs import Tally, add_clock, add_inputs, add_vendor, add_xen_version, paths, warn
from xtracectl.places import Options, parse_path
from xtracectl.symbolizing import NamedLines, add_symbols, dump_book

if TYPE_CHECKING:
    from tracelib.chunks import TraceReader
    from tracelib.units import Tsc
    from xtracectl.boots import Opener
    from xtracectl.dump.dumping import Dump
    from xtracectl.dump.following import Ending
    from xtracectl.dump.formats import Format
    from xtracectl.dump.request import Request
    from xtracectl.progress import Progress
    from xtracectl.sink import Sink

HELP = "print the records, decoded, filtered and in time order"

FORMATS = ("text", "json", "csv", "parquet", "perfetto", "xentrace")
BINARY = ("parquet", "xentrace")
WITH_AN_END = ("parquet", "perfetto")
"""Nothing can be made of such a file while it grows."""

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
    add_inputs(parser, kvmtrace=True)
    _add_looks(parser)
    _add_filters(parser)
    add = parser.add_argument
    add("--boot", metavar="N", type=int, help="of a store with several boots of the hypervisor "
        "only this: 1 is the oldest, 0 the last, -1 the one before")  # fmt: skip
    add_vendor(parser)
    add_xen_version(parser)
    add_clock(parser)
    add(
        "-f", "--follow", action="store_true",
        help="begin with the last lines, or where --since says, and go on as the store grows",
    )
    add("-o", "--output", metavar="FILE", default="-", help="write there; - is standard output")


def _add_looks(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--format", choices=FORMATS, default="text", help="default: text")
    add(
        "--time", choices=("elapsed", "wall", "tsc"),
        help="what a line of text begins with: seconds since the first record (default), the "
        "time of day in UTC, or the raw time stamp; json and csv have it beside the others",
    )
    add(
        "--formats", metavar="FILE", type=parse_path,
        help="lines by the rules of a file as xentrace_format has them; xtracectl(1) says more",
    )
    add_symbols(parser)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--since", metavar="TIME", help="leave out what is earlier")
    add("--until", metavar="TIME", help="leave out this moment and what is later")
    add("--cpu", metavar="LIST", help="only these CPUs, such as 0-3,7")
    add("--domain", metavar="ID", help="only records that name this domain, or came while it ran")
    add(
        "--event", metavar="LIST", action="append",
        help="only these: names (vmexit, csched2_*), numbers (21011), classes (sched, hvm.emul)",
    )
    add("--limit", metavar="N", type=int, help="stop after so many lines")
    add("-n", "--lines", metavar="N", type=int, help="only the last so many (with -f: 10)")


def run(options: Options) -> int:
    from xtracectl import sink
    from xtracectl.dump.following import Ending
    from xtracectl.dump.formats import row_format
    from xtracectl.dump.request import Request

    request = Request.parse(options)
    form = row_format(request)
    book = dump_book(options)
    inputs = paths(options)
    if options.follow and len(inputs) > 1:
        raise UsageError("-f follows one store, not several inputs")
    if options.follow and request.format in WITH_AN_END:
        raise UsageError(f"--format {request.format} is a file that ends", hint="leave out -f")
    if form is not None and form.whole and len(inputs) > 1:
        raise UsageError(f"{form.whole} holds one trace", hint="name one input")
    tally = Tally(several=len(inputs) > 1)
    ending = Ending(normal=options.follow)
    with sink.opened(options.output, binary=request.format in BINARY) as out:
        shown = out if book is None else NamedLines(out, book, request.format)
        run = _Run(request, form, shown, options, ending, tally)
        if form is not None:
            shown.write(form.begin())
        for path in inputs:
            with tally.guard(), ending.awaited():
                run.show(path)
        if form is not None:
            for piece in form.end():
                shown.write(piece)
    return tally.code


class _Run:
    """One run of the command, over all its inputs."""

    def __init__(
        self, request: Request, form: Format | None, out: Sink, options: Options,
        ending: Ending, tally: Tally,
    ) -> None:
        self._request = request
        self._form = form
        self._out = out
        self._options = options
        self._ending = ending
        self._tally = tally
        self._left = request.limit

    def show(self, path: str) -> None:
        """One input, a boot after the other."""
        from xtracectl.boots import chosen, refuse_several
        from xtracectl.progress import Progress
        from xtracectl.sink import is_shown

        options = self._options
        found = chosen(path, options.boot, kvmtrace_layout=options.kvmtrace_layout)
        whole = "a file of xentrace's" if self._form is None else self._form.whole
        if whole is not None:
            refuse_several(path, len(found), whole)
        if self._request.lines is not None:
            found = found[-1:]
        progress = Progress(path, wanted=not is_shown(options.output))
        for place, part in enumerate(found, start=1):
            if len(found) > 1:
                warn(f"{path}: boot {place} of {len(found)}; its times begin anew")
            if self._request.lines is None:
                self._show_all(part, progress, last=place == len(found))
            else:
                self._show_end(part, self._request.lines)
            if self._ending.reached:
                break

    def _show_all(self, part: Opener, progress: Progress, *, last: bool) -> None:
        with closing(part()) as reader:
            dump = self._dump(reader, None)
            with self._ending.awaited():
                with progress:
                    dump.whole(progress.add)
                if last:
                    self._follow(reader, dump)
            self._finish(reader, dump)

    def _show_end(self, part: Opener, count: int) -> None:
        """Only the last rows; begins further back until there are enough."""
        from xtracectl.dump.tailing import starts

        with closing(part()) as reader:
            candidates = list(starts(reader))
        for since in candidates:
            with closing(part()) as reader:
                dump = self._dump(reader, since)
                with self._ending.awaited():
                    if not dump.last(count, complete=since is None):
                        continue
                    self._follow(reader, dump)
                self._finish(reader, dump)
                return

    def _dump(self, reader: TraceReader, since: Tsc | None) -> Dump:
        from xtracectl.dump.dumping import Dump

        return Dump(self._request, reader, self._out, self._form, self._left, since)

    def _follow(self, reader: TraceReader, dump: Dump) -> None:
        from xtracectl.dump.following import follow

        if self._options.follow:
            follow(reader, dump, self._options.socket)

    def _finish(self, reader: TraceReader, dump: Dump) -> None:
        self._left = dump.left
        dump.finish()
        self._tally.note(Exit.PROBLEMS if reader.problems else Exit.OK)
