"""`xtracectl repair`: all that is intact in a damaged trace, in a new one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from xtracectl.inputs import refuse_kvmtrace
from xtracectl.places import Options, parse_path

if TYPE_CHECKING:
    from tracelib.store.repair import Repaired

HELP = "write a new store, segment or xentrace file of all that is intact in a damaged one"

_DESCRIPTION = """\
Read a store, a segment or an xentrace file, and write all that is intact in it to a new
one, which `xtracectl verify` then finds in order. The old one is only read, whatever
happens; the new one must not be there yet.

What is missing is printed, and stated in the new segment as a loss, so that no average is
taken across the gap. Damage changes nothing for the reading commands, which read around
it anyway: repair is for handing on a file that is whole.

Exits 1 if something was damaged, 0 if nothing was: then the new file is like the old one.
"""

_EPILOG = """\
examples:
  xtracectl repair /var/lib/xtraced -o /var/tmp/repaired
  xtracectl repair broken.trace -o mended.trace
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("input", metavar="INPUT", help="a store's directory, a segment or an xentrace file")
    add(
        "-o", "--output", metavar="PATH", type=parse_path, required=True,
        help="the new file; for a store, its new directory",
    )
    add("--json", action="store_true", help="one JSON object a file, schema 1")


def run(options: Options) -> int:
    from xtracectl.exits import Exit
    from xtracectl.render.repair import json_line, text

    code = Exit.OK
    for repaired in _repaired(options):
        print(json_line(repaired) if options.json else text(repaired))
        if not repaired.clean:
            code = Exit.PROBLEMS
    return code


def _repaired(options: Options) -> Iterator[Repaired]:
    """What became of each file, and on the terminal between them how far we have got."""
    from xtracectl.progress import Progress
    from xtracectl.repairing import repair

    refuse_kvmtrace(options.input, "repair")
    with Progress(options.input) as progress:
        for repaired in repair(options.input, options.output, progress.add):
            progress.clear()
            yield repaired
