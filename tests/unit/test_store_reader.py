"""Reading stores: segment after segment, also while they grow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.segments import (
    SegmentBuilder,
    append_file,
    make_records,
    payloads,
    write_file,
)
from tracelib.errors import FormatError
from tracelib.losses import Cause, Loss
from tracelib.segment.block import HEADER_BYTES
from tracelib.store.reader import StoreReader

LOSS = Loss(Cause.RING_CORRUPT, 3, 4, 100)


def three_segments(directory: Path) -> list[tuple[int, bytes]]:
    """Two sealed and an open one; what they hold."""
    parts = []
    for sequence in (1, 2, 3):
        payload = make_records(4, first_tsc=10_000 * sequence)
        builder = SegmentBuilder(sequence, previous_reason="size")
        builder.block(sequence % 2, payload).losses(Loss(Cause.CRASH, 0, sequence))
        parts.append((sequence % 2, payload))
        (builder if sequence == 3 else builder.seal()).write(directory)
    return parts


def test_a_store_is_its_segments_in_order(tmp_path):
    parts = three_segments(tmp_path)
    with StoreReader(tmp_path) as store:
        assert payloads(store.chunks()) == parts
        assert payloads(store.chunks_of(1)) == [parts[0], parts[2]]
        assert payloads(store.chunks_of(7)) == []
        assert store.cpus() == [0, 1]
        assert [loss.records for loss in store.losses()] == [1, 2, 3]
        assert (store.info.kind, store.info.segments, store.info.host) == ("store", 3, "testhost")
        assert len(store.info.anchors) == 3
        assert store.problems == []


def test_an_empty_store(tmp_path):
    with StoreReader(tmp_path) as store:
        assert payloads(store.chunks()) == []
        assert (store.cpus(), store.losses(), store.info.segments) == ([], [], 0)


def test_empty_segments_among_others(tmp_path):
    """R41: the others are still shown."""
    parts = three_segments(tmp_path)
    write_file(tmp_path / "00000004-20261130T220000Z.xtr", b"")
    SegmentBuilder(5).seal().write(tmp_path)
    with StoreReader(tmp_path) as store:
        assert payloads(store.chunks()) == parts
        assert store.problems == []


def test_a_newer_segment_does_not_hide_the_others(tmp_path):
    parts = three_segments(tmp_path)
    newer = SegmentBuilder(9, incompatible=("zstd",)).seal().write(tmp_path)
    with StoreReader(tmp_path) as store:
        assert payloads(store.chunks()) == parts
        (problem,) = store.problems
        assert problem.file == str(newer)
        assert "zstd" in problem.reason


def test_iterators_of_all_cpus_share_descriptors_and_leave_none(tmp_path):
    three_segments(tmp_path)

    def count():
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    with StoreReader(tmp_path) as store:
        iterators = [store.chunks_of(1) for _ in range(50)]
        for iterator in iterators:
            next(iterator)
        assert count() <= before + 3
        for iterator in iterators:
            iterator.close()
        list(store.chunks())
        assert count() == before + 2, "the unsealed one stays open, here and to be followed"
    assert count() == before


def test_retention_and_sealing_meanwhile(tmp_path):
    """The oldest is deleted and the newest renamed between the survey and the reading."""
    parts = three_segments(tmp_path)
    with StoreReader(tmp_path) as store:
        (tmp_path / "00000001-20261130T220000Z.xtr").unlink()
        opened = tmp_path / "00000003-20261130T220000Z.xtr.open"
        opened.rename(opened.with_suffix(""))
        assert payloads(store.chunks()) == parts[1:]
        (problem,) = store.problems
        assert "deleted" in problem.reason


def test_a_segment_beside_its_sealed_twin(tmp_path):
    """Somebody copied it back: each file is read for itself."""
    SegmentBuilder(1).block(0, make_records(1)).write(tmp_path)
    SegmentBuilder(1).block(0, make_records(2)).seal().write(tmp_path)
    with StoreReader(tmp_path) as store:
        assert payloads(store.chunks()) == [(0, make_records(2)), (0, make_records(1))]


def test_narrow_skips_whole_segments(tmp_path):
    parts = three_segments(tmp_path)
    with StoreReader(tmp_path) as store:
        store.narrow(20_000, 29_999)
        assert payloads(store.chunks()) == [parts[1]]


# Following


def test_new_chunks_begin_where_chunks_ended(tmp_path):
    """Whatever was read before: nothing twice, nothing missing."""
    builder = SegmentBuilder(1).block(0, make_records(2))
    path = builder.write(tmp_path)
    with StoreReader(tmp_path) as store:
        size = len(builder.data)
        more = make_records(3, first_tsc=5000)
        append_file(path, bytes(builder.block(1, more).data[size:]))
        assert payloads(store.chunks()) == [(0, make_records(2))]
        assert payloads(store.new_chunks()) == [(1, more)]
        assert payloads(store.new_chunks()) == []
        assert payloads(store.chunks()) == [(0, make_records(2))]


def test_a_block_comes_when_it_is_whole(tmp_path):
    """Cut at every 512 bytes while it is written: no record early, no problem said. Its
    padding need not be there yet."""
    builder = SegmentBuilder(1)
    path = builder.write(tmp_path)
    with StoreReader(tmp_path) as store:
        size = len(builder.data)
        data = bytes(builder.block(0, make_records(300)).data[size:])
        for at in range(0, len(data), 512):
            append_file(path, data[at : at + 512])
            whole = at < HEADER_BYTES + 4800 <= at + 512
            assert payloads(store.new_chunks()) == [(0, make_records(300))] * whole
        assert store.problems == []


def test_follow_across_rotations(tmp_path):
    """Two rotations between two looks, and one in the middle of a look."""
    first = SegmentBuilder(1)
    path = first.write(tmp_path)
    with StoreReader(tmp_path) as store:
        assert payloads(store.new_chunks()) == []
        size = len(first.data)
        append_file(path, bytes(first.block(0, make_records(1)).seal().data[size:]))
        path.rename(path.with_suffix(""))
        SegmentBuilder(2).block(1, make_records(2)).losses(LOSS).seal().write(tmp_path)
        SegmentBuilder(3).block(0, make_records(3)).write(tmp_path)
        chunks = store.new_chunks()
        found = [(next(chunks).cpu, 1)]
        SegmentBuilder(4).block(3, make_records(4)).write(tmp_path)
        found += [(chunk.cpu, len(chunk.payload) // 16) for chunk in chunks]
        assert found == [(0, 1), (1, 2), (0, 3), (3, 4)]
        assert store.new_losses() == [LOSS]
        assert store.new_losses() == []
        assert store.problems == []


def test_follow_starts_in_an_empty_store(tmp_path):
    with StoreReader(tmp_path) as store:
        assert payloads(store.new_chunks()) == []
        SegmentBuilder(1).block(0, make_records(1)).write(tmp_path)
        assert payloads(store.new_chunks()) == [(0, make_records(1))]


def test_follow_past_a_segment_that_a_dead_service_left(tmp_path):
    """Its torn end was waited for; when there is a next segment, it is said and left."""
    builder = SegmentBuilder(1).block(0, make_records(1))
    path = builder.write(tmp_path)
    with StoreReader(tmp_path) as store:
        append_file(path, b"torn")
        assert payloads(store.new_chunks()) == []
        assert store.problems == []
        SegmentBuilder(2).block(1, make_records(2)).write(tmp_path)
        assert payloads(store.new_chunks()) == [(1, make_records(2))]
        (problem,) = store.problems
        assert (problem.offset, problem.missing_bytes) == (len(builder.data), 4)


def test_a_number_used_again(tmp_path):
    """A segment without a record, removed after a crash: the next one gets its number."""
    path = SegmentBuilder(1).write(tmp_path)
    with StoreReader(tmp_path) as early, StoreReader(tmp_path) as late:
        assert payloads(early.new_chunks()) == []
        path.unlink()
        SegmentBuilder(1).block(0, make_records(1)).write(tmp_path)
        for store in (early, late):
            assert payloads(store.new_chunks()) == [(0, make_records(1))]
            assert store.problems == []


def test_a_segment_deleted_while_it_is_followed(tmp_path):
    """By retention: what is in it is still given."""
    builder = SegmentBuilder(1)
    path = builder.write(tmp_path)
    with StoreReader(tmp_path) as store:
        size = len(builder.data)
        append_file(path, bytes(builder.block(0, make_records(1)).seal().data[size:]))
        path.unlink()
        assert payloads(store.new_chunks()) == [(0, make_records(1))]
        SegmentBuilder(2).block(1, make_records(2)).write(tmp_path)
        assert payloads(store.new_chunks()) == [(1, make_records(2))]


def test_follow_meets_a_newer_service(tmp_path):
    SegmentBuilder(1).write(tmp_path)
    with StoreReader(tmp_path) as store:
        SegmentBuilder(2, incompatible=("zstd",)).block(0, make_records(1)).write(tmp_path)
        with pytest.raises(FormatError, match="zstd"):
            list(store.new_chunks())
