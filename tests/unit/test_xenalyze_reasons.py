"""The reasons that tests/golden/xenalyze.md gives, proved from the records alone: taking them
for true gives xenalyze's numbers, to the last digit that it prints."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import NamedTuple

import pytest

from tests.support import captures
from tests.support.disagreements import listed, rows
from tests.support.xenalyze import Cycles
from tests.support.xentrace import decode
from tracelib.events.exits import svm_exit_name
from tracelib.records import WRAP_BUFFER, Record, iter_records

RUNNING, RUNNABLE = 0, 1
CONTINUE, ENTRY, EXITS = 0x21002, 0x81001, (0x81002, 0x81102)


HERE = {*captures.NAMES, *captures.SHARED_NAMES}


def having(reason, *but):
    """Captures in whose list the reason is."""
    return [
        pytest.param(name, marks=pytest.mark.slow) if name == "pvh-boot.trace" else name
        for name in sorted(HERE - set(but))
        if any(row.reason == reason for row in listed(name))
    ]


class Dated(NamedTuple):
    """A record with a time stamp."""

    tsc: int
    cpu: int
    record: Record

    @property
    def change(self) -> tuple[int, int, int] | None:
        """vCPU as domain << 16 | number, old and new runstate."""
        event = self.record.event
        if event == CONTINUE:
            return self.record.extra[0], RUNNING, RUNNING
        if event & ~0xFF0 != 0x21001:
            return None
        return self.record.extra[0], event >> 8 & 0xF, event >> 4 & 0xF


def records_of(name) -> Iterator[tuple[int, Record]]:
    """Each with its CPU, as they are in the file."""
    shared = captures.SHARED / name
    data = shared.read_bytes() if name in captures.SHARED_NAMES else captures.capture(name)
    for window in decode(data)[0]:
        for record in iter_records(window.payload):
            yield window.cpu, record


@cache
def dated(name) -> list[Dated]:
    """Of all CPUs, by time."""
    found = [
        Dated(record.tsc, cpu, record) for cpu, record in records_of(name)
        if record.tsc is not None and record.event != WRAP_BUFFER
    ]  # fmt: skip
    return sorted(found, key=lambda at: (at.tsc, at.cpu))


def ends(name) -> Iterator[tuple[int, int, int]]:
    """CPU; how long it is from its first record to the first that tells who runs; and from its
    last record to the end of the trace."""
    records = dated(name)
    for cpu in {at.cpu for at in records}:
        mine = [at for at in records if at.cpu == cpu]
        told = next(at.tsc for at in mine if at.change and RUNNING in at.change[1:])
        yield cpu, told - mine[0].tsc, records[-1].tsc - mine[-1].tsc


@pytest.mark.parametrize("name", having("ends"))
def test_ends(name):
    """R68: xenalyze's time is ours, and the one piece more, and the other less."""
    pieces = {cpu: (before, after) for cpu, before, after in ends(name)}
    for row in listed(name):
        if row.reason != "ends":
            continue
        owner, _ = row.what.split()
        # Nobody moves at the ends but who runs there, on one CPU or on two.
        cpus = [int(owner[3:])] if owner.startswith("cpu") else list(pieces)
        possible = {
            int(row.ours) + before - after
            for before in (0, *(pieces[cpu][0] for cpu in cpus))
            for after in (0, *(pieces[cpu][1] for cpu in cpus))
        }
        theirs = cycles(row.theirs)
        assert any(theirs.sums_to(total) for total in possible), row


@pytest.mark.parametrize("name", having("fillers"))
def test_fillers(name):
    """What xenalyze has more are the wrap records' bytes, and the lost records' once more."""
    fillers = [record for _, record in records_of(name) if record.event == WRAP_BUFFER]
    (row,) = [row for row in listed(name) if row.reason == "fillers"]
    size = sum(len(record.encode()) for record in fillers)
    assert int(row.theirs) == 2 * int(row.ours) + size


@pytest.mark.parametrize("name", having("first stay"))
def test_first_stay(name):
    """Ours is one for each CPU in a row on which records show the vCPU running."""
    runs: dict[str, list[int]] = {}
    for at in dated(name):
        if at.change and RUNNING in at.change[1:]:
            runs.setdefault(name_of(at.change[0]), []).append(at.cpu)
    for row in listed(name):
        if row.reason == "first stay":
            owner, _ = row.what.split()
            stays = len(list(groupby(runs[owner])))
            assert int(row.ours) == stays
            assert stays - 2 <= int(row.theirs) < stays, row


@pytest.mark.parametrize("name", having("first spell", "boot4.trace"))
def test_first_spell(name):
    """R68: without the first one, the spells of a state are xenalyze's. Not in boot4, whose
    gaps cut spells, which changes alone do not tell."""
    found = spells(dated(name))
    for row in listed(name):
        if row.reason == "first spell":
            _, *rest = found[row.what]
            theirs = Cycles(len(rest), sum(rest) // len(rest)) if rest else 0
            assert row.theirs == str(theirs), row


def test_last_spell():
    """All spells that end are xenalyze's; ours has the time from the last change too."""
    for row in rows():
        if row.reason != "last spell" or row.capture not in HERE:
            continue
        records = dated(row.capture)
        whole = spells(records)[row.what]
        assert cycles(row.theirs) == Cycles(len(whole), sum(whole) // len(whole)), row
        owner, _ = row.what.split()
        last = max(at.tsc for at in records if at.change and name_of(at.change[0]) == owner)
        assert int(row.ours) == sum(whole) + records[-1].tsc - last


def spells(records) -> dict[str, list[int]]:
    """Times in a state, from change to change, in the order in which they end."""
    found: dict[str, list[int]] = {}
    states: dict[int, tuple[str, int]] = {}
    for at in records:
        if at.change is None:
            continue
        who, old, new = at.change
        if who in states:
            name, since = states[who]
            found.setdefault(f"{name_of(who)} {name}", []).append(at.tsc - since)
        waits = "preempt" if old == RUNNING else "wake"
        states[who] = ("running", waits, "blocked", "offline")[new], at.tsc
    return found


@pytest.mark.parametrize("name", having("early end"))
def test_early_end(name):
    """R33: exits that end when their vCPU becomes runnable have xenalyze's number and mean."""
    found = exits_by_reason(dated(name))
    for row in listed(name):
        if row.reason == "early end":
            costs = found[row.what]
            assert cycles(row.theirs) == Cycles(len(costs), sum(costs) // len(costs)), row


def exits_by_reason(records) -> dict[str, list[int]]:
    """What each exit costs until its vCPU enters, or becomes runnable if that is earlier."""
    found: dict[str, list[int]] = {}
    current: dict[int, int] = {}
    opened: dict[int, tuple[str, int]] = {}

    def end(who, now):
        if who in opened:
            reason, since = opened.pop(who)
            found.setdefault(f"{name_of(who)} exit {reason}", []).append(now - since)

    for tsc, cpu, record in records:
        if change := Dated(tsc, cpu, record).change:
            who, old, new = change
            if new == RUNNABLE:
                end(who, tsc)
            if new == RUNNING:
                current[cpu] = who
            elif old == RUNNING:
                current.pop(cpu, None)
        elif record.event in EXITS and cpu in current:
            opened[current[cpu]] = svm_exit_name(record.extra[0]), tsc
        elif record.event == ENTRY and cpu in current:
            end(current[cpu], tsc)
    return found


def name_of(who) -> str:
    return f"d{who >> 16}v{who & 0xFFFF}"


def cycles(text) -> Cycles:
    number, mean = text.split(" x ")
    return Cycles(int(number), int(mean))
