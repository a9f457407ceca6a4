"""Counting code addresses of VM exits and of PV guests' traps, note by note."""

from __future__ import annotations

import numpy as np

from tracelib.analysis import codes
from tracelib.analysis.analyze import Analysis
from tracelib.analysis.families import Verdict
from tracelib.analysis.results import By, Owner, guests, owner_of, unseen_share, wanted
from tracelib.analysis.where import Where, WhereRow
from tracelib.columns import U64
from tracelib.events.catalogue import event_name, lookup
from tracelib.events.exits import exit_name
from tracelib.records import EVENT_MASK, EXTRA_MASK, EXTRA_SHIFT
from tracelib.symbols import SymbolBook
from tracelib.units import CpuId, DomId

MAX_PLACES = 1 << 17
"""So many are told apart; what comes later is only counted."""

_ADDRESSES = ("rip", "eip")


class Whereabouts:
    """Takes an analysis' notes and counts."""

    noted = codes.WANT_EXITS | codes.WANT_RECORDS
    """What the engine has to note."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, ...], list[int]] = {}
        """By tag, vCPU's index, CPU, row of exits or header, and address: number and cycles."""
        self._others = 0

    def take(self, notes: bytes) -> None:
        """Some more of them (tracelib.analysis.notes)."""
        rows = np.frombuffer(notes, np.uint64).reshape(-1, codes.NOTE_COLUMNS)
        exits = rows[rows[:, 0] == codes.EXITED]
        self._count(np.column_stack([exits[:, :4], exits[:, 7]]), exits[:, 6])
        records = rows[rows[:, 0] == codes.RECORD]
        for header in np.unique(records[:, 3]).tolist():
            some = records[records[:, 3] == header]
            addresses = _addresses(some, header)
            if addresses is not None:
                self._count(
                    np.column_stack([some[:, :4], addresses]), np.zeros(len(some), np.uint64)
                )

    def _count(self, keys: U64, cycles: U64) -> None:
        if not len(keys):
            return
        distinct, which, numbers = np.unique(
            keys, axis=0, return_inverse=True, return_counts=True
        )
        sums = np.zeros(len(distinct), np.uint64)
        np.add.at(sums, which.reshape(-1), cycles)
        for key, number, cost in zip(
            map(tuple, distinct.tolist()), numbers.tolist(), sums.tolist(), strict=True
        ):
            total = self._found.get(key)
            if total is not None:
                total[0] += number
                total[1] += cost
            elif len(self._found) < MAX_PLACES:
                self._found[key] = [number, cost]
            else:
                self._others += number

    def section(
        self, analysis: Analysis, verdict: Verdict, *, by: By, domain: DomId | None = None,
        book: SymbolBook | None = None,
    ) -> Where:
        """What was counted. Names are those of whoever ran; with `by` "cpu" too."""
        rows: dict[tuple[Owner, str, int, str | None], WhereRow] = {}
        for (tag, index, cpu, what, address), (number, cost) in self._found.items():
            vcpu = analysis.engine.states.vcpus[index]
            who = owner_of(vcpu, "vcpu")
            owner = Owner(cpu=CpuId(cpu)) if by == "cpu" else owner_of(vcpu, by)
            if not wanted(who, domain):
                continue
            name = _exit(analysis, verdict, what) if tag == codes.EXITED else _event(what)
            symbol = None if book is None else book.lookup(who.domain, address)
            row = rows.setdefault(
                (owner, name, address, symbol), WhereRow(owner, name, address, symbol)
            )
            row.count += number
            row.costed += number if tag == codes.EXITED else 0
            row.cost += cost
        ordered = sorted(
            rows.values(),
            key=lambda row: (row.owner.order, -row.cost, -row.count, row.address, row.what),
        )
        unseen = None if analysis.forms.kvm else unseen_share(guests(analysis, domain))
        return Where(by, verdict, ordered, self._others, unseen)


def _addresses(rows: U64, header: int) -> U64 | None:
    """The code addresses in records of one form; None if such have none."""
    form = lookup(header & EVENT_MASK, header >> EXTRA_SHIFT & EXTRA_MASK)
    words = np.ascontiguousarray(rows[:, 5:]).view(np.uint32).astype(np.uint64)
    for field in () if form is None else form.fields:
        if field.name in _ADDRESSES:
            low = words[:, field.word]
            return low | words[:, field.word + 1] << np.uint64(32) if field.width > 32 else low
    return None


def _exit(analysis: Analysis, verdict: Verdict, row: int) -> str:
    if row == codes.OTHERS:
        return "other"
    key, reason = analysis.engine.pairs.exits.keys(row)
    family = "svm" if key & codes.SVM_EVENT else verdict.family
    return exit_name(family, reason) + (" (nested)" if key & codes.NESTED else "")


def _event(header: int) -> str:
    return event_name(header & EVENT_MASK)
