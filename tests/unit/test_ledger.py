"""The ledger: sums over all that was ever stored, through deletions, crashes and damage."""

from __future__ import annotations

import errno
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.segments import CREATED_AT, SegmentBuilder, make_records
from tests.support.staged import StoreBench
from tracelib.errors import StoreError
from tracelib.losses import Cause, Loss
from tracelib.records import make_record
from tracelib.segment.block import Flag
from tracelib.store import fsops
from tracelib.store.directory import list_segments
from tracelib.store.ledger import NAME, Ledger, Sums
from tracelib.store.recover import recover
from tracelib.store.segment import SegmentReader
from tracelib.units import CpuId, Nanoseconds
from xtraced.retention import Limits, Retention
from xtraced.segments import SegmentStore

NOW = Nanoseconds(CREATED_AT + 10**12)
LOST = make_record(0x1F001, 7, 0x00010002, 900, 0, tsc=2000)


def load(directory) -> Ledger:
    ledger, trouble = Ledger.load(directory, NOW)
    assert trouble is None
    return ledger


def segment(sequence: int) -> SegmentBuilder:
    return (
        SegmentBuilder(sequence)
        .block(0, make_records(5) + LOST)
        .block(1, make_records(3) + LOST, flags=Flag.QUEUE_FULL)
        .losses(
            Loss(Cause.WRITE_FAILED, CpuId(0), 11), Loss(Cause.CRASH, CpuId(1), None),
            Loss(Cause.NOT_TRACED, CpuId(1), None),
        )
        .seal()
    )  # fmt: skip


def test_what_a_segment_adds(tmp_path):
    """Lost records by the block's flag, stated losses by their cause; a pause is none."""
    sums = Sums()
    with SegmentReader(segment(1).write(tmp_path)) as reader:
        sums.add_segment(reader)
    assert sums.records == Counter({0: 6, 1: 4})
    assert sums.marks == Counter({0: 1, 1: 1})
    assert sums.lost == Counter({
        (0, Cause.RING_FULL): 7, (1, Cause.QUEUE_FULL): 7, (0, Cause.WRITE_FAILED): 11,
    })
    assert sums.unknown == Counter({(1, Cause.CRASH): 1})


def test_a_store_without_one(tmp_path):
    """Made of the segments that are there; it says that it cannot know what was deleted."""
    assert load(tmp_path) == Ledger(NOW)
    segment(4).write(tmp_path)
    segment(5).write(tmp_path)
    ledger, trouble = Ledger.load(tmp_path, NOW)
    assert trouble == "there is none"
    assert ledger.rebuilt
    assert ledger.since == CREATED_AT
    assert (ledger.counted, ledger.sums.records.total()) == (5, 20)


def test_it_is_kept(tmp_path):
    ledger = Ledger(NOW)
    with SegmentReader(segment(1).write(tmp_path)) as reader:
        sums = Sums()
        sums.add_segment(reader)
    ledger.add_sealed(1, sums)
    ledger.save(tmp_path)
    assert load(tmp_path) == ledger


def test_what_was_sealed_since_it_was_saved_is_added(tmp_path):
    """R59: the service died between the rename and the ledger; or recovery sealed one."""
    ledger = Ledger(NOW)
    ledger.save(tmp_path)
    segment(1).write(tmp_path)
    segment(2).write(tmp_path)
    found = load(tmp_path)
    assert (found.counted, found.sums.records.total()) == (2, 20)
    found.save(tmp_path)
    assert load(tmp_path) == found, "not twice"


@pytest.mark.parametrize(
    "damage", [b"", b"\0" * 100, b'{"schema":1}\nffffffffffffffff\n', b"x" * (2 << 20)]
)
def test_damage_is_no_obstacle(tmp_path, damage):
    """R59: a zero-length or damaged ledger is reported and rebuilt."""
    path = segment(1).write(tmp_path)
    (path.parent / NAME).write_bytes(damage)
    ledger, trouble = Ledger.load(tmp_path, NOW)
    assert trouble is not None
    assert NAME in trouble
    assert ledger.rebuilt
    assert ledger.sums.records.total() == 10


def test_a_bit_that_flips_in_a_number(tmp_path):
    Ledger(NOW, counted=123456).save(tmp_path)
    data = (tmp_path / NAME).read_bytes().replace(b"123456", b"123457")
    (tmp_path / NAME).write_bytes(data)
    assert Ledger.load(tmp_path, NOW)[1] is not None


