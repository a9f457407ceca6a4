"""Staging memory: what is in it is found by whoever gets it, or refused with a reason."""

from __future__ import annotations

import fcntl
import os

import pytest

from tests.support.segments import header_for, make_metadata, make_records
from tests.support.staged import metadata
from tracelib.errors import StoreError
from tracelib.segment.block import HEADER_BYTES, BlockHeader, padded_bytes, payload_checksum
from tracelib.store import fsops
from tracelib.store.handover import Staged
from tracelib.store.reader import SegmentReader
from tracelib.store.recover import Outcome, recover
from xtraced.handover import NAME, Legacy, StagingMemory, inherited
from xtraced.staging import StagingBuffer, StagingPool

SIZE = 16384


@pytest.fixture
def keeper():
    fd = os.memfd_create("test")
    yield fd
    os.close(fd)


def stage(buffer: StagingBuffer, cpu: int, count: int, **changes: int) -> BlockHeader:
    payload = make_records(count)
    buffer.payload(len(payload))[:] = payload
    changes = {"checksum": payload_checksum(payload), "round": 1, **changes}
    header = header_for(cpu, payload, **changes)
    buffer.add(header._replace(block_bytes=padded_bytes(len(payload))))
    return header


def found(fd: int) -> list[tuple[int, int]]:
    """CPU and records of each block that a successor finds."""
    return [(block.header.cpu, block.header.records) for block in Legacy.read(fd).staged]


def test_blocks_are_found_in_the_order_in_which_they_were_taken(keeper):
    pool = StagingPool(StagingMemory(3, SIZE, keeper))
    first, second = pool.take(), pool.take()
    stage(first, 0, 5)
    stage(second, 0, 7)
    stage(first, 1, 6)
    assert found(keeper) == [(0, 5), (1, 6), (0, 7)]
    pool.give_back(first)
    stage(pool.take(), 2, 1)
    assert found(keeper) == [(0, 7), (2, 1)], "the buffer that was used again is the last"


def test_payloads_are_as_they_were(keeper):
    pool = StagingPool(StagingMemory(2, SIZE, keeper))
    stage(pool.take(), 3, 9)
    (block,) = Legacy.read(keeper).staged
    assert bytes(block.payload) == make_records(9)


def test_a_payload_without_a_commit_is_none(keeper):
    """Its records are still in the ring."""
    pool = StagingPool(StagingMemory(2, SIZE, keeper))
    buffer = pool.take()
    buffer.payload(160)[:] = make_records(10)
    assert found(keeper) == []


def test_the_metadata_of_the_run(keeper):
    memory = StagingMemory(2, SIZE, keeper)
    assert Legacy.read(keeper).metadata is None
    for run in ("one", "two"):
        memory.note_run(make_metadata(run_id=run))
    assert Legacy.read(keeper).metadata == make_metadata(run_id="two")


def test_new_memory_in_an_old_descriptor_is_empty(keeper):
    pool = StagingPool(StagingMemory(2, SIZE, keeper))
    stage(pool.take(), 0, 5)
    StagingMemory(4, 2 * SIZE, keeper)
    assert found(keeper) == []


def test_nothing_comes_of_nothing(keeper):
    assert Legacy.read(None).staged == ()
    assert Legacy.read(keeper).staged == ()


@pytest.mark.parametrize(
    ("at", "data"),
    [(0, b"XTRWRONG"), (8, b"\2"), (12, b"\xff"), (16, b"\xff"), (24, b"\0" * 8)],
)
def test_memory_that_is_not_understood(keeper, at, data, capsys):
    """R59: another layout, or damage: one line of log, and no failed start."""
    pool = StagingPool(StagingMemory(2, SIZE, keeper))
    stage(pool.take(), 0, 5)
    os.pwrite(keeper, data, at)
    assert found(keeper) == []
    assert capsys.readouterr().out.count("staging_not_understood") == 1


def test_cut_memory(keeper, capsys):
    StagingMemory(2, SIZE, keeper)
    os.ftruncate(keeper, 100)
    assert found(keeper) == []
    assert "too few" in capsys.readouterr().out


