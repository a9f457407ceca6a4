"""Where guests were when Xen took over, as a value: no numpy, so that showing other sections
does not load it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tracelib.analysis.families import Verdict
from tracelib.analysis.results import By, Owner


@dataclass(slots=True)
class WhereRow:
    """One owner's exits of one reason, or records of one event, at one address."""

    owner: Owner
    what: str
    address: int
    symbol: str | None
    count: int = 0
    costed: int = 0
    """Those that are exits with their entry; and what they cost, in cycles."""
    cost: int = 0


@dataclass(slots=True)
class Where:
    """The section."""

    by: By
    verdict: Verdict
    rows: list[WhereRow]
    """By owner, the dearest and most frequent first."""
    others: int
    """Exits and records at more addresses than are told apart."""
    unseen: float | None
    """Share of the vCPUs' time that was lost or unknown."""


def by_owner(section: Where) -> Iterator[tuple[Owner, list[WhereRow]]]:
    """The rows of each owner."""
    found: dict[Owner, list[WhereRow]] = {}
    for row in section.rows:
        found.setdefault(row.owner, []).append(row)
    yield from found.items()
