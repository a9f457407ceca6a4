"""The simulated guests: the same seed gives the same records, the records make sense, and
the facts counted beside them are what they say."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support.machines import HZ, PRODUCERS, GuestAccount, Machine, real_records
from tests.support.uncompiled import load_uncompiled
from tracelib.records import LOST_RECORDS
from xtraced.sources.sim import engine, guests, headers


def exits_by_reason(vcpu, family: str = "vmx") -> dict[int, list[int]]:
    sums: dict[int, list[int]] = {}
    for row, counts in enumerate(vcpu.exits()):
        if counts[0]:
            total = sums.setdefault(guests.exit_reason(row, family), [0, 0, 0])
            for index, count in enumerate(counts):
                total[index] += count
    return sums


def machine_of(milliseconds: int = 40, **options) -> Machine:
    machine = Machine(**options)
    machine.run(milliseconds)
    return machine


def test_same_seed_same_records():
    first, second = machine_of(seed=5), machine_of(seed=5)
    assert first.taken == second.taken
    assert sum(map(len, first.taken.values())) > 500_000


def test_another_seed_other_records():
    first, second = machine_of(seed=5), machine_of(seed=6)
    assert all(first.taken[cpu] != second.taken[cpu] for cpu in first.taken)


def test_records_do_not_depend_on_how_the_time_is_cut():
    whole, pieces = Machine(seed=5), Machine(seed=5)
    whole.run(20)
    for _ in range(20):
        pieces.run(1)
    assert whole.taken == pieces.taken


@pytest.mark.parametrize("family", ["vmx", "svm"])
def test_compiled_and_uncompiled_give_the_same_records_and_facts(family):
    plain = (PRODUCERS["uncompiled"], load_uncompiled(engine))
    compiled, uncompiled = Machine(family=family), Machine(family=family, forms=plain)
    for machine in (compiled, uncompiled):
        machine.run(12)
    assert compiled.taken == uncompiled.taken
    assert len(compiled.taken[0]) > 50_000
    for ours, theirs in zip(compiled.vcpus(), uncompiled.vcpus(), strict=True):
        assert ours.exits() == theirs.exits()
        assert ours.hypercalls() == theirs.hypercalls()
        assert (ours.running, ours.runnable, ours.blocked) == (
            theirs.running, theirs.runnable, theirs.blocked
        )  # fmt: skip


@pytest.mark.parametrize(("family", "event"), [("vmx", 0x81102), ("svm", 0x81103)])
@pytest.mark.parametrize("cpus", [1, 2, 5])
def test_facts_are_what_the_records_say(family, event, cpus):
    """To the last cycle: runstates, exits by reason, hypercalls, of every vCPU. The account
    also checks each record against the state that the ones before left."""
    machine = machine_of(30, cpus=cpus, family=family, domains=4)
    account = GuestAccount().read(machine.taken)
    assert account.events[event] > 0
    assert LOST_RECORDS not in account.events
    for vcpu in machine.vcpus():
        said = account.vcpus[(vcpu.domain, vcpu.number)]
        assert (said.running, said.runnable, said.blocked, said.changes) == (
            vcpu.running, vcpu.runnable, vcpu.blocked, vcpu.changes
        )  # fmt: skip
        assert dict(said.exits) == exits_by_reason(vcpu, family)
        calls = vcpu.hypercalls()
        assert said.hypercalls == Counter({n: c for n, (c, _) in enumerate(calls) if c})
        assert said.subcalls == Counter({n: c for n, (_, c) in enumerate(calls) if c})


def test_rings_know_who_runs():
    """A lost record names them: domain in the lower half, vCPU in the upper."""
    machine = Machine(cpus=2)
    for milliseconds in (0, 5, 7):
        machine.run(milliseconds)
        for cpu in machine.engine.cpus:
            assert cpu.ring.current == cpu.current.domain | cpu.current.number << 16


def test_vcpus_move_between_cpus():
    machine = machine_of(200, cpus=4, rate=10_000_000)
    assert GuestAccount().read(machine.taken).migrations > 0


@pytest.mark.parametrize("rate", [50_000, 2_000_000, 40_000_000])
def test_rate_is_the_wanted_one(rate):
    """Within 3 % once it has run for a while, at any rate."""
    machine = Machine(cpus=2, rate=rate)
    duration = max(50, 4_000_000_000 // rate)
    machine.run(duration)
    size = sum(map(len, machine.taken.values()))
    assert size == pytest.approx(rate * duration / 1000, rel=0.03)


LAYOUTS = {
    0x21002: 1, 0x22202: 2, 0x22203: 4, 0x22206: 1, 0x22207: 3, 0x22209: 0, 0x2220B: 4,
    0x2220D: 3, 0x22214: 3, 0x22215: 2, 0x28001: 1, 0x28002: 1, 0x28004: 2, 0x28006: 2,
    0x2800A: 4, 0x2800E: 3, 0x2800F: 4, 0x28011: 4, 0x41001: 1, 0x41002: 1, 0x81001: 0,
    0x81002: 2, 0x81102: 3, 0x84004: 5, 0x10F001: 1, 0x10F002: 1, 0x201008: 0, 0x201103: 3,
    0x201104: 5, 0x201106: 2, 0x20110B: 6, 0x801002: 4, 0x801003: 6, 0x802008: 3,
}  # fmt: skip
"""Extra words of the records with a TSC, as real captures and Xen's emission sites have them."""

