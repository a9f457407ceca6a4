"""Who runs where: the table that drain and scan fill, in both forms."""

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.ring import FORMS
from tracelib.records import make_record
from tracelib.ring import runstate_words
from tracelib.ring.runstates import RunstateSnapshot, RunstateTable, VcpuState

RUNNING, RUNNABLE, BLOCKED, OFFLINE = range(4)


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def module(request):
    return request.param


def change(dom: int, vcpu: int, old: int, new: int, tsc: int) -> bytes:
    """Xen's runstate_change: old state in bits 8-11, new in bits 4-7, vcpu | dom << 16."""
    return make_record(0x21001 | old << 8 | new << 4, vcpu | dom << 16, tsc=tsc)


def proceed(dom: int, vcpu: int, tsc: int) -> bytes:
    return make_record(0x21002, vcpu | dom << 16, tsc=tsc)


def lost(dom: int, vcpu: int, tsc: int) -> bytes:
    return make_record(0x1F001, 5, dom | vcpu << 16, tsc - 50, 0, tsc=tsc)


class Feeder:
    def __init__(self, module, table: RunstateTable) -> None:
        self.module = module
        self.table = table

    def __call__(self, cpu: int, *records: bytes) -> None:
        words = memoryview(array("I", b"".join(records)))
        found = self.module.scan(words, 0, len(words), cpu, self.table)
        assert found.stop == len(words)


@pytest.fixture
def table():
    return RunstateTable(4, 16)


@pytest.fixture
def feed(module, table):
    return Feeder(module, table)


def test_a_new_table_knows_nothing(table):
    assert table.snapshot() == RunstateSnapshot({}, (), 0)


def test_a_switch_from_one_vcpu_to_another(feed, table):
    feed(2, change(1, 0, RUNNABLE, RUNNING, 100))
    assert table.snapshot().cpus == {2: (1, 0)}
    feed(2, change(1, 0, RUNNING, BLOCKED, 200), change(0x7FFF, 2, RUNNABLE, RUNNING, 200))
    snapshot = table.snapshot()
    assert snapshot.cpus == {2: (0x7FFF, 2)}
    assert snapshot.vcpus == (
        VcpuState(1, 0, BLOCKED, 2, 200),
        VcpuState(0x7FFF, 2, RUNNING, 2, 200),
    )


def test_leaving_clears_the_cpu_only_for_the_one_that_ran(feed, table):
    feed(0, change(1, 0, RUNNABLE, RUNNING, 100), change(3, 3, BLOCKED, RUNNABLE, 150))
    assert table.snapshot().cpus == {0: (1, 0)}
    feed(0, change(1, 0, RUNNING, RUNNABLE, 200))
    assert table.snapshot().cpus == {}


def test_a_waking_vcpu_keeps_the_cpu_where_it_ran(feed, table):
    """The waker's CPU writes the record; where the vCPU will run is not said yet."""
    feed(1, change(1, 0, RUNNING, BLOCKED, 100))
    feed(3, change(1, 0, BLOCKED, RUNNABLE, 200), change(2, 0, BLOCKED, RUNNABLE, 201))
    assert table.snapshot().vcpus == (
        VcpuState(1, 0, RUNNABLE, 1, 200),
        VcpuState(2, 0, RUNNABLE, None, 201),
    )


def test_continue_running_says_who_runs_but_not_since_when(feed, table):
    feed(0, proceed(4, 1, 100), proceed(4, 1, 900))
    assert table.snapshot().vcpus == (VcpuState(4, 1, RUNNING, 0, 100),)
    assert table.snapshot().cpus == {0: (4, 1)}


def test_the_newest_of_two_rings_counts(feed, table):
    """CPU 1's ring is drained before CPU 0's: the older record comes later."""
    feed(1, change(1, 0, RUNNABLE, RUNNING, 300))
    feed(0, change(1, 0, RUNNABLE, RUNNING, 100), change(1, 0, RUNNING, RUNNABLE, 200))
    snapshot = table.snapshot()
    assert snapshot.vcpus == (VcpuState(1, 0, RUNNING, 1, 300),)
    assert snapshot.cpus == {1: (1, 0)}


