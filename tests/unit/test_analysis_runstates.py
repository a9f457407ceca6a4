"""Runstates: sums, what was not seen, and clocks that disagree."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.analysis import (
    BLOCKED,
    HZ,
    OFFLINE,
    RUNNABLE,
    RUNNING,
    UNKNOWN,
    analyze,
    change,
    run,
    times,
    vmentry,
    vmexit,
)
from tests.support.segments import SegmentBuilder
from tests.support.xentrace import lost
from tracelib.analysis.exits import exits
from tracelib.analysis.losslist import losses
from tracelib.analysis.runstates import runstates
from tracelib.losses import Cause, Loss
from tracelib.records import make_record
from tracelib.ring.runstates import RunstateSnapshot, VcpuState
from tracelib.store.segment import SegmentReader
from tracelib.units import CpuId, DomId, Tsc, VcpuId

US = HZ // 10**6
IDLE = 0x7FFF


def row_of(analysis):
    (row,) = runstates(analysis, by="vcpu").rows
    return row


def test_sums_and_spells():
    """Two CPUs, one guest vCPU that blocks, wakes, runs elsewhere, is put off and comes back."""
    analysis = analyze({
        0: [change(1000, 1, 0, RUNNABLE, RUNNING), change(1500, 1, 0, RUNNING, BLOCKED),
            change(1500, IDLE, 0, RUNNABLE, RUNNING), change(2500, 1, 0, BLOCKED, RUNNABLE)],
        1: [change(1000, IDLE, 1, RUNNABLE, RUNNING), change(2600, IDLE, 1, RUNNING, RUNNABLE),
            change(2600, 1, 0, RUNNABLE, RUNNING), change(3000, 1, 0, RUNNING, RUNNABLE),
            change(3010, IDLE, 1, RUNNABLE, RUNNING), change(3040, IDLE, 1, RUNNING, RUNNABLE),
            change(3050, 1, 0, RUNNABLE, RUNNING), vmentry(4000)],
    })  # fmt: skip
    row = row_of(analysis)
    assert row.times == [500 + 400 + 950, 100 + 50, 1000, 0, 0, 0]
    spells = {
        name: (spread.number, spread.sum)
        for name, spread in zip(("ran", "woken", "preempted", "slept"), row.spells, strict=True)
    }
    assert spells == {"ran": (2, 900), "woken": (1, 100), "preempted": (1, 50), "slept": (1, 1000)}
    assert (row.moves, row.contradictions) == (1, 0)
    zero, one = runstates(analysis, by="vcpu").cpus
    assert (zero.idle, zero.busy, zero.unknown, zero.lost) == (2500, 500, 0, 0)
    assert (one.idle, one.busy, one.switching) == (1630, 1350, 20)
    assert one.domains == {1: 1350}


@pytest.mark.parametrize("lag", [5 * US, 1_200_000 * US])
def test_clocks_disagree(lag):
    """R18: a vCPU leaves p0 at T and starts on p1 at T - lag: nothing is negative or giant,
    the case is counted with its size, and the exit that spans it is left out."""
    moment = 100 * HZ
    analysis = analyze({
        0: [change(moment - 2 * HZ, 1, 0, RUNNABLE, RUNNING), vmexit(moment - lag - 500, 1),
            change(moment, 1, 0, RUNNING, RUNNABLE), change(moment, IDLE, 0, RUNNABLE, RUNNING)],
        1: [change(moment - 2 * HZ, IDLE, 1, RUNNABLE, RUNNING),
            change(moment - lag, IDLE, 1, RUNNING, RUNNABLE),
            change(moment - lag, 1, 0, RUNNABLE, RUNNING), vmentry(moment - lag + 700),
            change(moment + HZ, 1, 0, RUNNING, BLOCKED), vmentry(moment + 2 * HZ)],
    })  # fmt: skip
    section = runstates(analysis, by="vcpu")
    (step,) = section.steps
    assert (step.ahead, step.behind, step.cases, step.most) == (0, 1, 1, lag)
    (row,) = section.rows
    assert row.times == [3 * HZ, 0, HZ, 0, 0, 0]
    assert row.contradictions == 0
    assert row.spells[1].number == row.spells[2].number == 0
    (exit_row,) = exits(analysis, by="vcpu").rows
    assert (exit_row.seen, exit_row.cost.number, exit_row.cut_unseen) == (1, 0, 1)


def test_a_wake_up_that_comes_late():
    """R18: woken by p0 at T, running on p1 from T - 5 us: it was blocked until then."""
    moment = HZ
    analysis = analyze({
        0: [change(1000, IDLE, 0, RUNNABLE, RUNNING), change(moment, 1, 0, BLOCKED, RUNNABLE)],
        1: [change(2000, 1, 0, RUNNABLE, RUNNING), change(3000, 1, 0, RUNNING, BLOCKED),
            change(moment - 5 * US, 1, 0, RUNNABLE, RUNNING),
            change(moment + 1000, 1, 0, RUNNING, BLOCKED)],
    })  # fmt: skip
    section = runstates(analysis, by="vcpu")
    assert [(step.cases, step.most) for step in section.steps] == [(1, 5 * US)]
    assert section.rows[0].times == [1000 + 5 * US + 1000, 0, moment - 5 * US - 3000, 0, 0, 1000]


def test_time_that_goes_back_within_a_cpu():
    analysis = analyze({0: [
        change(1000, 1, 0, RUNNABLE, RUNNING), change(3000, 1, 0, RUNNING, BLOCKED),
        change(2000, 1, 0, BLOCKED, RUNNABLE), change(3500, 1, 0, RUNNABLE, RUNNING),
    ]})  # fmt: skip
    assert times(analysis, 1, 0) == [2000, 500, 0, 0, 0, 0]
    assert runstates(analysis, by="vcpu").cpus[0].steps_back == 1


def test_a_move_from_where_it_was_found():
    """That it ran on p0 only its leaving tells; from there it went to p1."""
    analysis = analyze({
        0: [vmentry(1000), change(2000, 1, 0, RUNNING, RUNNABLE), vmentry(4000)],
        1: [vmentry(1000), change(3000, 1, 0, RUNNABLE, RUNNING), vmentry(4000)],
    })  # fmt: skip
    assert row_of(analysis).moves == 1


def test_before_the_first_sight():
    """R68: time before a vCPU's first record is unknown, whatever that record says of it."""
    analysis = analyze({
        0: [vmentry(1000), change(5000, 1, 0, RUNNING, BLOCKED), vmentry(6000)],
        1: [vmentry(1000), vmentry(6000)],
    })  # fmt: skip
    assert times(analysis, 1, 0) == [0, 0, 1000, 0, 0, 4000]
    cpu = runstates(analysis, by="vcpu").cpus[1]
    assert (cpu.unknown, cpu.busy, cpu.idle) == (5000, 0, 0)