UNTIMED_LAYOUTS = {
    0x8200C: 3, 0x8200D: 3, 0x8200E: 6, 0x8200F: 1, 0x82012: 1, 0x82013: 1, 0x82016: 2,
    0x8201A: 2, 0x82020: 3, 0x82021: 6, 0x82109: 3, 0x82216: 2, 0x82217: 2,
}  # fmt: skip


def test_every_layout_is_xens():
    """Also that nothing is left out: 40 000 records have nearly every event in them."""
    machine = machine_of(120, cpus=2, rate=40_000_000)
    records = [r for data in machine.taken.values() for r in real_records(bytes(data))]
    seen = set()
    for record in records:
        event = record.event
        if event & 0xFFFFF00F == 0x21001:
            event = 0x21002
        seen.add(event)
        if event == 0x20100D:
            args = bin(record.extra[0] >> 20).count("1")
            assert len(record.extra) == 1 + args
        elif event == 0x20200E:
            assert len(record.extra) in (1, 2)
        elif event in UNTIMED_LAYOUTS:
            assert (len(record.extra), record.tsc) == (UNTIMED_LAYOUTS[event], None)
        else:
            assert len(record.extra) == LAYOUTS[event]
            assert record.tsc is not None
    seldom = {0x28001, 0x28002, 0x41001, 0x41002, 0x81002}
    assert seen >= (LAYOUTS.keys() | UNTIMED_LAYOUTS.keys()) - seldom
    assert 18 <= sum(len(record.encode()) for record in records) / len(records) <= 25


def test_no_handler_carries_a_tsc():
    """HVM_HANDLER records have none; everything else that the guests leave has one."""
    for name, value in vars(headers).items():
        if name.isupper():
            handler = value & 0x0FFFF000 == 0x00082000
            assert bool(value >> 31) is not handler, name


def test_headers_and_their_c_twins():
    twin = Path(headers.__file__).with_suffix(".pxd").read_text()
    said = {name: int(value, 16) for name, value in re.findall(r'(\w+) "(0x\w+)u"', twin)}
    assert said == {name: value for name, value in vars(headers).items() if name.isupper()}


def test_skip_lets_only_the_tsc_go_on():
    plain, skipped = Machine(seed=9), Machine(seed=9)
    for machine in (plain, skipped):
        machine.run(5)
        machine.taken.clear()
    skipped.engine.skip(HZ)
    plain.run(5)
    skipped.run(5)
    times = [
        [r.tsc for r in real_records(bytes(machine.taken[0])) if r.tsc is not None]
        for machine in (plain, skipped)
    ]
    assert [tsc + HZ for tsc in times[0]] == times[1]


def test_run_stops_when_tracing_stops():
    machine = Machine()
    machine.host.enabled = False
    machine.engine.run(HZ)
    assert machine.engine.now == 0


def test_run_returns_to_have_an_event_delivered():
    machine = Machine(rate=100_000_000)
    machine.engine.run(HZ)
    assert machine.host.raised > 0
    assert machine.engine.now < HZ


def test_guests_cover_every_cpu():
    places = guests.place_guests([0, 2, 4, 6], 3)
    assert {place.cpu for place in places if place.domain == 0} == {0, 2, 4, 6}
    assert Counter(place.cpu for place in places if place.domain)[6] >= 2
    assert {place.kind for place in places if place.domain == 1} == {guests.HVM}
    assert {place.kind for place in places if place.domain == 2} == {guests.PV}
    assert guests.place_guests([0], 0) == [(0, 0, guests.PV, True, 0)]