def test_time_stamps_compare_as_unsigned_64_bit(feed, table):
    feed(0, change(1, 0, RUNNABLE, RUNNING, 0x7FFFFFFF_FFFFFFFF))
    feed(0, change(1, 0, RUNNING, BLOCKED, 0x80000000_00000000))
    feed(0, change(1, 0, BLOCKED, RUNNABLE, 0x00000001_00000000))
    assert table.snapshot().vcpus == (VcpuState(1, 0, BLOCKED, 0, 0x80000000_00000000),)


def test_a_vcpu_replaced_unseen_is_unknown(feed, table):
    """Another one runs on its CPU, and no record said that it left."""
    feed(0, change(1, 0, RUNNABLE, RUNNING, 100), change(2, 0, RUNNABLE, RUNNING, 200))
    assert table.snapshot().cpus == {0: (2, 0)}
    assert table.snapshot().vcpus == (VcpuState(2, 0, RUNNING, 0, 200),)


def test_a_vcpu_replaced_unseen_that_runs_elsewhere_is_known(feed, table):
    feed(0, change(1, 0, RUNNABLE, RUNNING, 100))
    feed(1, change(1, 0, RUNNABLE, RUNNING, 150))
    feed(0, change(2, 0, RUNNABLE, RUNNING, 200))
    assert VcpuState(1, 0, RUNNING, 1, 150) in table.snapshot().vcpus


def test_a_lost_record_says_who_runs_now(feed, table):
    """R12: the one that ran before the gap is unknown, the one it names runs from here on."""
    feed(0, change(1, 0, RUNNABLE, RUNNING, 100), lost(3, 2, 500))
    assert table.snapshot().cpus == {0: (3, 2)}
    assert table.snapshot().vcpus == (VcpuState(3, 2, RUNNING, 0, 500),)


def test_a_lost_record_that_names_the_same_vcpu_starts_it_anew(feed, table):
    feed(0, change(1, 0, RUNNABLE, RUNNING, 100), lost(1, 0, 500))
    assert table.snapshot().vcpus == (VcpuState(1, 0, RUNNING, 0, 500),)


@pytest.mark.parametrize("extra", [(5,), (5, 6, 7)])
def test_a_lost_record_of_another_shape_leaves_the_cpu_unknown(feed, table, extra):
    feed(0, change(1, 0, RUNNABLE, RUNNING, 100), make_record(0x1F001, *extra, tsc=200))
    assert table.snapshot() == RunstateSnapshot({}, (), 0)


@pytest.mark.parametrize(
    "record",
    [
        make_record(0x21011, tsc=9), make_record(0x21011, 1, 2, tsc=9),
        make_record(0x21011, *range(7), tsc=9), make_record(0x21041, 1, tsc=9),
        make_record(0x21003, 1, tsc=9), make_record(0x21101, 0xFFFFFFFF, tsc=9),
        make_record(0x22011, 1, tsc=9), make_record(0x28002, tsc=9),
    ],
    ids=["no word", "two words", "seven words", "state 4", "unknown id", "nobody", "other class",
         "removal of none"],
)  # fmt: skip
def test_forms_that_xen_does_not_write_change_nothing(feed, table, record):
    """R35: a known event with an unexpected length is not read."""
    feed(0, record)
    assert table.snapshot() == RunstateSnapshot({}, (), 0)


def test_five_words_are_the_old_debugging_form(feed, table):
    feed(0, make_record(0x21101, 1 << 16, 0, 0, 0, 0, tsc=9))
    assert table.snapshot().cpus == {0: (1, 0)}


def test_a_record_without_time_takes_the_last_time(feed, table):
    feed(0, make_record(0x81001, tsc=70), make_record(0x21101, 1 << 16))
    assert table.snapshot().vcpus == (VcpuState(1, 0, RUNNING, 0, 70),)


def test_a_removed_domain_is_forgotten(feed, table):
    """Its vCPUs stay away even if an older record of another ring comes after."""
    feed(0, change(1, 0, RUNNING, OFFLINE, 100), change(2, 0, RUNNING, BLOCKED, 110))
    feed(1, make_record(0x28002, 1, tsc=200))
    feed(2, change(1, 0, RUNNABLE, RUNNING, 90), change(1, 0, RUNNING, RUNNABLE, 95))
    assert table.snapshot().vcpus == (VcpuState(2, 0, BLOCKED, 0, 110),)