def test_a_cpu_that_is_not_traced():
    """R68: only p0 is traced. The vCPU runs elsewhere unseen and comes back: the time since
    its last change is unknown, and there is one remark, not one a record."""
    analysis = analyze({0: [
        change(1000, 1, 0, RUNNABLE, RUNNING), change(2000, 1, 0, RUNNING, RUNNABLE),
        change(9000, 1, 0, BLOCKED, RUNNABLE), change(9100, 1, 0, RUNNABLE, RUNNING),
        vmentry(9500),
    ]})  # fmt: skip
    row = row_of(analysis)
    assert row.times == [1000 + 400, 100, 0, 0, 0, 7000]
    assert row.contradictions == 1
    assert runstates(analysis, by="vcpu").unseen == pytest.approx(7000 / 8500)


def test_who_else_ran_in_a_gap():
    """A lost record names who runs then: not who ran before it."""
    analysis = analyze({0: [
        change(1000, 1, 0, RUNNABLE, RUNNING), lost(5000, 3, 2000, dom=2, vcpu=1), vmentry(6000),
    ]})  # fmt: skip
    assert times(analysis, 1, 0) == [1000, 0, 0, 0, 3000, 1000]
    assert times(analysis, 2, 1) == [1000, 0, 0, 0, 0, 4000]
    cpu = runstates(analysis, by="vcpu").cpus[0]
    assert (cpu.lost, cpu.domains) == (3000, {1: 1000, 2: 1000})


