"""Records counted by what they are about: registers, ports, vectors, hypercalls, domains."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tracelib.analysis import codes
from tracelib.analysis.analyze import NEVER, Analysis
from tracelib.analysis.forms import VALUES
from tracelib.analysis.results import By, Owner, owner_at, wanted
from tracelib.units import DomId


@dataclass(slots=True)
class TallyRow:
    """One owner's records of one event and value."""

    owner: Owner
    event: str
    value: int | None
    """In the unit of the field, or its page; None where records do not say, or only the
    event counts."""
    count: int = 0
    costed: int = 0
    """Those that belong to an exit with its entry; and what those exits cost, in cycles."""
    cost: int = 0


def tallies(
    analysis: Analysis, *, by: By, domain: DomId | None, groups: Collection[str]
) -> list[TallyRow]:
    """The rows of some groups of events, by owner, then event, the most frequent first."""
    chosen = {
        number: kind.event
        for number, kind in enumerate(analysis.forms.kinds) if kind.group in groups
    }
    rows: dict[tuple[Owner, str, int], TallyRow] = {}
    owners: dict[int, Owner] = {}
    for key, value, (count, costed, cost) in analysis.engine.pairs.tallies.items():
        event = chosen.get(key & 0xFFFFFFFF)
        if event is None or not count:
            continue
        owner = owners.get(key >> 32)
        if owner is None:
            owner = owners[key >> 32] = owner_at(analysis, key >> 32, by)
        if not wanted(owner, domain):
            continue
        shown = None if value == NEVER or event not in VALUES else value
        row = rows.setdefault((owner, event, value), TallyRow(owner, event, shown))
        row.count += count
        row.costed += costed
        row.cost += cost
    orders = {owner: owner.order for owner in owners.values()}
    return sorted(
        rows.values(),
        key=lambda row: (orders[row.owner], row.event, -row.cost, -row.count, row.value or 0),
    )


def unplaced(analysis: Analysis) -> int:
    """Records that found no room in the table."""
    return analysis.engine.pairs.tallies.others()[codes.COUNT]
