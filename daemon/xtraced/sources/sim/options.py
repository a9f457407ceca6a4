"""What a simulated hypervisor is told to be: its machine, its guests, its faults.

`SimOptions` travels from the daemon's configuration to the hypervisor process as a command
line; `argv` and `parse_argv` are each other's inverse.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tracelib.errors import UsageError
from tracelib.units import Nanoseconds, parse_duration, parse_hz, parse_size

Family = Literal["vmx", "svm"]

RANGES = {
    "cpus": (1, 4096),
    "domains": (0, 64),
    "rate": (0, 1 << 40),
    "tsc_hz": (1_000_000, 100_000_000_000),
    "skew": (-(1 << 40), 1 << 40),
    "tbuf_pages": (0, 65535),
    "limit": (0, (1 << 63) - 1),
}
"""Smallest and largest value of each number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOptions:
    """Everything that shapes a simulated hypervisor; the defaults make a small busy host."""

    cpus: int = 4
    """Highest possible CPU number plus one."""
    offline: frozenset[int] = frozenset()
    """CPU numbers without a processor: they get no ring and never trace."""
    rate: int = 10_000_000
    """Bytes a second over all CPUs together; 0 is a silent host."""
    burst: tuple[Nanoseconds, Nanoseconds] | None = None
    """(on, off): records come at `rate` while on, and not at all while off."""
    weights: tuple[int, ...] = ()
    """Each CPU's share of the rate, by CPU number; missing ones count as 1, 0 is silent."""
    seed: int = 1
    domains: int = 3
    """Guests beside domain 0: HVM and PV by turns, the first one HVM."""
    deterministic: bool = False
    """Start from a fixed TSC and never skip time: the records depend on the options alone."""
    tsc_hz: int = 2_400_000_000
    skew: int = 0
    """Cycles by which each CPU's TSC is ahead of the CPU before it."""
    family: Family = "vmx"
    tbuf_pages: int = 0
    """Ring pages allocated at boot (Xen's tbuf_size=); 0 leaves it to the first consumer."""
    limit: int = 0
    """Stop after about so many records (a round's end); 0 goes on for ever."""
    faults: frozenset[str] = frozenset()
    """Of FAULTS: what this hypervisor does wrong from the start."""
    replay: Path | None = None
    """Replay this file's records instead of running guests."""
    socket: Path | None = None
    """Where it listens. A source that is given one attaches to the hypervisor there
    instead of starting its own."""
    truth: Path | None = None
    """Where to write what it did, at its end and on request."""

    def online(self) -> list[int]:
        """The numbers of the CPUs that exist, ascending."""
        return [cpu for cpu in range(self.cpus) if cpu not in self.offline]

    def weight(self, cpu: int) -> int:
        return self.weights[cpu] if cpu < len(self.weights) else 1

    def check(self) -> None:
        """Raises UsageError for a machine that cannot be."""
        for name, (low, high) in RANGES.items():
            if not low <= getattr(self, name) <= high:
                raise UsageError(f"{name} {getattr(self, name)} must be {low} to {high}")
        if not self.online():
            raise UsageError("no CPU is left online")
        if self.burst is not None and self.burst[0] <= 0:
            raise UsageError("the on part of a burst must be longer than nothing")
        if any(weight < 0 for weight in self.weights):
            raise UsageError("a weight cannot be below 0")
        if self.rate and not any(self.weight(cpu) for cpu in self.online()):
            raise UsageError("every CPU that is online has the weight 0")
        if unknown := self.faults - FAULTS.keys():
            raise UsageError(f"unknown fault {min(unknown)!r}", hint=f"one of {', '.join(FAULTS)}")


FAULTS = {
    "no-notify": "never raise an event",
    "stuck": "trace nothing, as if stopped",
    "bogus-prod": "spoil the lowest CPU's producer index when tracing is switched on",
}