def test_a_wake_up_while_records_are_missing():
    """R12: the vCPU ran on p0, whose records are missing from 2000 to 9000, and p1 wakes it
    at 3000. It ran until they are missing; then nobody knows, but when it was woken."""
    analysis = analyze({
        0: [change(1000, 1, 0, RUNNABLE, RUNNING), lost(9000, 5, 2000, dom=2, vcpu=0),
            vmentry(9500)],
        1: [change(1000, IDLE, 1, RUNNABLE, RUNNING), change(3000, 1, 0, BLOCKED, RUNNABLE),
            vmentry(9500)],
    })  # fmt: skip
    assert times(analysis, 1, 0) == [1000, 6500, 0, 0, 1000, 0]
    section = runstates(analysis, by="vcpu")
    assert [row.contradictions for row in section.rows] == [0, 0]
    assert section.cpus[0].domains == {1: 1000, 2: 500}


def test_spells_while_another_cpu_loses_records():
    """R12: sleep, wait and exit on p1 lie whole within a gap of p0's. In between the vCPU may
    have run on p0: the times are what the records say, but they are in no average."""
    analysis = analyze({
        0: [change(1000, IDLE, 0, RUNNABLE, RUNNING), lost(9000, 5, 2000, dom=IDLE, vcpu=0),
            vmentry(9500)],
        1: [change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(3000, 1),
            change(3100, 1, 0, RUNNING, BLOCKED), change(4000, 1, 0, BLOCKED, RUNNABLE),
            change(4100, 1, 0, RUNNABLE, RUNNING), vmentry(4200), vmentry(9500)],
    })  # fmt: skip
    row = row_of(analysis)
    assert row.times == [2100 + 5400, 100, 900, 0, 0, 0]
    assert [spread.number for spread in row.spells] == [0, 0, 0, 0]
    (exit_row,) = exits(analysis, by="vcpu").rows
    assert (exit_row.seen, exit_row.cost.number, exit_row.cut_loss) == (1, 0, 1)


def test_a_wake_up_in_a_gap_that_only_the_segment_states():
    """R12, R13: as with a lost record; but no record says who runs at its end."""
    stated = Loss(Cause.WRITE_FAILED, CpuId(0), 44, first_tsc=Tsc(2000), last_tsc=Tsc(9000))
    analysis = analyze({
        0: [change(1000, 1, 0, RUNNABLE, RUNNING), vmentry(1500), vmentry(9500)],
        1: [change(1000, IDLE, 1, RUNNABLE, RUNNING), change(3000, 1, 0, BLOCKED, RUNNABLE),
            change(3200, IDLE, 1, RUNNING, RUNNABLE), change(3200, 1, 0, RUNNABLE, RUNNING),
            change(5000, 1, 0, RUNNING, BLOCKED), vmentry(9500)],
    }, [stated])  # fmt: skip
    row = row_of(analysis)
    assert row.times == [1000 + 1800, 200, 4500, 0, 1000, 0]
    assert row.contradictions == 0
    assert [spread.number for spread in row.spells] == [0, 0, 0, 0]
    zero = runstates(analysis, by="vcpu").cpus[0]
    assert (zero.busy, zero.lost, zero.unknown) == (1000, 7000, 500)


def test_spells_before_and_after_a_gap_are_whole():
    """R12: only what a gap may cut is left out."""
    analysis = analyze({
        0: [vmentry(1000), lost(5000, 5, 3000, dom=IDLE, vcpu=0), vmentry(9500)],
        1: [change(1000, 1, 0, RUNNABLE, RUNNING), change(1500, 1, 0, RUNNING, BLOCKED),
            change(2000, 1, 0, BLOCKED, RUNNABLE), change(2100, 1, 0, RUNNABLE, RUNNING),
            change(6000, 1, 0, RUNNING, BLOCKED), change(7000, 1, 0, BLOCKED, RUNNABLE),
            vmentry(9500)],
    })  # fmt: skip
    ran, woken, _, slept = row_of(analysis).spells
    assert (ran.number, ran.sum) == (1, 500)
    assert (woken.number, woken.sum) == (1, 100)
    assert (slept.number, slept.sum) == (2, 500 + 1000)


