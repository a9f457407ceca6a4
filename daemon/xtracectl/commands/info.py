"""`xtracectl info`: what a trace is, what it holds, and what is missing."""

from __future__ import annotations

import argparse

from xtracectl.exits import Exit
from xtracectl.inputs import Tally, add_clock, add_inputs, paths
from xtracectl.places import Options

HELP = "say what a trace holds: records by event and CPU, losses, time span, problems"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Count the records of stores, segments, xentrace files and kvmtrace sets. Exits 1 if\n"
        "something in them is damaged; what is not damaged is counted all the same."
    )
    add_inputs(parser, kvmtrace=True)
    add_clock(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object, schema 1")


def run(options: Options) -> int:
    from xtracectl.answers.info import summarize
    from xtracectl.render.info import json_text, text

    summaries = []
    inputs = paths(options)
    tally = Tally(several=len(inputs) > 1)
    for path in inputs:
        with tally.guard():
            summary = summarize(
                path, cpu_hz=options.cpu_hz, kvmtrace_layout=options.kvmtrace_layout
            )
            summaries.append(summary)
            if summary.problems:
                tally.note(Exit.PROBLEMS)
    if options.json:
        print(json_text(summaries))
    else:
        print("\n\n".join(text(summary) for summary in summaries))
    return tally.code
