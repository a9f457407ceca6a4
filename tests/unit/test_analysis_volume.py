"""Volume, activity and losses: exact sums, bounded lists."""

import pytest

from tests.support.analysis import (
    RUNNABLE,
    RUNNING,
    MemoryReader,
    analyze,
    change,
    run,
    vmentry,
)
from tests.support.xentrace import lost
from tracelib.analysis import gaplist
from tracelib.analysis.activity import activity
from tracelib.analysis.labels import value_text
from tracelib.analysis.losslist import losses
from tracelib.analysis.results import Owner
from tracelib.analysis.tallies import KEPT
from tracelib.analysis.volume import volume
from tracelib.losses import Cause
from tracelib.records import make_record
from tracelib.units import CpuId, DomId, Tsc, VcpuId

V = Owner(DomId(1), VcpuId(0))
SECOND = 10**9


def test_volume():
    """By event, class, CPU and second; fillers are none of it, lost records are."""
    payload = [
        change(SECOND, 1, 0, RUNNABLE, RUNNING), make_record(0x82013, 0),
        make_record(0x1F002, 1, 2, 3, tsc=7), make_record(0x0FFFFFFF, *range(7), tsc=2 * SECOND),
        lost(4 * SECOND + 1, 9, 3 * SECOND, dom=1),
    ]  # fmt: skip
    section = volume(analyze({0: payload, 5: [vmentry(SECOND)]}))
    assert (section.total.records, section.total.bytes) == (5, 16 + 8 + 40 + 28 + 12)
    assert {event: amount.bytes for event, amount in section.events.items()} == {
        0x21101: 16, 0x82013: 8, 0x0FFFFFFF: 40, 0x1F001: 28, 0x81001: 12,
    }  # fmt: skip
    assert {name: amount.records for name, amount in section.classes.items()} == {
        "sched.min": 1, "hvm.handler": 1, "class 0x0ffff000": 1, "gen": 1, "hvm.entryexit": 1,
    }  # fmt: skip
    assert {cpu: amount.records for cpu, amount in section.cpus.items()} == {0: 4, 5: 1}
    assert section.wraps == {0: 1, 5: 0}
    assert section.unknown_events == 1
    records = [
        {name: amount.records for name, amount in piece.amounts.items()} for piece in section.bins
    ]
    assert records == [{"sched": 1, "hvm": 2}, {"gen": 1}, {}, {"gen": 1}]
    assert section.bins[3].start == 4 * SECOND


def test_a_long_trace_has_longer_bins():
    """R51: 5000 seconds in at most 2048 bins, nothing lost on the way."""
    records = [vmentry(SECOND * second) for second in range(1, 5001)]
    section = volume(analyze({0: records, 1: records[::7]}))
    assert section.bin_cycles == 4 * SECOND
    counts = [sum(a.records for a in piece.amounts.values()) for piece in section.bins]
    assert len(counts) == 1250
    assert sum(counts) == section.total.records == 5000 + 715
    assert set(counts[:-1]) <= {4, 5}


def test_activity():
    hypercall = make_record(0x20100D, 4 << 20 | 1, 8, tsc=2000)
    old = make_record(0x201101, 0x1000, 0, 29, tsc=2100)
    inner = make_record(0x20200E, 26, tsc=2200)
    fault = make_record(0x201104, 0x1000, 0, 0x2000, 0, 6, tsc=2300)
    trap = make_record(0x201103, 0x1000, 0, 13 | 1 << 15 | 0xFFFF << 16, tsc=2400)
    grant = make_record(0x10F001, 5, tsc=2500)
    handled = make_record(0x802008, 4, 10, 20, tsc=2600)
    bound = make_record(0x802003, 0x21 | 0x89 << 16, *range(6), tsc=2700)
    asleep = make_record(0x801002, 2, 1, 2, 3, tsc=2800)
    start = change(1000, 1, 0, RUNNABLE, RUNNING)
    analysis = analyze({0: [
        start, hypercall, hypercall, old, inner, fault, trap, grant, handled, bound, asleep,
    ]})  # fmt: skip
    section = activity(analysis, by="vcpu")

    def seen(rows):
        assert {row.owner for row in rows} <= {V}
        return {(row.event, row.value): row.count for row in rows}

    assert seen(section.calls) == {
        ("hypercall", 1): 2, ("hypercall", 29): 1, ("hypercall_subcall", 26): 1,
    }  # fmt: skip
    assert seen(section.entries) == {("page_fault", 6): 1, ("trap", 13): 1}
    assert seen(section.memory) == {("page_grant_map", 5): 1}
    assert seen(section.interrupts) == {("irq_handled", 4): 1, ("irq_bind_vector", 0x21): 1}
    assert seen(section.power) == {("pm_idle_entry", 2): 1}
    assert section.others == 0