def test_records_missing_from_before_the_start():
    """R12, R14: p0's first record tells of losses since before any other record."""
    analysis = analyze({
        0: [lost(5000, 5, 200, dom=1, vcpu=0), vmentry(6000)],
        1: [change(1000, IDLE, 1, RUNNABLE, RUNNING), vmentry(6000)],
    })  # fmt: skip
    zero, one = runstates(analysis, by="vcpu").cpus
    assert (analysis.first, analysis.last) == (1000, 6000)
    assert (zero.lost, zero.unknown, zero.busy) == (4000, 0, 1000)
    assert (one.lost, one.idle) == (0, 5000)


def test_a_domain_that_goes():
    analysis = analyze({0: [
        change(1000, 1, 0, RUNNABLE, RUNNING), change(2000, 1, 0, RUNNING, BLOCKED),
        make_record(0x28002, 1, tsc=3000), vmentry(4000),
    ]})  # fmt: skip
    assert times(analysis, 1, 0) == [1000, 0, 1000, 1000, 0, 0]


def test_odd_lengths_and_unknown_events():
    """R34, R35: a runstate change of seven words, or none, is no runstate change; unknown
    events are counted and passed."""
    long = make_record(0x21021, 1 << 16, *range(6), tsc=1500)
    none = make_record(0x21021, tsc=1600)
    strange = make_record(0x0FFFFFFF, *range(7), tsc=1700)
    analysis = analyze({0: [
        change(1000, 1, 0, RUNNABLE, RUNNING), long, none, strange,
        make_record(0x0800F000, 1, tsc=1800), vmentry(2000),
    ]})  # fmt: skip
    assert times(analysis, 1, 0) == [1000, 0, 0, 0, 0, 0]


def test_fields_of_small_numbers():
    """R69: d7v0 and idle v3 of a runstate record are domain in the high half."""
    analysis = analyze({3: [
        change(1000, IDLE, 3, RUNNING, RUNNABLE), change(1100, 7, 0, RUNNABLE, RUNNING),
        vmentry(2000),
    ]})  # fmt: skip
    (row,) = runstates(analysis, by="vcpu").rows
    assert (row.owner.name, row.times[RUNNING]) == ("d7v0", 900)


def test_records_without_any_time():
    analysis = analyze({0: [make_record(0x82013, 0), make_record(0x8200A)]})
    assert analysis.span == 0
    assert runstates(analysis, by="vcpu").unseen is None


def test_continue_running_says_who_runs():
    analysis = analyze({0: [
        vmexit(1000, 1), make_record(0x21002, 1 << 16 | 2, tsc=2000), vmentry(3000),
    ]})  # fmt: skip
    assert times(analysis, 1, 2) == [1000, 0, 0, 0, 0, 1000]
    (row,) = exits(analysis, by="vcpu").rows
    assert (row.owner.name, row.cost.sum) == ("d1v2", 2000)


def snapshot(*vcpus, cpus):
    return RunstateSnapshot(
        cpus={CpuId(cpu): (DomId(d), VcpuId(v)) for cpu, (d, v) in cpus.items()},
        vcpus=tuple(
            VcpuState(DomId(d), VcpuId(v), state, None if cpu is None else CpuId(cpu), Tsc(tsc))
            for d, v, state, cpu, tsc in vcpus
        ),
        overflow=0,
    )


def test_a_segment_says_who_ran_at_its_start(tmp_path):
    """R68: with the preamble, the state before the first record is known."""
    state = snapshot(
        (1, 0, RUNNING, 0, 500), (1, 1, BLOCKED, 3, 700), (1, 2, OFFLINE, None, 5500),
        cpus={0: (1, 0)},
    )
    builder = SegmentBuilder(state=state)
    builder.block(0, vmexit(4000, 30) + vmentry(4200) + change(5000, 1, 0, RUNNING, RUNNABLE))
    builder.block(3, vmentry(4500) + change(7000, 1, 1, BLOCKED, RUNNABLE)).seal()
    with SegmentReader(builder.write(tmp_path)) as reader:
        analysis = run(reader)
    assert times(analysis, 1, 0) == [1000, 2000, 0, 0, 0, 0]
    assert times(analysis, 1, 1) == [0, 0, 3000, 0, 0, 0]
    # Known only from a moment after the segment's first record on.
    assert times(analysis, 1, 2) == [0, 0, 0, 1500, 0, 1500]
    (row,) = exits(analysis, by="vcpu").rows
    assert (row.owner.name, row.cost.sum) == ("d1v0", 200)


