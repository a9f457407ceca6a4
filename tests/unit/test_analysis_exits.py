"""VM exits: pairs, what is no cost of theirs, and what cannot be paired."""

import random

import pytest

from tests.support.analysis import (
    BLOCKED,
    HZ,
    LOST,
    OFFLINE,
    RUNNABLE,
    RUNNING,
    UNKNOWN,
    analyze,
    change,
    times,
    vmentry,
    vmexit,
)
from tests.support.xentrace import lost
from tracelib.analysis.exits import exits
from tracelib.analysis.losslist import losses
from tracelib.analysis.results import Owner
from tracelib.losses import Cause, Loss
from tracelib.records import make_record
from tracelib.units import CpuId, DomId, Tsc, VcpuId

V = Owner(DomId(1), VcpuId(0))
US = HZ // 10**6


def rows_of(analysis, **options):
    found = exits(analysis, **({"by": "vcpu"} | options))
    return {(row.owner, row.cause.reason): row for row in found.rows}


def test_a_pair():
    """One exit of 700 cycles; the second has no entry before the end."""
    analysis = analyze({0: [
        change(1000, 1, 0, RUNNABLE, RUNNING), vmentry(1100), vmexit(2000, 30), vmentry(2700),
        vmexit(3000, 30),
    ]})  # fmt: skip
    row = rows_of(analysis)[V, 30]
    assert (row.seen, row.cost.number, row.cost.sum, row.cost.most) == (2, 1, 700, 700)
    assert (row.cut_end, row.cut_loss, row.cut_unseen) == (1, 0, 0)
    section = exits(analysis, by="vcpu")
    assert section.lone_entries == {V: 1}
    assert section.running[V] == 2000


def test_time_off_the_cpu_is_not_a_cost():
    """Exit on CPU 0, blocked 5000, waiting 300, entry on CPU 1: 100 + 50 cycles of cost."""
    analysis = analyze({
        0: [change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(2000, 12),
            change(2100, 1, 0, RUNNING, BLOCKED), change(2101, 0x7FFF, 0, RUNNABLE, RUNNING)],
        1: [change(1000, 0x7FFF, 1, RUNNABLE, RUNNING), change(7100, 1, 0, BLOCKED, RUNNABLE),
            change(7399, 0x7FFF, 1, RUNNING, RUNNABLE), change(7400, 1, 0, RUNNABLE, RUNNING),
            vmentry(7450), vmentry(8000)],
    })  # fmt: skip
    row = rows_of(analysis)[V, 12]
    assert row.cost.sum == 150
    assert (row.off_blocked, row.off_runnable) == (5000, 300)


def test_an_exit_belongs_to_its_vcpu_not_to_its_cpu():
    """d1v0 blocks in its exit; d2v0's entry on the same CPU is not the end of it."""
    analysis = analyze({0: [
        change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(1500, 12),
        change(1600, 1, 0, RUNNING, BLOCKED), change(1600, 2, 0, RUNNABLE, RUNNING),
        vmentry(1700), vmexit(1800, 30), vmentry(1850),
        change(1900, 2, 0, RUNNING, RUNNABLE), change(1900, 1, 0, BLOCKED, RUNNING),
        vmentry(1950),
    ]})  # fmt: skip
    rows = rows_of(analysis)
    assert (rows[V, 12].cost.sum, rows[V, 12].off_blocked) == (150, 300)
    assert rows[Owner(DomId(2), VcpuId(0)), 30].cost.sum == 50
    assert exits(analysis, by="vcpu").lone_entries == {Owner(DomId(2), VcpuId(0)): 1}


def test_lost_records_cut_the_pair():
    """R12: an exit, records lost for two seconds, an entry: no exit of two seconds."""
    start = 10 * HZ
    first, end = start + 10 * US, start + 2 * HZ
    analysis = analyze({0: [
        change(start - 1000, 1, 0, RUNNABLE, RUNNING), vmexit(start, 48),
        lost(end, 7, first, dom=1, vcpu=0), vmentry(end + US), vmexit(end + 2 * US, 48),
        vmentry(end + 3 * US),
    ]})  # fmt: skip
    row = rows_of(analysis)[V, 48]
    assert (row.seen, row.cost.number, row.cut_loss, row.cost.sum) == (2, 1, 1, US)
    spent = times(analysis, 1, 0)
    assert spent[LOST] == end - first
    assert spent[RUNNING] == 1000 + 10 * US + 3 * US
    assert spent[UNKNOWN] == 0
    section = losses(analysis)
    assert section.records == 7
    assert section.lost_cycles == {0: end - first}
    assert section.unseen == pytest.approx((end - first) / analysis.span)
    (gap,) = section.gaps
    assert (gap.cause, gap.records, gap.first, gap.last) == (Cause.RING_FULL, 7, first, end)


