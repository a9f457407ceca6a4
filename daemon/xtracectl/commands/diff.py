"""`xtracectl diff`: what changed between two traces."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tracelib.errors import UsageError
from xtracectl.exits import Exit
from xtracectl.inputs import add_clock, add_vendor, add_xen_version, refuse_kvmtrace
from xtracectl.places import Options

if TYPE_CHECKING:
    from xtracectl.answers.summarizing import Report, Request

HELP = "compare two traces: which exits, waits and calls became more, or dearer"

_SECTIONS = ("exits", "runstates", "pv", "volume")
_NEEDED = ("runstates", "losses")
"""Of the summaries: what was not seen is said in any case."""

_DESCRIPTION = """\
Compare two traces, A and B, such as one from before a change and one from after it: VM exits
by reason, runstates and waits, hypercalls, volume. Everything is a second of what was seen,
so traces of different lengths, losses and clock rates can be compared. What changed most
comes first. A difference that the time not seen could be all the reason for has a "?".

Of a store with several boots of the hypervisor, the last one is compared.
"""

_EPILOG = """\
examples:
  xtracectl diff before.trace after.trace --cpu-hz 2.4G --by domain
  xtracectl diff /var/lib/xtraced/snapshots/* --section exits
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("before", metavar="A", help="a store's directory, a segment or an xentrace file")
    add("after", metavar="B", help="the same; one of the two may be - for standard input")
    add("--section", action="append", choices=_SECTIONS, help="only this one; may be repeated")
    add(
        "--by", choices=("domain", "vcpu", "cpu"), default="vcpu",
        help="whose rows to compare (default: vcpu)",
    )
    add("--domain", metavar="ID", help="only this domain's")
    add("--since", metavar="TIME", help="count nothing that is earlier; times are dump's")
    add("--until", metavar="TIME", help="count only what is earlier")
    add("--top", metavar="N", type=int, default=15, help="rows of a table (default: 15)")
    add_vendor(parser)
    add_xen_version(parser)
    add_clock(parser)
    add("--json", action="store_true", help="one JSON object, schema 1")


def run(options: Options) -> int:
    from xtracectl.answers.comparing import compare
    from xtracectl.answers.summarizing import Request
    from xtracectl.render.diff import json_text, text

    if options.top < 1:
        raise UsageError(f"--top {options.top} is not positive")
    chosen = options.section or list(_SECTIONS)
    options.section = [*chosen, *_NEEDED]
    request = Request.parse(options)
    before, after = (_report(path, request) for path in (options.before, options.after))
    found = compare(before, after)
    found.sections = {name: found.sections[name] for name in _SECTIONS if name in chosen}
    print(json_text(found) if options.json else text(found, top=options.top))
    return Exit.PROBLEMS if before.problems or after.problems else Exit.OK


def _report(path: str, request: Request) -> Report:
    """Of the last boot. What was stopped cannot be compared: the signal goes on."""
    from xtracectl.answers.summarizing import summarize
    from xtracectl.progress import Progress

    refuse_kvmtrace(path, "diff")
    report = None
    with Progress(path) as progress:
        for report in summarize(path, request, progress.add):
            if report.stopped is not None:
                raise report.stopped
    if report is None:
        raise UsageError(f"{path}: nothing in it to compare")
    return report