def test_records_count_more_than_a_preamble(tmp_path):
    """A preamble that is newer than the first records does not overrule them."""
    state = snapshot((1, 0, BLOCKED, 0, 6000), cpus={})
    builder = SegmentBuilder(state=state)
    builder.block(0, change(4000, 1, 0, RUNNABLE, RUNNING) + vmentry(8000)).seal()
    with SegmentReader(builder.write(tmp_path)) as reader:
        analysis = run(reader)
    assert times(analysis, 1, 0) == [4000, 0, 0, 0, 0, 0]


def test_a_damaged_block_is_a_gap(tmp_path):
    """R20: nothing is bridged over records that could not be read."""
    builder = SegmentBuilder(state=snapshot((1, 0, RUNNING, 0, 500), cpus={0: (1, 0)}))
    builder.block(0, vmexit(4000, 30)).block(0, vmentry(5000) + vmexit(6000, 30))
    damaged = builder.blocks[-1]
    builder.block(0, vmentry(9000) + vmentry(9500)).seal().flip(damaged + 130)
    with SegmentReader(builder.write(tmp_path)) as reader:
        analysis = run(reader)
    (row,) = exits(analysis, by="vcpu").rows
    assert (row.seen, row.cost.number, row.cut_loss) == (1, 0, 1)
    (cpu,) = runstates(analysis, by="vcpu").cpus
    assert (cpu.lost, cpu.unknown) == (5000, 500)
    assert analysis.gaps.longest()[0].cause == "unreadable"


whos = st.sampled_from([(0, 0), (1, 0), (1, 1), (IDLE, 0)])
events = st.one_of(
    st.builds(
        lambda who, old, new: (0x21001 | old << 8 | new << 4, (who[0] << 16 | who[1],)),
        whos, st.integers(0, 4), st.integers(0, 4),
    ),
    st.builds(lambda who: (0x21002, (who[0] << 16 | who[1],)), whos),
    st.builds(lambda reason: (0x81102, (reason, 0, 0)), st.sampled_from([1, 12, 30])),
    st.just((0x81001, ())), st.just((0x28002, (1,))), st.just((0x82013, (0,))),
    st.builds(
        lambda count, who, first: (0x1F001, (count, who[0] | who[1] << 16, first, 0)),
        st.integers(0, 9), whos, st.integers(0, 6000),
    ),
)  # fmt: skip
rows = st.lists(st.tuples(events, st.none() | st.integers(1, 5000)), max_size=30)


@settings(max_examples=300, deadline=None)
@given(st.lists(rows, min_size=1, max_size=3), st.integers(1, 30), st.data())
def test_sums_whatever_happens(cpus, chunk_records, data):
    """Contradictions, gaps and clocks at will: times add up to the span (support.analysis),
    and every exit is in one column."""
    payloads = {
        cpu: [make_record(event, *extra, tsc=tsc) for (event, extra), tsc in records]
        for cpu, records in enumerate(cpus)
    }
    since = data.draw(st.none() | st.integers(1, 5000).map(Tsc))
    until = data.draw(st.none() | st.integers(1, 6000).map(Tsc))
    analysis = analyze(payloads, chunk_records=chunk_records, since=since, until=until)
    for row in exits(analysis, by="vcpu").rows:
        parts = row.cost.number + row.cut_loss + row.cut_end + row.cut_unseen
        assert row.seen == parts
        assert row.cost.most <= analysis.span
        assert row.cost.buckets.total() == row.cost.number
    assert all(time <= analysis.span for row in runstates(analysis, by="vcpu").rows
               for time in row.times)  # fmt: skip


stated = st.builds(
    lambda cpu, first, length: Loss(
        Cause.WRITE_FAILED, CpuId(cpu), None, first_tsc=Tsc(first), last_tsc=Tsc(first + length)
    ),
    st.integers(0, 2), st.integers(0, 5000), st.integers(0, 3000),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(rows, min_size=1, max_size=3), st.lists(stated, max_size=3), st.integers(1, 5))