def test_a_lost_record_of_the_old_shape():
    """R16: one word: nobody knows since when, so since the record before; nor who runs."""
    analysis = analyze({0: [
        change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(2000, 48),
        make_record(0x1F001, 5, tsc=9000), vmentry(9500),
    ]})  # fmt: skip
    assert rows_of(analysis)[V, 48].cut_loss == 1
    assert times(analysis, 1, 0) == [1000, 0, 0, 0, 7000, 500]
    assert losses(analysis).records == 5


def test_a_wait_through_a_loss_elsewhere_is_left_out():
    """It may have run on the CPU whose records are missing."""
    idle = 0x7FFF
    analysis = analyze({
        0: [change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(1500, 12),
            change(1600, 1, 0, RUNNING, BLOCKED), change(1600, idle, 0, RUNNABLE, RUNNING),
            change(5000, idle, 0, RUNNING, RUNNABLE), change(5000, 1, 0, BLOCKED, RUNNING),
            vmentry(5100)],
        1: [change(1000, idle, 1, RUNNABLE, RUNNING), lost(3000, 9, 2000, dom=idle, vcpu=1)],
    })  # fmt: skip
    row = rows_of(analysis)[V, 12]
    assert (row.seen, row.cost.number, row.cut_loss) == (1, 0, 1)


def test_a_stated_loss_cuts_too():
    """R13: a loss that only the segment states is as good as a lost record."""
    stated = Loss(Cause.WRITE_FAILED, CpuId(0), 44, first_tsc=Tsc(2500), last_tsc=Tsc(3500))
    analysis = analyze({0: [
        change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(2000, 48), vmentry(4000),
    ]}, [stated])  # fmt: skip
    assert rows_of(analysis)[V, 48].cut_loss == 1
    assert times(analysis, 1, 0) == [1500, 0, 0, 0, 1000, 500]
    assert losses(analysis).sums[CpuId(0), Cause.WRITE_FAILED].records == 44


def generated(reasons=(1, 12, 28, 30, 48), count=1000, silent=200):
    """Exits of five reasons by turns; every fifth without a handler's record. The trace
    begins with an entry and ends with an exit."""
    random_cost = random.Random(33)
    now, records, costs = 10_000, [change(9_000, 1, 0, RUNNABLE, RUNNING), vmentry(9_500)], {}
    for number in range(count):
        reason = reasons[number % len(reasons)]
        cost = random_cost.randrange(500, 5000)
        records.append(vmexit(now, reason))
        if number >= silent:
            records.append(make_record(0x82216, 0x3F8, number))
        records.append(vmentry(now + cost))
        costs.setdefault(reason, []).append(cost)
        now += cost + 1000
    return [*records, vmexit(now, reasons[0])], costs


