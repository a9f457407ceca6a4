"""Sets of physical CPUs as people write them: "all", "0-3,7", "0xff".

CPU numbers are Xen's: they may have holes, and there may be hundreds of them, so a set
is a set of numbers here, never a machine word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from tracelib.errors import UsageError
from tracelib.units import CpuId

ALL = "all"

MAX_CPU = 16383
"""The highest number a Xen can be built for (its Kconfig's NR_CPUS limit); it bounds
what a mistyped range can cost."""

_HINT = "write all, a list such as 0-3,7, or a mask such as 0xff"

# [0-9], not \d: int() would also take digits of other scripts.
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?\Z")
_MASK = re.compile(r"0[xX]([0-9a-fA-F]+)\Z")


def parse_cpu_list(text: str, known: Collection[CpuId] | None = None) -> frozenset[CpuId] | None:
    """The CPUs that `text` names; None for "all".

    With `known` (the CPUs that exist), a CPU outside of it is refused. Holes inside a
    range are passed over, since a range has no way to leave them out.
    Raises UsageError naming the part that is wrong.
    """
    if text.strip().lower() == ALL:
        return None
    if not text.strip():
        raise UsageError("the CPU list is empty", hint=_HINT)
    cpus: set[CpuId] = set()
    for position, item in enumerate(text.split(","), start=1):
        part = item.strip()
        if not part:
            raise UsageError(f"CPU list {text!r}: part {position} is empty", hint=_HINT)
        cpus |= _parse_part(part, known)
    return frozenset(cpus)


def format_cpu_list(cpus: Iterable[int] | None) -> str:
    """The shortest list that names exactly these CPUs: "all" for None, "none" for no CPU."""
    if cpus is None:
        return ALL
    parts = []
    for first, last in _runs(cpus):
        parts.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(parts) or "none"


def _parse_part(part: str, known: Collection[CpuId] | None) -> set[CpuId]:
    if match := _MASK.match(part):
        return _from_mask(part, int(match[1], 16), known)
    match = _RANGE.match(part)
    if match is None:
        raise UsageError(f"{part!r} is no CPU, range or mask", hint=_HINT)
    first = _number(match[1])
    last = _number(match[2]) if match[2] else first
    _check_limit(part, max(first, last))
    if last < first:
        raise UsageError(f"CPU range {part!r} runs backwards", hint=f"write {last}-{first}")
    wanted = {CpuId(cpu) for cpu in range(first, last + 1)}
    if known is None:
        return wanted
    found = wanted.intersection(known)
    if not found or last > max(known):
        raise _unknown(part, wanted - found, known)
    return found


def _number(digits: str) -> int:
    # int() refuses decimals of thousands of digits with a ValueError; far fewer are too many.
    return int(digits) if len(digits) < 1000 else MAX_CPU + 1


def _from_mask(part: str, mask: int, known: Collection[CpuId] | None) -> set[CpuId]:
    if mask == 0:
        raise UsageError(f"CPU mask {part!r} selects no CPU", hint=_HINT)
    _check_limit(part, mask.bit_length() - 1)
    wanted = {CpuId(cpu) for cpu in range(mask.bit_length()) if mask >> cpu & 1}
    if known is not None and not wanted <= set(known):
        raise _unknown(part, wanted.difference(known), known)
    return wanted


def _check_limit(part: str, cpu: int) -> None:
    if cpu > MAX_CPU:
        shown = part if len(part) <= 40 else part[:37] + "..."
        raise UsageError(f"{shown!r} goes beyond CPU {MAX_CPU}, Xen's highest", hint=_HINT)


def _unknown(part: str, missing: Iterable[CpuId], known: Collection[CpuId]) -> UsageError:
    return UsageError(
        f"{part!r} names CPUs that do not exist or have no trace buffer: "
        f"{format_cpu_list(missing)}",
        hint=f"this host has {format_cpu_list(known)}",
    )


def _runs(cpus: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], cpu)
        else:
            runs.append((cpu, cpu))
    return runs
