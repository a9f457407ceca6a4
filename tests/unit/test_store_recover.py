"""What a start makes of what a crash left."""

from __future__ import annotations

import errno
import os

import pytest

from tests.support.segments import (
    CREATED_AT,
    SegmentBuilder,
    make_anchor,
    make_records,
    payloads,
    write_file,
)
from tracelib.losses import Cause, Loss
from tracelib.segment.block import PAGE
from tracelib.segment.findings import Severity
from tracelib.store import fsops
from tracelib.store.directory import list_segments
from tracelib.store.reader import SegmentReader
from tracelib.store.recover import Outcome, recover, ring_positions
from tracelib.store.verify import verify_segment

OPEN_NAME = "00000001-20261130T220000Z.xtr.open"
PARTS = [(0, make_records(5)), (3, make_records(400)), (0, make_records(3, first_tsc=9000))]


def leftover(**changes) -> SegmentBuilder:
    builder = SegmentBuilder()
    for cpu, payload in PARTS:
        builder.block(cpu, payload, **changes)
    return builder


def errors(path) -> list[str]:
    return [str(f) for f in verify_segment(path) if f.severity is Severity.ERROR]


def test_a_leftover_is_sealed_and_renamed(tmp_path):
    builder = leftover()
    path = builder.write(tmp_path)
    (done,) = recover(tmp_path)
    assert done.outcome is Outcome.SEALED
    assert (done.sequence, done.records, done.torn_bytes) == (1, 408, 0)
    sealed = path.with_suffix("")
    assert done.path == str(sealed)
    assert not path.exists()
    assert sealed.read_bytes()[: len(builder.data)] == builder.data, "what was there stays"
    with SegmentReader(sealed) as segment:
        assert payloads(segment.chunks()) == PARTS
        assert (segment.seal.reason, segment.seal.ended_at) == ("crash", CREATED_AT + 10**9)
        assert segment.seal.cpus == builder.encoder.cpus
        assert segment.seal.anchors == [make_anchor()]
        assert segment.problems == []
    assert list(verify_segment(sealed)) == []
    assert recover(tmp_path) == []


@pytest.mark.parametrize("cut", range(0, 2 * PAGE, 512))
def test_cut_anywhere_in_the_last_blocks(tmp_path, cut):
    """R20, R59: every record of every block that was whole at the crash; the torn rest is
    kept in the file, skipped, and said. Of the padding nothing is missed."""
    builder = leftover()
    start = builder.blocks[4]  # CPU 3's, two pages long
    path = builder.cut(start + cut).write(tmp_path)
    (done,) = recover(tmp_path)
    assert done.outcome is Outcome.SEALED
    torn = -(-cut // PAGE) * PAGE if cut < 128 + 6400 else 0  # up to the next page
    assert done.torn_bytes == torn
    sealed = path.with_suffix("")
    with SegmentReader(sealed) as segment:
        assert payloads(segment.chunks()) == PARTS[: 1 if cut < 128 + 6400 else 2]
        assert segment.seal is not None
        assert [p.offset for p in segment.problems] == ([start] if torn else [])
    assert errors(sealed) == []
    warnings = list(verify_segment(sealed))
    assert len(warnings) == bool(torn)
    assert sealed.stat().st_size % PAGE == 0


def test_a_block_whose_torn_end_is_zeros_is_whole_again(tmp_path):
    """The seal goes to the next page, so the file has these bytes after all."""
    builder = leftover()
    path = builder.cut(builder.blocks[5] + 128 + 3 * 16 - 3).write(tmp_path)
    (done,) = recover(tmp_path)
    assert (done.records, done.torn_bytes) == (408, 0)
    with SegmentReader(path.with_suffix("")) as segment:
        assert payloads(segment.chunks()) == PARTS
    assert list(verify_segment(path.with_suffix(""))) == []


@pytest.mark.parametrize("number", range(6))
def test_a_damaged_block_costs_only_itself(tmp_path, number):
    """Also the first: a segment without its metadata is worth keeping."""
    builder = leftover()
    path = builder.flip(builder.blocks[number] + 140).write(tmp_path)
    (done,) = recover(tmp_path)
    assert done.outcome is Outcome.SEALED
    with SegmentReader(path.with_suffix("")) as segment:
        assert payloads(segment.chunks()) == [
            part for at, part in enumerate(PARTS, 3) if at != number
        ]


def test_zeroed_tail(tmp_path):
    """The file grew before the crash, but was not written."""
    path = leftover().raw(bytes(3 * PAGE)).write(tmp_path)
    (done,) = recover(tmp_path)
    assert (done.outcome, done.torn_bytes) == (Outcome.SEALED, 3 * PAGE)
    assert errors(path.with_suffix("")) == []


HEAD = bytes(SegmentBuilder().data)


@pytest.mark.parametrize("data", [b"", bytes(PAGE), bytes(100), HEAD, HEAD[:512], HEAD[:9000]])
def test_what_holds_nothing_is_removed(tmp_path, data):
    """R41, R59: zero length, zeros only, head only or a part of it."""
    write_file(tmp_path / OPEN_NAME, data)
    (done,) = recover(tmp_path)
    assert done.outcome is Outcome.REMOVED
    assert list(tmp_path.iterdir()) == []


def test_stated_losses_alone_are_worth_keeping(tmp_path):
    SegmentBuilder().losses(Loss(Cause.WRITE_FAILED, 0, 1000)).write(tmp_path)
    (done,) = recover(tmp_path)
    assert done.outcome is Outcome.SEALED


@pytest.mark.parametrize("data", [b"rubbish" * 1000, HEAD[:100], HEAD[:512] * 20])
def test_what_has_no_block_is_set_aside(tmp_path, data):
    """R59: reported, not deleted, and no segment any more."""
    write_file(tmp_path / OPEN_NAME, data)
    (done,) = recover(tmp_path)
    assert done.outcome is Outcome.SET_ASIDE
    assert list_segments(tmp_path) == []
    (kept,) = tmp_path.iterdir()
    assert str(kept) == done.path
    assert kept.read_bytes() == data
    assert recover(tmp_path) == []


def test_a_crash_between_seal_and_rename(tmp_path):
    """R59: only the rename is left to do."""
    builder = leftover().seal("size")
    path = builder.write(tmp_path, name=OPEN_NAME)
    (done,) = recover(tmp_path)
    assert done.outcome is Outcome.SEALED
    assert path.with_suffix("").read_bytes() == builder.data


def test_sealed_segments_and_foreign_files_are_not_touched(tmp_path):
    sealed = leftover().seal().write(tmp_path)
    write_file(tmp_path / "x.open", b"")
    before = sealed.read_bytes()
    assert recover(tmp_path) == []
    assert sealed.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "fsync"])
