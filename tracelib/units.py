"""The quantities the product speaks of, and how people write them.

Parsers take what a person types on a command line or in the configuration and raise
`UsageError` with the offending part; formatters give what a person reads.
"""

from __future__ import annotations

import re
from typing import NewType

from tracelib.errors import UsageError

CpuId = NewType("CpuId", int)
"""A physical CPU's number as Xen counts them; holes are allowed and kept."""

DomId = NewType("DomId", int)
"""A domain's number; 0x7fff is Xen's idle domain, 0x8000 and up are not guests."""

VcpuId = NewType("VcpuId", int)
"""A virtual CPU's number inside its domain."""

Tsc = NewType("Tsc", int)
"""A time-stamp counter value, in cycles, unsigned 64 bit."""

Nanoseconds = NewType("Nanoseconds", int)
"""A time or duration in nanoseconds; wall-clock times count from the Unix epoch."""

IDLE_DOMAIN = DomId(0x7FFF)

PROCESSES = DomId(1 << 32)
"""From here on a DomId is a process: what a guest of KVM is. Its pid is added."""

_SIZE_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_HZ_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
_TIME_UNITS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "": 10**9,
    "s": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
    "w": 7 * 86400 * 10**9,
}
_NUMBER_UNIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*\Z")
_MOST_DOMAIN = 0xFFFF
_MAX_DIGITS = 100
"""Python refuses to turn more than 4300 into a number."""


def _scaled(text: str, units: dict[str, int], what: str, example: str) -> int:
    match = _NUMBER_UNIT.match(text)
    if match is None or match[2] not in units:
        raise UsageError(f"{text!r} is not {what}", hint=f"write it like {example}")
    if len(match[1]) > _MAX_DIGITS:
        raise UsageError("a number is too long", hint=f"write it like {example}")
    number, _, fraction = match[1].partition(".")
    scale = units[match[2]]
    # Integer arithmetic: floats would round sizes above 2**53 and rates like 2.4G.
    return int(number) * scale + (int(fraction) * scale // 10 ** len(fraction) if fraction else 0)


def parse_size(text: str) -> int:
    """Bytes from "64M", "1.5GiB", "4096"; powers of 1024. Raises UsageError."""
    bare = re.sub(r"(?i)([KMGT])(i?B)?(?=\s*\Z)", lambda m: m[1].upper(), text)
    return _scaled(bare, _SIZE_UNITS, "a size", "64M, 1.5G or 4096")


def parse_duration(text: str) -> Nanoseconds:
    """Nanoseconds from "250ms", "5s", "2h", "7d"; a bare number is seconds."""
    return Nanoseconds(_scaled(text, _TIME_UNITS, "a duration", "250ms, 5s or 2h"))


def parse_hz(text: str) -> int:
    """A clock rate in Hz from "2.1G", "2100M", "24000000". Zero is refused (UsageError)."""
    bare = re.sub(r"(?i)([KMG])(Hz)?(?=\s*\Z)|Hz(?=\s*\Z)", lambda m: (m[1] or "").upper(), text)
    hz = _scaled(bare, _HZ_UNITS, "a clock rate", "2.1G, 2100M or 24000000")
    if hz == 0:
        raise UsageError("a clock rate of 0 is impossible", hint="write it like 2.1G or 2100M")
    return hz


def parse_domain(text: str) -> DomId:
    """A domain from "3" or "d3", or a guest of KVM from "pid4711". Raises UsageError."""
    match = re.fullmatch(r"d?([0-9]{1,5})", text.strip().lower())
    if match is not None and int(match[1]) <= _MOST_DOMAIN:
        return DomId(int(match[1]))
    match = re.fullmatch(r"pid([0-9]{1,7})", text.strip().lower())
    if match is not None:
        return DomId(PROCESSES + int(match[1]))
    raise UsageError(
        f"{text!r} is no domain",
        hint="write its number, such as 3 or d3; pid4711 for a guest of KVM",
    )


def format_size(size: int) -> str:
    """ "1.5 MiB"; at most four significant digits, exact below 1 KiB."""
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1000 or unit == "TiB":
            break
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"


def format_duration(duration: int) -> str:
    """ "1.5 ms", "12.0 s", "3h 12m" from nanoseconds."""
    if duration >= 3600 * 10**9:
        minutes = duration // (60 * 10**9)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        return f"{days}d {hours}h" if days else f"{hours}h {minutes:02d}m"
    if duration >= 60 * 10**9:
        minutes, seconds = divmod(duration // 10**9, 60)
        return f"{minutes}m {seconds:02d}s"
    for unit, scale in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if duration >= scale:
            return f"{duration / scale:.1f} {unit}"
    return f"{duration} ns"