def test_gaps_do_not_depend_on_chunks(cpus, missing, chunk_records):
    """R12: gaps that lost records tell of and such as a segment states, overlapping at will:
    times and spells are the same wherever the records are cut into chunks."""
    payloads = {
        cpu: [make_record(event, *extra, tsc=tsc) for (event, extra), tsc in records]
        for cpu, records in enumerate(cpus)
    }
    whole = analyze(payloads, missing)
    cut = analyze(payloads, missing, chunk_records=chunk_records)
    assert runstates(cut, by="vcpu").rows == runstates(whole, by="vcpu").rows
    assert runstates(cut, by="vcpu").cpus == runstates(whole, by="vcpu").cpus


def test_a_loss_that_goes_on_after_the_last_record():
    """R12, R13: it counts within the span, and is listed whole."""
    stated = Loss(Cause.CRASH, CpuId(0), 44, first_tsc=Tsc(1500), last_tsc=Tsc(9000))
    later = Loss(Cause.CRASH, CpuId(1), 11, first_tsc=Tsc(3000), last_tsc=Tsc(9000))
    analysis = analyze(
        {0: [change(1000, 1, 0, RUNNABLE, RUNNING), vmentry(1400)], 1: [vmentry(2000)]},
        [stated, later],
    )
    assert (analysis.first, analysis.last) == (1000, 2000)
    assert times(analysis, 1, 0) == [500, 0, 0, 0, 500, 0]
    zero, one = runstates(analysis, by="vcpu").cpus
    assert (zero.lost, one.lost) == (500, 0)
    found = losses(analysis)
    assert {key: total.records for key, total in found.sums.items()} == {
        (0, Cause.CRASH): 44, (1, Cause.CRASH): 11,
    }  # fmt: skip


def test_unknown_is_not_running():
    """R68 again: a vCPU of which nothing but its name is known."""
    analysis = analyze({0: [vmentry(1000), change(2000, 1, 0, OFFLINE, RUNNABLE), vmentry(3000)]})
    assert times(analysis, 1, 0)[UNKNOWN] == 1000


def test_a_time_stamp_of_0_is_one():
    """It counts like any other: the span starts there, and the vCPU ran from then on."""
    found = analyze({0: [change(0, 1, 0, RUNNABLE, RUNNING), vmentry(500)],
                     1: [change(0, 1, 1, RUNNING, BLOCKED), vmentry(700)]})  # fmt: skip
    assert (found.dated, found.first, found.last) == (True, 0, 700)
    assert times(found, 1, 0) == [700, 0, 0, 0, 0, 0]
    assert times(found, 1, 1) == [0, 0, 700, 0, 0, 0]


def made(tsc, dom):
    return make_record(0x28001, dom, tsc=tsc)


def test_a_domain_that_is_made_was_not_there_before():
    """R68: what is not seen is unknown; but the trace shows domain 5 being made at 3000, and
    Xen makes vCPUs offline (vcpu_create in xen/common/domain.c), which is where its first
    change is from. Domain 6 was there before: unknown until its first change."""
    found = analyze({0: [vmentry(1000), made(3000, 5), change(4000, 5, 0, OFFLINE, RUNNABLE),
                         change(4000, 6, 0, OFFLINE, RUNNABLE), vmentry(5000)]})  # fmt: skip
    assert times(found, 5, 0) == [0, 1000, 0, 3000, 0, 0]
    assert times(found, 6, 0) == [0, 1000, 0, 0, 0, 3000]


@pytest.mark.parametrize(("first", "unknown"), [
    ([change(4000, 5, 0, BLOCKED, RUNNABLE)], 1000),
    ([lost(3500, 3, 3200), change(4000, 5, 0, OFFLINE, RUNNABLE)], 1000),
])  # fmt: skip
def test_after_it_was_made_only_what_is_seen_counts(first, unknown):
    """A first change from elsewhere, or records that are missing, leave open what it did since;
    that it did not exist before is sure all the same."""
    found = analyze({0: [vmentry(1000), made(3000, 5), *first, vmentry(5000)]})
    assert times(found, 5, 0) == [0, 1000, 0, 2000, 0, unknown]


def test_made_before_the_part_that_counts():
    rows = [vmentry(1000), made(1500, 5), vmentry(2500), change(4000, 5, 0, OFFLINE, RUNNABLE),
            vmentry(5000)]  # fmt: skip
    assert times(analyze({0: rows}, since=Tsc(2000)), 5, 0) == [0, 1000, 0, 2000, 0, 0]
