"""The list of what xenalyze and we say differently: tests/golden/xenalyze.md, read."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_LIST = Path(__file__).parents[1] / "golden" / "xenalyze.md"


class Disagreement(NamedTuple):
    """A row of the list."""

    capture: str
    what: str
    ours: str
    theirs: str
    reason: str

    @property
    def amounts(self) -> tuple[str, str, str]:
        return self.what, self.ours, self.theirs


@cache
def rows() -> tuple[Disagreement, ...]:
    """All of them. Captures are headings, disagreements the rows below."""
    found = []
    capture = ""
    for line in _LIST.read_text().splitlines():
        if line.startswith("## "):
            capture = line.removeprefix("## ")
        elif capture.endswith(".trace") and line.startswith("| ") and "| ours |" not in line:
            found.append(Disagreement(capture, *(cell.strip() for cell in line[1:-1].split("|"))))
    return tuple(found)


def listed(capture: str) -> list[Disagreement]:
    """Those of one capture."""
    return [row for row in rows() if row.capture == capture]


@cache
def reasons() -> dict[str, str]:
    """What the reasons' names stand for."""
    text = _LIST.read_text()
    return dict(re.findall(r"^- \*\*(.+?)\*\*: (.+(?:\n  .+)*)", text, re.MULTILINE))
