"""Which files are a kvmtrace set: NAME.kvmtrace.CPU, one for each CPU."""

from __future__ import annotations

import re
from pathlib import Path

from tracelib.units import CpuId

_MEMBER = re.compile(r".+\.kvmtrace\.(?P<cpu>0|[1-9][0-9]{0,4})\Z", re.DOTALL)
_SUFFIX = ".kvmtrace"
_MOST_CPU = 0xFFFF


def member_cpu(name: str) -> CpuId | None:
    """The CPU that a file's name gives; None if it is not named like a member of a set."""
    match = _MEMBER.match(name)
    return None if match is None or int(match["cpu"]) > _MOST_CPU else CpuId(int(match["cpu"]))


def members(path: str) -> dict[CpuId, Path]:
    """The files of the set that `path` stands for, by CPU; empty if it stands for none.

    A path that exists stands for itself alone. One that does not stands for the files that
    add to it a CPU's number, or ".kvmtrace" and that, which is what kvmtrace's -o is given.
    """
    try:
        return _members(Path(path))
    except (OSError, ValueError):
        # Whoever opens the path says what is wrong with it.
        return {}


def _members(place: Path) -> dict[CpuId, Path]:
    cpu = member_cpu(place.name)
    if cpu is not None:
        return {cpu: place} if place.is_file() else {}
    if not place.name or place.exists():
        return {}
    wanted = place.name if place.name.endswith(_SUFFIX) else place.name + _SUFFIX
    found: dict[CpuId, Path] = {}
    for entry in place.parent.iterdir():
        cpu = member_cpu(entry.name)
        if cpu is not None and entry.name == f"{wanted}.{cpu}":
            found[cpu] = entry
    return dict(sorted(found.items()))