def test_many_values():
    """R51: the most frequent values are told apart; the others are one row, and their
    number is said."""
    count = KEPT + 20
    records = [change(1000, 1, 0, RUNNABLE, RUNNING)]
    for number in range(count):
        records += [make_record(0x10F001, number, tsc=2000 + number)] * (2 if number >= 20 else 1)
    for by in ("vcpu", "domain"):
        rows = activity(analyze({0: records}), by=by).memory
        assert [row.value for row in rows] == [*range(20, count), None]
        assert (rows[-1].values, rows[-1].count) == (20, 20)
        assert sum(row.count for row in rows) == len(records) - 1


@pytest.mark.parametrize(
    ("event", "value", "text"),
    [
        ("ioport_write", 0x3F8, "port=0x3f8"),
        ("iomem_read", 0xFEE00, "gpa=0xfee00000"),
        ("intr", 0xFA, "vector=0xfa LOCAL_TIMER"),
        ("hypercall", 29, "op=sched_op"),
        ("trap", 13, "trapnr=#GP"),
        ("page_grant_map", 5, "dom=d5"),
        ("cr_write", 3, "cr=3"),
        ("msr_write", 0x80B, "msr=0x80b X2APIC_EOI"),
        ("msr_read", 0x12345, "msr=0x12345"),
        ("page_fault", 0x6, "error_code=0x6 ring 3 write absent"),
        ("page_fault", 0x14, "error_code=0x14 ring 3 fetch absent"),
        ("pf_inject", 0x2B, "error_code=0x2b ring 0 write present reserved bit protection key"),
        ("pf_xen", 0x1, "error_code=0x1 ring 0 read present"),
        ("rdtsc", None, ""),
    ],
)
def test_values_in_words(event, value, text):
    assert value_text(event, value) == text


def test_losses():
    """When, where, how long, how many, why; the longest first."""
    analysis = analyze({
        0: [vmentry(1000), lost(3000, 5, 2000), lost(9000, 6, 5000), vmentry(11000)],
        1: [vmentry(1000), lost(2500, 1, 2400), vmentry(11000)],
    })  # fmt: skip
    section = losses(analysis)
    assert section.records == 12
    assert [(gap.cpu, gap.first, gap.cycles, gap.records) for gap in section.gaps] == [
        (0, 5000, 4000, 6), (0, 2000, 1000, 5), (1, 2400, 100, 1),
    ]  # fmt: skip
    assert section.lost_cycles == {0: 5000, 1: 100}
    assert section.unseen == 5100 / 20000
    total = section.sums[CpuId(0), "ring_full"]
    assert (total.gaps, total.records, total.cycles, total.longest) == (2, 11, 5000, 4000)


def test_why_the_rings_overflowed():
    """R37: by the flag of the block that the lost record came in, chunk by chunk, as `info` and
    `dump` have it; also for a gap that the end cuts."""
    records = [vmentry(1000), lost(3000, 5, 2000), vmentry(4000), lost(9000, 6, 5000)]
    reader = MemoryReader({0: records, 1: [vmentry(20000)]}, chunk_records=2, queue_full={1})
    assert {key: total.records for key, total in losses(run(reader)).sums.items()} == {
        (0, Cause.RING_FULL): 5, (0, Cause.QUEUE_FULL): 6,
    }
    cut = losses(run(reader, until=Tsc(7000)))
    assert cut.sums[CpuId(0), Cause.QUEUE_FULL].uncounted == 1


def test_many_gaps():
    """R51: the list is bounded, and says how many it left out; the sums are exact."""
    count = gaplist.KEPT + 500
    records = [vmentry(1000)]
    for number in range(count):
        now = 10_000 * (number + 1)
        records += [lost(now, 2, now - number - 1), vmentry(now + 1)]
    section = losses(analyze({0: records}))
    assert section.records == 2 * count
    assert (len(section.gaps), section.left_out) == (gaplist.KEPT, 500)
    assert section.gaps[0].cycles == count
