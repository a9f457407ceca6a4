"""`xtracectl verify`: recount everything, and name what is wrong."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from xtracectl.inputs import Tally, add_inputs, paths
from xtracectl.places import Options

if TYPE_CHECKING:
    from tracelib.kvmtrace.layout import Kind
    from tracelib.segment.findings import Finding

HELP = "check stores, segments, xentrace files and kvmtrace sets to the last byte"

_DESCRIPTION = """\
Read every byte of stores, segments and xentrace files and compare: checksums, counts,
record lengths, time order, and what one segment says of the next. A line is printed for
each fault, with file and offset.

Exits 1 if anything is wrong. Warnings alone, such as clocks of two CPUs that disagree,
are 0.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    add_inputs(parser, kvmtrace=True)
    parser.add_argument("--json", action="store_true", help="one JSON object a finding")


def run(options: Options) -> int:
    from xtracectl.exits import Exit
    from xtracectl.render.findings import Report

    inputs = paths(options)
    tally = Tally(several=len(inputs) > 1)
    for path in inputs:
        report = Report(path, json=options.json)
        with tally.guard():
            for finding in _checked(path, options.kvmtrace_layout):
                print(report.line(finding))
            if not options.json:
                print(report.summary())
            if report.errors:
                tally.note(Exit.PROBLEMS)
    return tally.code


def _checked(path: str, layout: Kind | None) -> Iterator[Finding]:
    """The findings, and on the terminal between them how far the check has got."""
    from xtracectl.checking import check
    from xtracectl.progress import Progress

    with Progress(path) as progress:
        for finding in check(path, progress.add, kvmtrace_layout=layout):
            progress.clear()
            yield finding
