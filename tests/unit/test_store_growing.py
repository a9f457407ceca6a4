"""A store read on as it grows: CPU by CPU, across rotations, and what ends an era."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.segments import SegmentBuilder, append_file, make_records, payloads
from tracelib.errors import FormatError
from tracelib.losses import Cause, Loss
from tracelib.ring.runstates import RunstateSnapshot, VcpuState
from tracelib.store.growing import GrowingReader
from tracelib.units import CpuId, DomId, Tsc, VcpuId

LOSS = Loss(Cause.WRITE_FAILED, CpuId(1), 5, first_tsc=Tsc(2000), last_tsc=Tsc(2100))
STATE = RunstateSnapshot(
    {CpuId(0): (DomId(1), VcpuId(0))},
    (VcpuState(DomId(1), VcpuId(0), 0, CpuId(0), Tsc(900)),), 0,
)  # fmt: skip


@pytest.fixture
def growing(tmp_path):
    reader = GrowingReader(tmp_path)
    yield reader
    reader.close()


def looked(reader):
    """What one more look brings, by CPU."""
    reader.look()
    return {
        int(cpu): [payload for _, payload in payloads(reader.chunks_of(cpu))]
        for cpu in reader.cpus()
    }


def more(path, builder, change):
    """Add to a file what `change` adds to its builder."""
    size = len(builder.data)
    change(builder)
    append_file(path, bytes(builder.data[size:]))


def files_open():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_cpu_by_cpu_and_on(tmp_path, growing):
    """An iterator that came to its end goes on after the next look."""
    builder = SegmentBuilder(1).block(0, make_records(1)).block(1, make_records(2))
    path = builder.write(tmp_path)
    assert looked(growing) == {0: [make_records(1)], 1: [make_records(2)], 3: []}
    row = growing.chunks_of(CpuId(0))
    assert list(row) == []
    later = make_records(3, first_tsc=5000)
    more(path, builder, lambda segment: segment.block(0, later))
    assert list(row) == []
    growing.look()
    assert payloads(row) == [(0, later)]
    assert (growing.era, growing.last_tsc) == (1, 5020)


def test_it_begins_with_the_newest_segment(tmp_path):
    SegmentBuilder(1).block(0, make_records(1)).seal().write(tmp_path)
    SegmentBuilder(2, state=STATE).block(1, make_records(2)).write(tmp_path)
    reader = GrowingReader(tmp_path)
    assert looked(reader) == {0: [], 1: [make_records(2)], 3: []}
    assert reader.state() == STATE
    assert reader.info.tsc_hz == 2_000_000_000
    reader.close()


def test_rotations_end_no_era(tmp_path, growing):
    """The state stays that of the era's beginning, and no file stays open."""
    before = files_open()
    SegmentBuilder(1, state=STATE).block(0, make_records(1)).seal().write(tmp_path)
    for number in range(2, 6):
        SegmentBuilder(number).block(0, make_records(number)).seal().write(tmp_path)
    assert looked(growing)[0] == [make_records(number) for number in range(1, 6)]
    assert (growing.era, growing.state()) == (1, STATE)
    growing.look()
    # The segment that it is in, open for the follower and for those who read.
    assert files_open() - before == 2


def test_a_segment_deleted_before_its_records_were_asked_for(tmp_path, growing):
    path = SegmentBuilder(1).block(0, make_records(1)).write(tmp_path)
    growing.look()
    path.unlink()
    assert payloads(growing.chunks_of(CpuId(0))) == [(0, make_records(1))]
    assert growing.problems == []


@pytest.mark.parametrize(
    ("number", "changes", "why"),
    [
        (2, {"boot_id": "another"}, "the hypervisor was booted"),
        (2, {"ring_cpus": (CpuId(0),)}, "the CPUs have changed"),
        (4, {}, "segments were deleted before they were read"),
    ],
)
def test_what_ends_an_era(tmp_path, growing, number, changes, why):
    """What was not read of the old one is gone: its time stamps, its CPUs or its vCPUs'
    states have nothing to do with what follows."""
    SegmentBuilder(1).block(0, make_records(1)).losses(LOSS).seal().write(tmp_path)
    growing.look()
    SegmentBuilder(number, state=STATE, **changes).block(0, make_records(2)).write(tmp_path)
    assert looked(growing)[0] == [make_records(2)]
    assert (growing.era, growing.why, growing.state()) == (2, why, STATE)
    assert growing.losses() == []


def test_a_number_used_again_ends_no_era(tmp_path, growing):
    """A segment without a record, removed when the service started again."""
    path = SegmentBuilder(1).write(tmp_path)
    growing.look()
    path.unlink()
    SegmentBuilder(1).block(0, make_records(1)).write(tmp_path)
    assert looked(growing)[0] == [make_records(1)]
    assert growing.era == 1


def test_starting_over_waits_for_the_next_segment(tmp_path, growing):
    builder = SegmentBuilder(1)
    path = builder.write(tmp_path)
    growing.look()
    growing.start_over()
    more(path, builder, lambda segment: segment.block(0, make_records(1)))
    assert looked(growing)[0] == [make_records(1)]
    SegmentBuilder(2).block(0, make_records(2)).write(tmp_path)
    assert looked(growing)[0] == [make_records(2)]
    assert growing.era == 2
    SegmentBuilder(3).write(tmp_path)
    growing.look()
    assert growing.era == 2


def test_losses_are_told_once(tmp_path, growing):
    SegmentBuilder(1).losses(LOSS).write(tmp_path)
    growing.look()
    assert list(growing.losses()) == [LOSS]
    assert list(growing.losses()) == []


def test_an_empty_store(tmp_path, growing):
    """Nothing yet is no era; then there is one."""
    growing.look()
    assert (growing.era, list(growing.cpus())) == (0, [])
    SegmentBuilder(1).block(0, make_records(1)).write(tmp_path)
    assert looked(growing)[0] == [make_records(1)]
    assert growing.era == 1


def test_a_newer_service(tmp_path, growing):
    SegmentBuilder(1, incompatible=("zstd",)).write(tmp_path)
    with pytest.raises(FormatError, match="zstd"):
        growing.look()
