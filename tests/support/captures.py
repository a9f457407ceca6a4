"""Captures by a real Xen, and what an independent reader counted in them.

Some are in the repository, compressed. Where a folder `shared/traces` lies beside the
checkout, all of those are tried as well.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
OURS = ROOT / "tests" / "data" / "captures"
SHARED = ROOT.parent / "shared" / "traces"

NAMES = tuple(sorted(path.name.removesuffix(".xz") for path in OURS.glob("*.trace.xz")))
SHARED_NAMES = tuple(sorted(path.name for path in SHARED.glob("*.trace")))

TSC_HZ = 2_445_400_000


@cache
def capture(name: str) -> bytes:
    """The file's bytes."""
    return lzma.decompress((OURS / f"{name}.xz").read_bytes())


@cache
def expected() -> dict[str, dict[str, Any]]:
    """By file name: records, per_event, per_cpu, lost, first_tsc, last_tsc, wrap_records."""
    data: dict[str, dict[str, Any]] = json.loads((OURS / "expected.json").read_text())
    if SHARED_NAMES:
        data |= json.loads((SHARED / "expected.json").read_text())
    return data


def write(name: str, directory: Path) -> Path:
    """The capture as a plain file."""
    path = directory / name
    path.write_bytes(capture(name))
    return path