def test_a_thousand_exits():
    """R33: exactly 1000 pairs, 200 without handler, half pairs at both ends."""
    records, costs = generated()
    analysis = analyze({0: records})
    section = exits(analysis, by="vcpu")
    assert sum(row.cost.number for row in section.rows) == 1000
    assert sum(row.seen for row in section.rows) == 1001
    assert sum(row.cut_end for row in section.rows) == 1
    assert section.lone_entries == {V: 1}
    for row in section.rows:
        mine = sorted(costs[row.cause.reason])
        assert (row.cost.number, row.cost.sum, row.cost.most) == (200, sum(mine), mine[-1])
        for percent in (50, 95, 99):
            exact = mine[-(-len(mine) * percent // 100) - 1]
            assert row.cost.percentile(percent) == pytest.approx(exact, rel=1 / 64)
    (about,) = section.handlers
    assert (about.event, about.value) == ("ioport_write", 0x3F8)
    assert (about.count, about.costed) == (800, 800)
    handled = [cost for number, cost in enumerate(in_order(costs)) if number >= 200]
    assert about.cost == sum(handled)


def in_order(costs):
    """The costs as they came: by turns."""
    return [cost for turn in zip(*costs.values(), strict=True) for cost in turn]


@pytest.mark.parametrize("chunk_records", [1, 2, 3, 100])
def test_chunks_do_not_matter(chunk_records):
    records, _ = generated()
    whole, cut = analyze({0: records}), analyze({0: records}, chunk_records=chunk_records)
    assert exits(whole, by="vcpu").rows == exits(cut, by="vcpu").rows


def test_nobody_says_who_runs():
    """Without runstates, exits are paired by CPU and under no vCPU's name."""
    analysis = analyze({
        0: [vmentry(900), vmexit(1000, 30), vmentry(1500)],
        3: [vmexit(1000, 12), vmentry(1200)],
    })  # fmt: skip
    rows = rows_of(analysis)
    assert rows[Owner(cpu=CpuId(0)), 30].cost.sum == 500
    assert rows[Owner(cpu=CpuId(3)), 12].cost.sum == 200


def test_the_one_who_leaves_was_there_all_along():
    """The first runstate record is that of the vCPU leaving: the open exit is its own."""
    analysis = analyze({0: [
        vmexit(1000, 12), change(1100, 1, 0, RUNNING, BLOCKED),
        change(2100, 1, 0, BLOCKED, RUNNABLE), change(2200, 1, 0, RUNNABLE, RUNNING),
        vmentry(2250),
    ]})  # fmt: skip
    rows = rows_of(analysis)
    assert list(rows) == [(V, 12)]
    row = rows[V, 12]
    assert (row.seen, row.cost.sum, row.off_blocked, row.off_runnable) == (1, 150, 1000, 100)


def test_nested_exits():
    """An exit of a guest's guest is a reason of its own."""
    analysis = analyze({0: [
        change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(2000, 0x7B, nested=True),
        make_record(0x81401, tsc=2300), vmexit(3000, 0x7B), vmentry(3100),
    ]})  # fmt: skip
    found = {row.cause.nested: row.cost.sum for row in exits(analysis, by="vcpu").rows}
    assert found == {True: 300, False: 100}


def own(number, reason):
    return make_record(number, reason, 0x1000, 0, tsc=2000)


@pytest.mark.parametrize(
    ("records", "options", "names", "guessed"),
    [
        ([own(0x81103, 0x400)], {}, ["NPF"], False),
        ([own(0x81102, 0x400)], {}, ["NPF"], True),
        ([own(0x81102, 30)], {}, ["IO_INSTRUCTION"], True),
        ([own(0x81102, 48)], {"stated": "vmx"}, ["EPT_VIOLATION"], False),
        ([own(0x81102, 48)], {"stated": "AuthenticAMD"}, ["DR0_WRITE"], False),
        ([own(0x81102, 48)], {"stated": "svm", "vendor": "intel"}, ["EPT_VIOLATION"], False),
        # Intel's or AMD's? Nobody can tell, so a number.
        ([own(0x81102, 16)], {}, ["16"], False),
        ([own(0x81102, 999)], {"vendor": "intel"}, ["999"], False),
        ([own(0x81102, 48), own(0x81102, 0x8000_0021)], {"vendor": "intel"},
         ["EPT_VIOLATION", "INVALID_GUEST_STATE+FAILED_VMENTRY"], False),
    ],
)  # fmt: skip
def test_whose_reasons(records, options, names, guessed):
    """R32: new numbers tell by themselves, old ones by option, metadata or a stated guess."""
    analysis = analyze({0: [change(1000, 1, 0, RUNNABLE, RUNNING), *records, vmentry(2500)]})
    section = exits(analysis, by="vcpu", **options)
    assert sorted(row.cause.name for row in section.rows) == sorted(names)
    assert section.verdict.guessed is guessed


def test_what_exits_are_about():
    """Addresses keep all 64 bits; a record without data is no different; unknown handlers
    are counted by their number."""
    records = [change(1000, 1, 0, RUNNABLE, RUNNING)]
    handlers = [
        make_record(0x82117, 0xFEE00300, 0, 1, 0),
        make_record(0x82117, 0xFEE00308, 1, 1, 0),  # 4 GiB further on
        make_record(0x82016, 0x60), make_record(0x82016, 0x60, 5),
        make_record(0x82109, 3, 0x1000, 0), make_record(0x820FF, 1),
        make_record(0x8200C, 0xC0000080, 1, 0),
    ]  # fmt: skip
    for number, handler in enumerate(handlers):
        records += [vmexit(2000 + 100 * number, 48), handler, vmentry(2010 + 100 * number)]
    section = exits(analyze({0: records}), by="vcpu")
    assert {(row.event, row.value): (row.count, row.cost) for row in section.handlers} == {
        ("iomem_read", 0xFEE00): (1, 10), ("iomem_read", 0x1FEE00): (1, 10),
        ("ioport_read", 0x60): (2, 20), ("cr_write", 3): (1, 10), ("0x000820ff", None): (1, 10),
        ("msr_read", 0xC0000080): (1, 10),
    }  # fmt: skip


def test_how_long_io_took():
    """R33: a read of a port that a device model answers: 300 cycles on the CPU, 5000 off it."""
    records = [
        change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(2000, 30),
        make_record(0x82016, 0x60, 1), change(2200, 1, 0, RUNNING, OFFLINE),
        change(6200, 1, 0, OFFLINE, RUNNABLE), change(7200, 1, 0, RUNNABLE, RUNNING),
        vmentry(7300), vmexit(8000, 30), make_record(0x82016, 0x60, 1), vmentry(8010),
    ]  # fmt: skip
    (row,) = exits(analyze({0: records}), by="vcpu").handlers
    assert (row.count, row.costed, row.cost, row.off) == (2, 2, 310, 5000)


def test_an_exit_costs_once():
    """However many records of a kind it has: xen/arch/x86/hvm/intr.c asks for a window each
    time that it cannot deliver."""
    window = make_record(0x82020, 0xF3, 0xFFFFFFFF)
    records = [
        change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(2000, 30), window, window, window,
        vmentry(2050), vmexit(3000, 30), window, vmentry(3007),
    ]  # fmt: skip
    (row,) = exits(analyze({0: records}), by="vcpu").handlers
    assert (row.event, row.count, row.costed, row.cost) == ("intr_window", 4, 2, 57)


@pytest.mark.parametrize("by", ["domain", "vcpu", "cpu"])
def test_rows_by(by):
    """The same exits, under other names; their number and cost stay."""
    records = {
        cpu: [change(1000, 1, cpu, RUNNABLE, RUNNING), vmexit(2000, 30), vmentry(2100 + cpu)]
        for cpu in (0, 1)
    }
    analysis = analyze(records, by_cpu=by == "cpu")
    section = exits(analysis, by=by)
    assert sum(row.cost.sum for row in section.rows) == 201
    assert [row.owner for row in section.rows] == {
        "domain": [Owner(DomId(1))],
        "vcpu": [Owner(DomId(1), VcpuId(0)), Owner(DomId(1), VcpuId(1))],
        "cpu": [Owner(cpu=CpuId(0)), Owner(cpu=CpuId(1))],
    }[by]


def test_only_a_domain():
    analysis = analyze({
        0: [change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(2000, 30), vmentry(2100)],
        1: [change(1000, 2, 0, RUNNABLE, RUNNING), vmexit(2000, 30), vmentry(2100)],
    })  # fmt: skip
    section = exits(analysis, by="vcpu", domain=DomId(2))
    assert [row.owner.domain for row in section.rows] == [2]


def test_a_part_of_the_time():
    """From 3000 on, before 6000: what began earlier is no exit of this time, but who runs
    is known; what ends later is cut by the end."""
    records = [change(1000, 1, 0, RUNNABLE, RUNNING), vmentry(1500)]
    for start in (2000, 2900, 4000, 5900, 7000):
        records += [vmexit(start, 30), vmentry(start + 200)]
    analysis = analyze({0: records}, since=Tsc(3000), until=Tsc(6000))
    row = rows_of(analysis)[V, 30]
    assert (row.seen, row.cost.number, row.cost.sum, row.cut_end) == (2, 1, 200, 1)
    assert exits(analysis, by="vcpu").lone_entries == {V: 1}
    assert (analysis.first, analysis.last) == (3000, 6000)
    assert times(analysis, 1, 0) == [3000, 0, 0, 0, 0, 0]


def test_the_end_lies_in_a_gap():
    """R13: `until` inside a gap: the part before it is lost, and the number unknown."""
    analysis = analyze({0: [
        change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(2000, 48),
        lost(9000, 7, 3000, dom=1, vcpu=0), vmentry(9100),
    ]}, until=Tsc(5000))  # fmt: skip
    assert times(analysis, 1, 0) == [2000, 0, 0, 0, 2000, 0]
    (gap,) = losses(analysis).gaps
    assert (gap.records, gap.first, gap.last) == (None, 3000, 5000)
    assert rows_of(analysis)[V, 48].cut_loss == 1