def argv(options: SimOptions) -> list[str]:
    """The command-line arguments that make `parse_argv` give these options again."""
    words: list[str] = []
    default = SimOptions()
    for name in _PLAIN:
        value = getattr(options, name)
        if value is not None and value != getattr(default, name):
            words.append(f"--{_flag(name)}={value}")
    for name in ("offline", "weights", "faults"):
        if value := getattr(options, name):
            items = sorted(value) if isinstance(value, frozenset) else value
            words.append(f"--{name}={','.join(map(str, items))}")
    if options.burst is not None:
        words.append(f"--burst={options.burst[0]}ns,{options.burst[1]}ns")
    if options.deterministic:
        words.append("--deterministic")
    return words


_PLAIN = (
    "cpus", "rate", "seed", "domains", "tsc_hz", "skew", "family", "tbuf_pages", "limit",
    "replay", "socket", "truth",
)  # fmt: skip
_FLAGS = {"tsc_hz": "tsc-hz", "tbuf_pages": "tbuf-size"}


def _flag(name: str) -> str:
    return _FLAGS.get(name, name)


def parse_argv(words: Sequence[str]) -> tuple[SimOptions, argparse.Namespace]:
    """The options, and what belongs to the process alone: `keep` and `connection`.

    Raises UsageError for an impossible machine; argparse exits with 2 for the rest.
    """
    names = argparse_parser().parse_args(words)
    fields = {field: getattr(names, field) for field in SimOptions.__dataclass_fields__}
    options = SimOptions(**fields)
    options.check()
    return options, names


def argparse_parser() -> argparse.ArgumentParser:
    """The command line of `python -m xtraced.sources.sim`."""
    default = SimOptions()
    parser = argparse.ArgumentParser(
        prog="python -m xtraced.sources.sim",
        description="A simulated hypervisor: Xen's trace rings in shared memory.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--socket", type=Path, help="listen at this Unix socket")
    add("--keep", action="store_true", help="go on when the process that started it is gone")
    add("--connection", type=int, metavar="FD", help=argparse.SUPPRESS)
    add("--cpus", type=int, default=default.cpus, help="highest CPU number plus one")
    add("--offline", type=_ints, default=default.offline, help="CPU numbers that do not exist")
    add("--rate", type=_size, default=default.rate, help="bytes a second, all CPUs; 0 = silent")
    add("--burst", type=_burst, help="ON,OFF durations: records come only while on")
    add("--weights", type=_weights, default=(), help="each CPU's share of the rate")
    add("--seed", type=int, default=default.seed, help="of the random numbers")
    add("--domains", type=int, default=default.domains, help="guests beside domain 0")
    add("--deterministic", action="store_true", help="records depend on the options alone")
    add("--tsc-hz", type=_hz, default=default.tsc_hz, help="rate of the time-stamp counter")
    add("--skew", type=int, default=0, help="cycles each CPU is ahead of the one before")
    add("--family", choices=get_args(Family), default=default.family, help="exit codes")
    add("--tbuf-size", dest="tbuf_pages", type=int, default=0, help="ring pages from boot on")
    add("--limit", type=int, default=0, help="stop after about so many records")
    add("--faults", type=_faults, default=default.faults, help=f"of {', '.join(FAULTS)}")
    add("--replay", type=Path, help="replay this trace file")
    add("--truth", type=Path, help="write what was done to this file")
    return parser


def _ints(text: str) -> frozenset[int]:
    return frozenset(int(item) for item in text.split(",") if item)


def _weights(text: str) -> tuple[int, ...]:
    return tuple(int(item) for item in text.split(","))


def _faults(text: str) -> frozenset[str]:
    return frozenset(text.split(","))


def _size(text: str) -> int:
    return _translated(parse_size, text)


def _hz(text: str) -> int:
    return _translated(parse_hz, text)


def _burst(text: str) -> tuple[Nanoseconds, Nanoseconds]:
    on, _, off = text.partition(",")
    return Nanoseconds(_translated(parse_duration, on)), Nanoseconds(
        _translated(parse_duration, off)
    )


def _translated(parse: object, text: str) -> int:
    """argparse knows its own error only."""
    assert callable(parse)
    try:
        return int(parse(text))
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.message) from error