def test_idle_and_dom0_are_vcpus_like_others(feed, table):
    """R69: d7fffv3 and d0v0, whatever the order of halves."""
    feed(3, change(0x7FFF, 3, RUNNING, RUNNABLE, 5), change(0, 0, RUNNABLE, RUNNING, 6))
    assert table.snapshot() == RunstateSnapshot(
        {3: (0, 0)}, (VcpuState(0, 0, RUNNING, 3, 6), VcpuState(0x7FFF, 3, RUNNABLE, 3, 5)), 0
    )


def test_a_full_table_counts_what_it_cannot_hold(feed, table):
    for vcpu in range(20):
        feed(0, change(1, vcpu, RUNNABLE, RUNNING, vcpu), change(1, vcpu, RUNNING, BLOCKED, vcpu))
    snapshot = table.snapshot()
    assert len(snapshot.vcpus) == 16
    assert snapshot.overflow == 8
    feed(0, change(1, 19, RUNNABLE, RUNNING, 50))
    assert table.snapshot().cpus == {0: (1, 19)}


def test_snapshots_make_room_of_vcpus_that_are_gone(feed, table):
    """R71: domains come and go for days; the table does not fill up with dead ones."""
    feed(3, change(0, 0, RUNNABLE, RUNNING, 1))
    for dom in range(1, 200):
        feed(0, *(change(dom, vcpu, RUNNABLE, RUNNING, dom) for vcpu in range(4)))
        feed(0, change(dom, 3, RUNNING, OFFLINE, dom), make_record(0x28002, dom, tsc=dom))
        snapshot = table.snapshot()
        assert snapshot.overflow == 0
    assert snapshot.vcpus == (VcpuState(0, 0, RUNNING, 3, 1),)
    assert snapshot.cpus == {3: (0, 0)}


def test_forget_forgets_everything(feed, table):
    for vcpu in range(20):
        feed(1, change(1, vcpu, RUNNABLE, RUNNING, 100))
    table.forget()
    assert table.snapshot() == RunstateSnapshot({}, (), 0)
    feed(1, change(1, 0, RUNNABLE, RUNNING, 5))
    assert table.snapshot().vcpus == (VcpuState(1, 0, RUNNING, 1, 5),)


def test_a_cpu_beyond_the_table_is_not_tracked(feed, table):
    feed(4, change(1, 0, RUNNABLE, RUNNING, 1), lost(1, 1, 70), make_record(0x28002, 1, tsc=80))
    assert table.snapshot() == RunstateSnapshot({}, (), 0)


def test_an_empty_table_is_possible(module):
    table = RunstateTable(1, 0)
    Feeder(module, table)(0, change(1, 0, RUNNABLE, RUNNING, 1))
    assert table.snapshot() == RunstateSnapshot({0: (1, 0)}, (), 1)


steps = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 3), st.integers(0, 3)),
    max_size=80,
)


@settings(deadline=None)
@given(steps=steps)
@pytest.mark.parametrize("each", FORMS.values(), ids=FORMS)
def test_against_plain_dictionaries(each, steps):
    """Random changes in time order, against the rules written with two dictionaries."""
    table = RunstateTable(3, 64)
    cpus: dict[int, int] = {}
    vcpus: dict[int, tuple[int, int | None, int]] = {}
    for tsc, (cpu, vcpu, old, new) in enumerate(steps):
        Feeder(each, table)(cpu, change(9, vcpu, old, new, tsc))
        place = vcpus[vcpu][1] if vcpu in vcpus else None
        if new == RUNNING:
            before = cpus.get(cpu, vcpu)
            if before != vcpu and vcpus[before][:2] == (RUNNING, cpu):
                vcpus[before] = (runstate_words.UNKNOWN, cpu, tsc)
            cpus[cpu] = vcpu
        elif cpus.get(cpu) == vcpu:
            del cpus[cpu]
        vcpus[vcpu] = (new, cpu if RUNNING in (old, new) else place, tsc)
    snapshot = table.snapshot()
    assert snapshot.cpus == {cpu: (9, vcpu) for cpu, vcpu in cpus.items()}
    assert snapshot.vcpus == tuple(
        VcpuState(9, vcpu, *state)
        for vcpu, state in sorted(vcpus.items())
        if state[0] != runstate_words.UNKNOWN
    )