def test_a_refusal_never_blocks_the_start(tmp_path, monkeypatch, call):
    """R59: it is reported, the records can still be read, and the next start does it."""
    builder = leftover()
    builder.write(tmp_path)
    write_file(tmp_path / "00000002-20261130T220000Z.xtr.open", b"")

    def refuse(*_args):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(fsops.os, call, refuse)
        first, _ = recover(tmp_path)
    assert first.outcome is Outcome.LEFT
    assert "EIO" in first.detail
    (entry,) = [e for e in list_segments(tmp_path) if e.sequence == 1]
    with SegmentReader(entry.path) as segment:
        assert payloads(segment.chunks()) == PARTS
    recover(tmp_path)
    (entry,) = list_segments(tmp_path)
    assert entry.sealed
    assert list(verify_segment(entry.path)) == []


def test_no_space_for_the_seal_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    builder = leftover()
    path = builder.write(tmp_path)
    real = os.pwrite

    def full(fd, data, offset):
        if offset > len(builder.data):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data[:2000], offset)

    with monkeypatch.context() as patch:
        patch.setattr(fsops.os, "pwrite", full)
        (done,) = recover(tmp_path)
    assert done.outcome is Outcome.LEFT
    assert path.read_bytes() == builder.data


def test_a_sealed_twin_is_not_overwritten(tmp_path):
    """Somebody copied it back: nothing is lost."""
    leftover().write(tmp_path)
    twin = leftover().seal().write(tmp_path)
    before = twin.read_bytes()
    (done,) = recover(tmp_path)
    assert done.outcome is Outcome.LEFT
    assert "EEXIST" in done.detail
    assert twin.read_bytes() == before


def test_crash_states(tmp_path):
    """Every prefix in whole pages, with any page of the last four zeroed or not: whatever
    was intact is there after recovery, and recovery comes to an end (R59)."""
    whole = leftover().block(1, make_records(2))
    parts = [*PARTS, (1, make_records(2))]
    size = len(whole.data)
    for pages in range(size // PAGE + 1):
        for lost in range(16):
            builder = whole.copy().cut(pages * PAGE)
            for bit in range(4):
                page = pages - 1 - bit
                if lost >> bit & 1 and page >= 0:
                    builder.zero(page * PAGE, PAGE)
            path = builder.write(tmp_path)
            with SegmentReader(path) as before:
                intact = payloads(before.chunks())
            assert all(part in parts for part in intact)
            (done,) = recover(tmp_path)
            assert done.outcome in (Outcome.SEALED, Outcome.REMOVED)
            if done.outcome is Outcome.SEALED:
                with SegmentReader(path.with_suffix("")) as after:
                    assert payloads(after.chunks()) == intact
                assert errors(path.with_suffix("")) == []
                path.with_suffix("").unlink()
            else:
                assert intact == []


# Where a successor goes on


def test_ring_positions_are_those_of_each_cpus_last_stored_block(tmp_path):
    first = SegmentBuilder(1, ring_cpus=(0, 1, 3))
    first.block(0, make_records(2), ring_id=70, ring_start=0, ring_end=32)
    first.block(3, make_records(1), ring_id=73, ring_start=0, ring_end=16)
    first.seal().write(tmp_path)
    second = SegmentBuilder(2, ring_cpus=(0, 1, 3))
    second.block(0, make_records(1, first_tsc=5000), ring_id=70, ring_start=32, ring_end=48)
    second.write(tmp_path)
    assert ring_positions(tmp_path) == {0: (70, 32, 48, 5000), 3: (73, 0, 16, 1000)}


def test_ring_positions_stop_at_what_is_known_of_all(tmp_path):
    """Old segments are not even opened."""
    write_file(tmp_path / "00000001-20261130T220000Z.xtr", b"rubbish" * 1000)
    SegmentBuilder(2, ring_cpus=(0,)).block(0, make_records(1), ring_id=9).seal().write(tmp_path)
    opened = []
    real = os.open

    def spy(path, *args, **kwargs):
        opened.append(str(path))
        return real(path, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fsops.os, "open", spy)
        assert ring_positions(tmp_path) == {0: (9, 0, 0, 1000)}
    assert not any("00000001" in path for path in opened)


def test_ring_positions_of_an_empty_store(tmp_path):
    assert ring_positions(tmp_path) == {}