def test_a_damaged_header_ends_its_buffer_only(keeper, capsys):
    pool = StagingPool(StagingMemory(2, SIZE, keeper))
    first, second = pool.take(), pool.take()
    stage(first, 0, 5)
    stage(first, 1, 5)
    stage(second, 2, 5)
    table = (64 << 10) + HEADER_BYTES  # the second block's, in the first buffer's table
    numbers = sorted(buffer.number for buffer in (first, second))
    os.pwrite(keeper, b"\xff", table + 4096 * numbers.index(first.number) + 20)
    assert found(keeper) == [(0, 5), (2, 5)]
    assert "staging_damaged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("environ", "fd"),
    [
        ({}, None),
        ({"LISTEN_PID": "7", "LISTEN_FDS": "1", "LISTEN_FDNAMES": NAME}, None),
        ({"LISTEN_PID": "42", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "http"}, None),
        ({"LISTEN_PID": "42", "LISTEN_FDS": "x", "LISTEN_FDNAMES": NAME}, None),
        ({"LISTEN_PID": "42", "LISTEN_FDS": "0", "LISTEN_FDNAMES": NAME}, None),
        ({"LISTEN_PID": "42", "LISTEN_FDS": "1"}, None),
    ],
)
def test_what_is_not_for_us(environ, fd):
    """sd_listen_fds(3): another process's, other names, rubbish."""
    assert inherited(environ, 42) is fd


def test_what_is_no_memory(tmp_path, keeper, capsys):
    """R59: whatever comes under the name, no start fails of it, and nobody's file is emptied."""
    named = tmp_path / "file"
    named.write_bytes(b"somebody's")
    sealed = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(sealed, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    read_only = os.open(f"/proc/self/fd/{keeper}", os.O_RDONLY)
    fds = [*os.pipe(), os.open(named, os.O_RDWR), sealed, read_only,
           os.open(tmp_path, os.O_RDONLY)]  # fmt: skip
    for fd in fds:
        assert came_as(fd) is None
        assert capsys.readouterr().out.count("staging_not_understood") == 1
        os.close(fd)
    assert came_as(fds[0]) is None, "closed"
    assert named.read_bytes() == b"somebody's"
    assert came_as(keeper) == keeper


def came_as(fd: int) -> int | None:
    names = ":".join(["other"] * (fd - 3) + [NAME])
    environ = {"LISTEN_PID": "42", "LISTEN_FDS": str(fd - 2), "LISTEN_FDNAMES": names}
    return inherited(environ, 42)


def leftovers(*counts: int) -> tuple[list[Staged], list[int]]:
    staged, tscs = [], []
    for number, count in enumerate(counts):
        payload = make_records(count, first_tsc=1000 * (number + 1))
        header = header_for(
            0, payload, round=number + 1, ring_id=9, ring_start=number, ring_end=number + 1,
            checksum=payload_checksum(payload),
        )
        staged.append(Staged(header, memoryview(payload)))
        tscs += range(1000 * (number + 1), 1000 * (number + 1) + 10 * count, 10)
    return staged, tscs


def test_with_no_segment_open_they_get_one_of_their_own(tmp_path):
    """The service died between two segments."""
    staged, _ = leftovers(4, 5)
    (done,) = recover(tmp_path, staged, metadata())
    assert (done.outcome, done.records, done.handed_over) == (Outcome.SEALED, 9, 9)
    with SegmentReader(tmp_path / done.path) as segment:
        assert segment.metadata.run_id == "run"
        assert segment.metadata.previous_reason == "crash"
        assert [chunk.cpu for chunk in segment.chunks()] == [0, 0]
    assert recover(tmp_path, staged, metadata()) == [], "not twice"


def test_blocks_of_a_run_that_said_nothing_are_not_invented_a_home(tmp_path):
    staged, _ = leftovers(4)
    (done,) = recover(tmp_path, staged, None)
    assert done.outcome is Outcome.LEFT
    assert "4 records" in done.detail


def test_a_full_disk_keeps_them_where_they_are(tmp_path, monkeypatch):
    """A later attempt may have more luck: the caller still has them."""
    staged, _ = leftovers(4)

    def refuse(*_args, **_more):
        raise StoreError("no space", errno=28)

    with monkeypatch.context() as patch:
        patch.setattr(fsops, "fdatasync", refuse)
        with pytest.raises(StoreError):
            recover(tmp_path, staged, metadata())
    results = recover(tmp_path, staged, metadata())
    assert sum(done.records for done in results) == 4
