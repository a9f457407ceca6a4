"""Parsers for settings: text in, a typed value out, or UsageError with the reason.

Each `at_least`/`at_most` style factory returns a parser, so that a line of the table in
settings.py says which values make sense.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from tracelib.cpulist import parse_cpu_list
from tracelib.errors import UsageError
from tracelib.units import (
    CpuId,
    Nanoseconds,
    format_duration,
    format_size,
    parse_duration,
    parse_hz,
    parse_size,
)

T = TypeVar("T")
Parser = Callable[[str], T]

MAX_SOCKET_PATH = 107
"""sun_path holds 108 bytes with the NUL (unix(7))."""


class SourceKind(NamedTuple):
    """Which source, and which file for `file`."""

    name: str
    """ "xen", "sim" or "file"."""
    path: Path | None = None

    def __str__(self) -> str:
        return self.name if self.path is None else f"{self.name}:{self.path}"


def source_kind(value: str) -> SourceKind:
    """ "xen", "sim" or "file:PATH"."""
    name, colon, rest = value.partition(":")
    if name == "file":
        if not rest:
            raise UsageError("which file?", hint="write file:PATH")
        return SourceKind("file", path(rest))
    if colon or name not in ("xen", "sim"):
        raise UsageError(f"{value!r} is not a source", hint="xen, sim or file:PATH")
    return SourceKind(name)


def path(value: str) -> Path:
    """A path, made absolute here and now: nothing depends on the directory later."""
    if not value or "\0" in value:
        raise UsageError("an empty path" if not value else "a path cannot hold a NUL byte")
    return Path(value).absolute()


def socket_path(value: str) -> Path:
    """A path short enough for a Unix socket."""
    parsed = path(value)
    length = len(bytes(parsed))
    if length > MAX_SOCKET_PATH:
        raise UsageError(f"{length} bytes are too long for a socket; {MAX_SOCKET_PATH} fit")
    return parsed


def boolean(value: str) -> bool:
    """true or false, and nothing else: TOML knows no other spelling."""
    if value not in ("true", "false"):
        raise UsageError(f"{value!r} is neither true nor false")
    return value == "true"


def choice(*names: str) -> Parser[str]:
    """One of the names."""

    def parse(value: str) -> str:
        if value not in names:
            raise UsageError(f"{value!r} is not one of {', '.join(names)}")
        return value

    return parse


def number(at_least: int, at_most: int, *, off: bool = False) -> Parser[int]:
    """A whole number within limits; 0 too if it means "off"."""

    def parse(value: str) -> int:
        try:
            parsed = int(value, 10)
        except ValueError:
            raise UsageError(f"{value!r} is not a whole number") from None
        return _limited(parsed, at_least, at_most, off, str)

    return parse


def size(at_least: str, at_most: str, *, off: bool = False, multiple: int = 1) -> Parser[int]:
    """Bytes within limits; 0 too if it means "off"."""
    low, high = parse_size(at_least), parse_size(at_most)

    def parse(value: str) -> int:
        parsed = _limited(parse_size(value), low, high, off, format_size)
        if parsed % multiple:
            raise UsageError(f"{parsed} is not a multiple of {multiple}")
        return parsed

    return parse


def duration(at_least: str, at_most: str, *, off: bool = False) -> Parser[Nanoseconds]:
    """Nanoseconds within limits; 0 too if it means "off"."""
    low, high = parse_duration(at_least), parse_duration(at_most)

    def parse(value: str) -> Nanoseconds:
        return Nanoseconds(_limited(parse_duration(value), low, high, off, format_duration))

    return parse


def cpu_set(value: str) -> frozenset[CpuId] | None:
    """CPUs by number; None for "all"."""
    return parse_cpu_list(value)


def cpu_list(value: str) -> frozenset[CpuId]:
    """CPUs by number, each of them named; empty for none."""
    cpus = parse_cpu_list(value) if value else frozenset()
    if cpus is None:
        raise UsageError("all of them?", hint="write a list such as 0-3,7")
    return cpus


def words(value: str) -> frozenset[str]:
    """Words with commas between them."""
    return frozenset(word for word in value.split(",") if word)


def weights(value: str) -> tuple[int, ...]:
    """Numbers from 0 with commas between them."""
    one = number(0, 10**6)
    return tuple(one(part.strip()) for part in value.split(",")) if value else ()


def burst(value: str) -> tuple[Nanoseconds, Nanoseconds]:
    """ "ON,OFF": two durations."""
    on, comma, off = value.partition(",")
    if not comma:
        raise UsageError(f"{value!r} is not ON,OFF", hint="write it like 200ms,800ms")
    one = duration("1ms", "1d")
    return one(on), one(off)


def family(value: str) -> Literal["vmx", "svm"]:
    """Whose exit codes: "vmx" (Intel) or "svm" (AMD)."""
    return "vmx" if choice("vmx", "svm")(value) == "vmx" else "svm"


def optional(parser: Parser[T]) -> Parser[T | None]:
    """Empty text means None."""

    def parse(value: str) -> T | None:
        return parser(value) if value else None

    return parse


def hz(value: str) -> int:
    """A clock rate between 1 MHz and 1 THz: outside of it somebody forgot the unit."""
    return _limited(parse_hz(value), 10**6, 10**12, False, "{} Hz".format)


def _limited(
    value: int, low: int, high: int, off: bool, show: Callable[[int], str]
) -> int:
    if off and value == 0:
        return value
    if value < low:
        either = " (or 0 for off)" if off else ""
        raise UsageError(f"{show(value)} is too little; at least {show(low)}{either}")
    if value > high:
        raise UsageError(f"{show(value)} is too much; at most {show(high)}")
    return value
