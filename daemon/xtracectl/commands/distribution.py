"""`xtracectl distribution`: durations and values one by one, as bars, data or a picture."""

from __future__ import annotations

import argparse
from pathlib import PurePath
from typing import TYPE_CHECKING

from tracelib.errors import UsageError
from xtracectl import output
from xtracectl.exits import Exit
from xtracectl.inputs import (
    Tally,
    add_clock,
    add_inputs,
    add_vendor,
    add_xen_version,
    paths,
    refuse_kvmtrace,
)
from xtracectl.places import Options
from xtracectl.symbolizing import add_symbols, symbol_book

if TYPE_CHECKING:
    from tracelib.analysis.distributions import Points
    from xtracectl.answers.distributing import Part, Wish
    from xtracectl.plotting import Sample
    from xtracectl.sink import Sink

HELP = "how durations are spread: exits, waits, I/O, interrupts; bars, data or a picture"

WHATS = (
    "exit", "interrupt", "io", "mmio", "msr", "hypercall", "wake", "wait", "runstate", "halt",
    "irq", "rdtsc", "cr3",
)

_DESCRIPTION = """\
Show how one kind of duration, or value, is spread:

  exit       VM exits by reason           interrupt  external interrupts by vector
  io         I/O by port                  mmio       device memory by page
  msr        accesses to MSRs             hypercall  hypercalls of HVM guests
  wake       from being woken to running  wait       all waits for a CPU
  runstate   uninterrupted times          halt       from being woken to blocking again
  irq        Xen handling an interrupt    rdtsc, cr3 values that guests read and loaded

exit, interrupt, msr: time in the hypervisor, on a CPU. io, mmio, hypercall: all the time
until the guest goes on. Intervals that the trace does not show whole, or that a loss
touches, are left out.

Text has numbers and bars. CSV and JSON have every point, exactly, in the order of their
ends: when it began, the vCPU, what it was, how long in cycles and ns, where the guest was.
"""

_EPILOG = """\
examples:
  xtracectl distribution exit x.trace --only HLT --cpu-hz 2.4G
  xtracectl distribution io x.trace --only 0x3f8 --format csv
  xtracectl distribution interrupt x.trace --only 0xfb --by address --symbols System.map
  xtracectl distribution wake x.trace --plot wake.svg
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.add_argument("what", metavar="WHAT", choices=WHATS, help="one of those above")
    add_inputs(parser)
    add = parser.add_argument
    add(
        "--only", metavar="NAME",
        help="only this reason, port, vector, runstate ...: its name or a word of it",
    )
    add(
        "--by", choices=("what", "vcpu", "domain", "address"), default="what",
        help="what a group of bars is for (default: what); address: where the guest was",
    )
    add("--domain", metavar="ID", help="only this domain's")
    add("--since", metavar="TIME", help="leave out what begins earlier; times are dump's")
    add("--until", metavar="TIME", help="leave out what ends later")
    add("--top", metavar="N", type=int, default=5, help="groups of bars (default: 5)")
    add("--format", choices=("text", "csv", "json"), default="text", help="default: text")
    add("-o", "--output", metavar="FILE", default="-", help="write there; - is standard output")
    add("--plot", metavar="FILE", help="draw the points over time: a .png or .svg file")
    add_symbols(parser)
    add_vendor(parser)
    add_xen_version(parser)
    add_clock(parser)


def run(options: Options) -> int:
    from xtracectl import sink
    from xtracectl.answers.distributing import distribute
    from xtracectl.progress import Progress

    if options.top < 1:
        raise UsageError(f"--top {options.top} is not positive")
    inputs = paths(options)
    if options.plot is not None:
        _check_plot(options.plot, len(inputs))
    wish = _wish(options)
    tally = Tally(several=len(inputs) > 1)
    with sink.opened(options.output, binary=False) as out:
        shown = _Output(options, wish, out)
        for path in inputs:
            progress = Progress(path, wanted=not sink.is_shown(options.output))
            stopped = None
            with tally.guard(), progress:
                refuse_kvmtrace(path, "distribution")
                for part in distribute(path, wish, shown.take, progress.add):
                    shown.finish(part)
                    tally.note(Exit.PROBLEMS if part.problems else Exit.OK)
                    stopped = part.stopped
            if stopped is not None:
                tally.stop(stopped)
                break
    return tally.code


def _check_plot(path: str, inputs: int) -> None:
    from xtracectl import plotting

    if inputs > 1:
        raise UsageError("--plot draws one input, not several")
    plotting.check(path)


def _wish(options: Options) -> Wish:
    from xtracectl.answers.distributing import Wish
    from xtracectl.answers.summarizing import Request

    by, options.by, options.section = options.by, "vcpu", None
    return Wish(
        options.what, Request.parse(options), options.only, by, symbol_book(options)
    )


class _Output:
    """Lines as points come; text and picture when a part is through."""

    def __init__(self, options: Options, wish: Wish, out: Sink) -> None:
        from tracelib.analysis.distributions import WHATS as KINDS
        from xtracectl.render.points import FORMATS, columns

        self._options = options
        self._wish = wish
        self._out = out
        self._names = columns(KINDS[wish.what])
        self._format = FORMATS.get(options.format)
        self._sample: Sample | None = None
        self._texts = 0
        if self._format is not None:
            out.write(self._format.head(self._names).encode())

    def take(self, part: Part, points: Points) -> None:
        if self._format is not None:
            from xtracectl.render.points import lines

            found = lines(part, points, self._wish.book)
            self._out.write(
                "".join(self._format.line(self._names, line) for line in found).encode()
            )
        if self._options.plot is not None:
            if self._sample is None:
                from xtracectl.plotting import Sample

                self._sample = Sample()
            self._sample.add(points)

    def finish(self, part: Part) -> None:
        if self._format is None:
            from xtracectl.render.distribution import text

            between = "\n" if self._texts else ""
            self._texts += 1
            self._out.write((between + text(part, top=self._options.top) + "\n").encode())
        for problem in part.problems:
            output.complain(str(problem))
        if self._options.plot is not None:
            self._draw(part)

    def _draw(self, part: Part) -> None:
        """Of several boots, the last is what remains."""
        from xtracectl import plotting, sink

        sample, self._sample = self._sample or plotting.Sample(), None
        path: str = self._options.plot
        picture = plotting.draw(part, sample, PurePath(path).suffix)
        with sink.opened(path, binary=True) as out:
            out.write(picture)
