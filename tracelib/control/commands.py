"""The commands of the control protocol: what each takes, gives and may change.

    command    arguments            result
    status     -                    tracelib.status.Status as a map
    subscribe  interval (ns)        streams status: one item now, then one an interval
    rotate     -                    {sealed: file name or null, records, bytes}
    flush      -                    {records, bytes, tsc, state}: drained, and safe on disk, is
                                    everything from before `tsc` (null: that is not known)
    pause      -                    {state}: tracing off, rings drained
    resume     -                    {state}
    mask       events, cpus         tracelib.status.MaskStatus as a map; without arguments
                                    it only shows, with one the other stays as it is
    snapshot   last (ns)            {path or null, segments, records, bytes, first, last}:
                                    flushed, sealed, and kept from retention
    stop       -                    {pid}; then the service drains, seals and closes
    reload     -                    {changed: [key, ...], restart: [key, ...]}

Error codes of an answer: unknown_command, usage, not_allowed, busy, too_large, data, store,
source, locked, failed. Codes of a bye: protocol, not_allowed, too_many_connections,
idle, stopping. A client treats codes it does not know like `failed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tracelib.errors import UsageError
from tracelib.units import format_duration

MIN_INTERVAL = 100_000_000
MAX_INTERVAL = 3_600_000_000_000
DEFAULT_INTERVAL = 1_000_000_000
"""Of `subscribe`, in nanoseconds."""


class Command(NamedTuple):
    """One command. Arguments are optional, all of them, and have one plain type each."""

    changes: bool
    """Whether it changes anything, and so needs the right to command."""
    streams: bool = False
    args: Mapping[str, type[int] | type[str]] = {}


COMMANDS: Mapping[str, Command] = {
    "status": Command(changes=False),
    "subscribe": Command(changes=False, streams=True, args={"interval": int}),
    "rotate": Command(changes=True),
    "flush": Command(changes=True),
    "pause": Command(changes=True),
    "resume": Command(changes=True),
    "mask": Command(changes=True, args={"events": int, "cpus": str}),
    "snapshot": Command(changes=True, args={"last": int}),
    "stop": Command(changes=True),
    "reload": Command(changes=True),
}


def changes(name: str, args: Mapping[str, Any]) -> bool:
    """Whether this request changes anything; a mask without arguments only shows."""
    return COMMANDS[name].changes and not (name == "mask" and not args)


def check_args(name: str, args: Mapping[str, Any]) -> None:
    """Raises UsageError unless the arguments are ones that the command knows, of their type.

    Unknown arguments are refused, not ignored: `mask` with a misspelt one would only show.
    """
    known = COMMANDS[name].args
    for key, value in args.items():
        if key not in known:
            raise UsageError(f"{name} has no argument {key!r:.40}")
        if type(value) is not known[key]:
            raise UsageError(f"{name}: {key} must be {known[key].__name__}, not {value!r:.40}")
    if name == "snapshot" and args.get("last", 1) <= 0:
        raise UsageError(f"the last {args['last']} ns are no time")
    if name == "subscribe":
        _check_interval(args.get("interval", DEFAULT_INTERVAL))


def _check_interval(interval: int) -> None:
    if not MIN_INTERVAL <= interval <= MAX_INTERVAL:
        low, high = format_duration(MIN_INTERVAL), format_duration(MAX_INTERVAL)
        raise UsageError(f"an interval is {low} to {high}, not {interval} ns")
