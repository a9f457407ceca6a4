"""`xtracectl mask`: what is traced: show it or change it while the service runs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from tracelib.cpulist import format_cpu_list, parse_cpu_list
from tracelib.masks import EventMask, describe, parse_event_mask
from xtracectl import output
from xtracectl.client import COMMAND_TIMEOUT, Client
from xtracectl.exits import Exit
from xtracectl.places import Options
from xtracectl.render.table import labelled

HELP = "show or change what is traced"

_DESCRIPTION = """\
Show what is traced, or change it while the service runs. A change lasts until the next
reload or restart; the configuration (collect.events, collect.cpus) is for ever.

  xtracectl mask                              what is asked for, and what is in force
  xtracectl mask --events sched,hvm           scheduling, and all of what HVM guests do
  xtracectl mask --events hvm.entryexit --cpus 0-3,7
  xtracectl mask --events 0x0008f000          a number, as Xen and xentrace have it
  xtracectl mask --events all --cpus all
"""


_KEYS = ("events_wanted", "events", "cpus_wanted", "cpus")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `mask`."""
    parser.description = _DESCRIPTION
    parser.add_argument(
        "--events", type=parse_event_mask, metavar="MASK",
        help="classes, subclasses or events, joined by commas; or a number; or all; or none",
    )
    parser.add_argument(
        "--cpus", type=_cpus, metavar="LIST", help="a list such as 0-3,7; or a mask; or all"
    )


def _cpus(text: str) -> str:
    """The list in its plainest form: the mistakes are told here, not by the service."""
    return format_cpu_list(parse_cpu_list(text))


def run(options: Options) -> int:
    """Ask or change, and show what came of it."""
    events: EventMask | None = options.events
    args: dict[str, Any] = {}
    if events is not None:
        args["events"] = events.mask
        for warning in events.warnings:
            output.complain(f"note: {warning}")
    if options.cpus is not None:
        args["cpus"] = options.cpus
    with Client(options.socket) as client:
        masks = client.ask("mask", args, gives=_KEYS, timeout=COMMAND_TIMEOUT)
    print("\n".join(_lines(masks)))
    return Exit.OK


def _lines(masks: Mapping[str, Any]) -> list[str]:
    wanted, events = masks["events_wanted"], masks["events"]
    shown = [f"in force: {describe(events)} ({events:#010x})"]
    if wanted != events:
        shown.insert(0, f"asked for: {describe(wanted)} ({wanted:#010x})")
    cpus = [f"in force: {masks['cpus']}"]
    if masks["cpus_wanted"] != masks["cpus"]:
        cpus.insert(0, f"asked for: {masks['cpus_wanted']}")
    return [labelled("events", *shown), labelled("CPUs", *cpus)]