def test_killed_between_ledger_and_deletion(tmp_path):
    """A segment that the ledger says is deleted is there: it is not deleted, then."""
    path = segment(1).write(tmp_path)
    ledger, _ = Ledger.load(tmp_path, NOW)
    ledger.add_deleted(list_segments(tmp_path)[0], 10)
    ledger.save(tmp_path)
    assert (ledger.deleted.segments, ledger.deleted.records) == (1, 10)
    found = load(tmp_path)
    assert (found.deleted.segments, found.deleted.records, found.deleted.bytes) == (0, 0, 0)
    path.unlink()
    assert load(tmp_path).deleted.records == 10


def test_a_disk_that_refuses_the_ledger_does_not_stop_retention(tmp_path, monkeypatch):
    bench = StoreBench(tmp_path, Limits(0, 0, 0, 2))
    bench.open()
    real = Ledger.save

    def refuse(_self, _directory):
        raise StoreError("no space", errno=errno.ENOSPC)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "save", refuse)
        for _ in range(4):
            bench.write(3)
            bench.rotate()
    assert len(bench.paths()) == 2
    assert bench.retention.deleted.segments == 3
    assert real is Ledger.save
    bench.write(3)
    bench.rotate()
    assert load(tmp_path).deleted.segments == 4


class History:
    """Runs of a store, and what they did, counted beside it."""

    def __init__(self, directory) -> None:
        self.directory = directory
        self.produced = 0
        self.stated = 0
        self.bench = StoreBench(directory, Limits(0, 0, 0, 3))
        self.begin()

    def begin(self) -> None:
        self.bury()
        recover(self.directory)
        ledger, trouble = Ledger.load(self.directory, NOW)
        assert trouble is None
        bench = self.bench
        bench.retention = Retention(
            self.directory, Limits(0, 0, 0, 3), now=bench.clock.realtime, ledger=ledger
        )
        bench.store = SegmentStore(
            self.directory, bench.retention, bench.store.policy, clock=bench.clock,
            sleep=lambda _: None,
        )  # fmt: skip
        bench.open()

    def bury(self) -> None:
        """What the dead had open, the kernel closes."""
        segment = self.bench.store._segment
        if segment is not None:
            segment.close()

    def write(self, count: int) -> None:
        self.produced += count
        self.bench.write(count)

    def lose(self, count: int) -> None:
        """A buffer that says that so many records were lost before it."""
        buffer = self.bench.buffer(1)
        buffer.losses.append(Loss(Cause.RING_CORRUPT, CpuId(0), count))
        self.produced += 1 + count
        self.stated += count
        self.bench.store.write(buffer)
        self.bench.pool.give_back(buffer)

    def rotate(self) -> None:
        self.bench.rotate()

    def die(self) -> None:
        """kill -9: nothing is sealed; and the next service begins."""
        self.begin()

    def stop(self) -> None:
        self.bench.close()
        self.begin()

    def fail(self, count: int) -> None:
        """The disk refuses one buffer."""
        self.produced += count
        self.stated += count
        real = fsops.write_all

        def refuse(*_args, **_more):
            raise StoreError("no space", errno=errno.ENOSPC)

        fsops.write_all = refuse
        try:
            self.bench.write(count)
        finally:
            fsops.write_all = real
        # The next buffer tells of it; what dies untold is found by the rings' positions.
        self.write(1)

    def check(self) -> None:
        """produced = stored + lost; stored = there + deleted."""
        status = self.bench.store.ledger_status()
        assert status.records - status.lost_marks + sum(status.lost.values()) == self.produced
        assert sum(status.lost.values()) == self.stated
        there = 0
        for entry in list_segments(self.directory):
            with SegmentReader(entry.path) as reader:
                there += sum(cpu.records for cpu in reader.totals.values())
        assert there + status.deleted_records == status.records
        assert not status.rebuilt


_STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 50)),
    st.tuples(st.just("lose"), st.integers(1, 50)),
    st.tuples(st.just("fail"), st.integers(1, 50)),
    st.sampled_from([("rotate",), ("die",), ("stop",)]),
)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(_STEPS, max_size=30))
def test_the_account_adds_up_over_any_history(tmp_path_factory, steps):
    """design.md, 5: produced = stored + lost, over runs, kills, rotations, failures and
    deletions."""
    history = History(tmp_path_factory.mktemp("store"))
    for name, *arguments in steps:
        getattr(history, name)(*arguments)
        history.check()
    history.bury()
