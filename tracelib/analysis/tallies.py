"""Records counted by what they are about: registers, ports, vectors, hypercalls, domains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from tracelib.analysis import codes
from tracelib.analysis.analyze import NEVER, Analysis
from tracelib.analysis.forms import VALUES
from tracelib.analysis.results import By, Owner, owner_at, wanted
from tracelib.analysis.sieve import Sieve
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
    """Exits with their entry that these records belong to, and what those cost, in cycles; or,
    of interrupts, how many say how long their handler took, and how long."""
    cost: int = 0
    off: int = 0
    """Cycles in which the vCPUs had no CPU, between those exits and their entries: not in
    `cost`. With what a device model does, it is how long I/O took."""
    values: int = 1
    """How many values this is the sum of."""

    def add(self, count: int, costed: int, cost: int, off: int) -> None:
        """One value more."""
        self.count += count
        self.costed += costed
        self.cost += cost
        self.off += off
        self.values += 1


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


_Entry = tuple[int, int, int, int, int]
"""A value's cost and count, both negative, the value, how many records have a cost, and time
off the CPU: what is listed first is the least."""


@dataclass(slots=True)
class _Group:
    """One owner's values of one event."""

    keys: list[int] = field(default_factory=list)
    """Those of the table: several vCPUs', if they are kept by domain."""
    entries: list[_Entry] = field(default_factory=list)
    rest: list[int] = field(default_factory=lambda: [0, 0, 0, 0, 0])
    """Values that are not among the entries: how many, and sums of count, costed, cost,
    off."""


def _found(
    analysis: Analysis, by: By, groups: Collection[str]
) -> dict[tuple[Owner, str], _Group]:
    chosen = {
        number: kind.event
        for number, kind in enumerate(analysis.forms.kinds) if kind.group in groups
    }
    sieve = Sieve(analysis.engine.pairs.tallies, codes.COST, KEPT)
    found: defaultdict[tuple[Owner, str], _Group] = defaultdict(_Group)
    group_of: dict[int, _Group] = {}
    sizes = sieve.sizes()
    for key in sizes:
        event = chosen.get(key & 0xFFFFFFFF)
        if event is None:
            sieve.drop(key)
        else:
            group = group_of[key] = found[owner_at(analysis, key >> 32, by), event]
            group.keys.append(key)
    # What is to be added up has to be there.
    thinned = [group for group in found.values() if len(group.keys) == 1]
    thinned = [group for group in thinned if sizes[group.keys[0]] > KEPT]
    for group in thinned:
        sieve.thin(group.keys[0])
    for key, value, count, costed, cost, off in sieve.left():
        group_of[key].entries.append((-cost, -count, value, costed, off))
    for group in thinned:
        group.rest = sieve.rest(group.keys[0])
    for group in found.values():
        if len(group.keys) > 1:
            group.entries = _merged(group.entries)
    return found


def _merged(entries: list[_Entry]) -> list[_Entry]:
    """One entry for each value."""
    totals: dict[int, _Entry] = {}
    for entry in entries:
        cost, count, value, costed, off = entry
        before = totals.get(value)
        if before is not None:
            entry = (
                cost + before[0], count + before[1], value, costed + before[3], off + before[4],
            )
        totals[value] = entry
    return list(totals.values())


def _rows(owner: Owner, event: str, group: _Group) -> list[TallyRow]:
    listed = sorted(group.entries)
    rows = [
        TallyRow(
            owner, event, value if event in VALUES and value != NEVER else None,
            -count, costed, -cost, off,
        )
        for cost, count, value, costed, off in listed[:KEPT]
    ]
    values, count, costed, cost, off = group.rest
    left = TallyRow(owner, event, None, count, costed, cost, off, values)
    for cost, count, _, costed, off in listed[KEPT:]:
        left.add(-count, costed, -cost, off)
    return [*rows, left] if left.values else rows


def unplaced(analysis: Analysis) -> int:
    """Records that found no room in the table."""
    return analysis.engine.pairs.tallies.others()[codes.COUNT]
