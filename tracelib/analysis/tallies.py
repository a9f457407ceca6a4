"""Records counted by what they are about: registers, ports, vectors, hypercalls, domains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from heapq import nsmallest
from operator import add

from tracelib.analysis import codes
from tracelib.analysis.analyze import NEVER, Analysis
from tracelib.analysis.forms import VALUES
from tracelib.analysis.results import By, Owner, owner_at, wanted
from tracelib.units import DomId

KEPT = 1000
"""So many values of an owner and event are told apart, those that cost most."""


@dataclass(slots=True)
class TallyRow:
    """One owner's records of one event and value."""

    owner: Owner
    event: str
    value: int | None
    """In the unit of the field, or its page; None where records do not say, or only the
    event counts, or where this is the sum of all that are not told apart."""
    count: int = 0
    costed: int = 0
    """Those that belong to an exit with its entry; and what those exits cost, in cycles."""
    cost: int = 0
    values: int = 1
    """How many values this is the sum of."""

    def add(self, count: int, costed: int, cost: int) -> None:
        self.count += count
        self.costed += costed
        self.cost += cost


def tallies(
    analysis: Analysis, *, by: By, domain: DomId | None, groups: Collection[str]
) -> list[TallyRow]:
    """The rows of some groups of events, by owner, then event, the most costly and frequent
    first; what is beyond KEPT is one row at the end."""
    rows: list[TallyRow] = []
    found = _found(analysis, by, groups)
    for owner, event in sorted(found, key=lambda key: (key[0].order, key[1])):
        if wanted(owner, domain):
            rows += _rows(owner, event, found[owner, event])
    return rows


_Counters = dict[int, list[int]]
"""By value: count, costed, cost."""


def _found(
    analysis: Analysis, by: By, groups: Collection[str]
) -> dict[tuple[Owner, str], _Counters]:
    chosen = {
        number: kind.event
        for number, kind in enumerate(analysis.forms.kinds) if kind.group in groups
    }
    found: defaultdict[tuple[Owner, str], _Counters] = defaultdict(dict)
    places: dict[int, _Counters] = {}
    for key, value, counters in analysis.engine.pairs.tallies.items():
        event = chosen.get(key & 0xFFFFFFFF)
        if event is None or not counters[codes.COUNT]:
            continue
        place = places.get(key)
        if place is None:
            place = places[key] = found[owner_at(analysis, key >> 32, by), event]
        before = place.get(value)
        # Several vCPUs' counters, if they are kept by domain.
        place[value] = counters if before is None else list(map(add, before, counters))
    return found


def _rows(owner: Owner, event: str, counters: _Counters) -> list[TallyRow]:
    def rank(value: int) -> tuple[int, int, int]:
        count, _, cost = counters[value]
        return -cost, -count, value

    rows = []
    left = TallyRow(owner, event, None, values=len(counters))
    for count, costed, cost in counters.values():
        left.add(count, costed, cost)
    for value in nsmallest(KEPT, counters, key=rank):
        count, costed, cost = counters[value]
        shown = value if event in VALUES and value != NEVER else None
        rows.append(TallyRow(owner, event, shown, count, costed, cost))
        left.values -= 1
        left.add(-count, -costed, -cost)
    return [*rows, left] if left.values else rows


def unplaced(analysis: Analysis) -> int:
    """Records that found no room in the table."""
    return analysis.engine.pairs.tallies.others()[codes.COUNT]
