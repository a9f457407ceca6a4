"""The store the writer's thread writes to: rotation, refusal, failure, recovery."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

import pytest

from tests.support.staged import StoreBench, opening, stored_tscs
from tracelib.errors import StoreError
from tracelib.losses import Cause
from tracelib.store import fsops
from tracelib.store.segment import SegmentReader


@pytest.fixture
def bench(tmp_path):
    return StoreBench(tmp_path)


def test_what_is_written_is_read_back_in_order(bench):
    bench.open()
    bench.write(3, 5)
    bench.write(7)
    bench.close()
    (path,) = bench.paths()
    assert stored_tscs(path) == list(range(1, 16))
    with SegmentReader(path) as segment:
        assert segment.seal.reason == "stop"
        assert {cpu: t.records for cpu, t in segment.totals.items()} == {0: 10, 1: 5}


def test_rotation_loses_nothing_and_repeats_nothing(bench):
    """R55, R56: each record in exactly one segment; numbers and reasons join up."""
    bench.open()
    for _ in range(5):
        bench.write(4, 4)
        bench.rotate()
    bench.close()
    paths = bench.paths()
    assert len(paths) == 6
    assert [tsc for path in paths for tsc in stored_tscs(path)] == list(range(1, 41))
    with SegmentReader(paths[0]) as first, SegmentReader(paths[1]) as second:
        assert (first.metadata.sequence, second.metadata.sequence) == (1, 2)
        assert first.metadata.previous_reason == "none"
        assert second.metadata.previous_reason == "size"


def test_names_tell_open_from_sealed(bench):
    bench.open()
    (path,) = bench.paths()
    assert path.name.endswith(".xtr.open")
    bench.close()
    (path,) = bench.paths()
    assert path.name.endswith(".xtr")


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_a_segment_is_0640_whatever_the_umask(bench, umask):
    """R62: traces show what guests do."""
    before = os.umask(umask)
    try:
        bench.open()
    finally:
        os.umask(before)
    (path,) = bench.paths()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_stale_bytes_of_a_reused_buffer_do_not_reach_the_disk(bench):
    bench.open()
    bench.write(190)
    bench.write(1)
    bench.close()
    (path,) = bench.paths()
    with SegmentReader(path) as segment:
        last = segment.index[len(segment.index) - 1]
    block = path.read_bytes()[last.offset : last.offset + last.block_bytes]
    assert block[128 + last.payload_bytes :].strip(b"\0") == b""


class FailingWrites:
    """os.pwrite that fails from the n-th call on, for so many calls."""

    def __init__(self, monkeypatch, number: int, first: int = 0, count: int = 1 << 30) -> None:
        self.calls = 0
        self._number, self._range = number, range(first, first + count)
        self._real = os.pwrite
        monkeypatch.setattr(fsops.os, "pwrite", self)

    def __call__(self, fd, data, offset):
        call = self.calls
        self.calls += 1
        if call in self._range:
            raise OSError(self._number, os.strerror(self._number))
        return self._real(fd, data, offset)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_every_write_refused_is_counted_and_survived(bench, monkeypatch, number):
    """R10, R11: the caller gets its buffer back, the loss is known by CPU, status says why."""
    bench.open()
    bench.write(3)
    FailingWrites(monkeypatch, number)
    bench.write(10, 20)
    status = bench.store.writer_status(0)
    assert status.failing_since is not None
    assert errno.errorcode[number] in status.last_error
    assert (status.failed_blocks, status.failed_records) == (2, 30)
    assert bench.store.failed_by_cpu == {0: 10, 1: 20}
    assert bench.store.stored_records == 3


def test_a_segment_into_which_nothing_could_be_written_goes_on(bench, monkeypatch):
    """R11: a full disk is not filled up with empty segments "for their size"."""
    bench.open()
    (path,) = bench.paths()
    with monkeypatch.context() as patch:
        FailingWrites(patch, errno.ENOSPC)
        bench.write(10)
        bench.rotate()
    assert bench.paths() == [path]
    bench.write(2)
    bench.close()
    assert len(bench.paths()) == 1


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_when_space_returns_it_goes_on_and_says_what_is_missing(bench, monkeypatch, number):
    """R11: a new block goes in as soon as it can; the gap is in the stream."""
    bench.open()
    bench.write(3)
    with monkeypatch.context() as patch:
        FailingWrites(patch, number)
        bench.write(10, 20)
        bench.write(5)
    bench.write(2)
    bench.close()
    assert bench.store.writer_status(0).failing_since is None
    paths = bench.paths()
    assert [t for path in paths for t in stored_tscs(path)] == [1, 2, 3, 39, 40]
    losses = []
    for path in paths:
        with SegmentReader(path) as segment:
            losses += segment.losses()
    assert {(x.cause, x.cpu, x.records) for x in losses} == {
        (Cause.WRITE_FAILED, 0, 15),
        (Cause.WRITE_FAILED, 1, 20),
    }


def test_a_failed_write_ends_the_segment_where_it_was_good(bench, monkeypatch):
    bench.open()
    bench.write(3)
    with monkeypatch.context() as patch:
        FailingWrites(patch, errno.EIO, count=1)
        bench.write(4)
    bench.write(5)
    bench.close()
    first, *rest = bench.paths()
    assert stored_tscs(first) == [1, 2, 3]
    with SegmentReader(first) as segment:
        assert "write failed" in segment.seal.reason
    assert [t for path in rest for t in stored_tscs(path)] == list(range(8, 13))


def test_within_the_retry_time_nothing_is_given_up(tmp_path, monkeypatch):
    bench = StoreBench(tmp_path, retry=2_000_000_000)
    bench.open()
    with monkeypatch.context() as patch:
        FailingWrites(patch, errno.ENOSPC, count=3)
        bench.write(6)
    bench.close()
    assert len(bench.slept) == 3
    assert bench.store.failed_by_cpu == {}
    (path,) = bench.paths()
    assert stored_tscs(path) == list(range(1, 7))


@pytest.mark.parametrize("failing", range(12))
def test_an_error_at_any_write_leaves_every_other_record_readable(tmp_path, monkeypatch, failing):
    """EIO at the n-th write, for every n: stored + counted as lost = written."""
    bench = StoreBench(tmp_path)
    faults = FailingWrites(monkeypatch, errno.EIO, first=failing, count=1)
    try:
        bench.open()
    except StoreError:
        assert failing == 0
        return
    for _ in range(4):
        bench.write(4, 4)
    with pytest.MonkeyPatch.context():
        try:
            bench.rotate()
        except StoreError:
            bench.store.open(opening())
    bench.write(2)
    try:
        bench.close()
    except StoreError:
        assert faults.calls > failing
    stored = [t for path in bench.paths() for t in stored_tscs(path)]
    lost = sum(bench.store.failed_by_cpu.values())
    assert len(stored) == len(set(stored))
    assert len(stored) + lost == 34


def test_a_failed_sync_ends_the_segment_as_suspect(bench, monkeypatch):
    """R60: the kernel says it once and may have dropped the pages; no "retry until OK"."""
    bench.open()
    bench.write(3)
    bench.store.flush()
    good = bench.store.store_status().open_bytes
    bench.write(4)
    calls = []

    def fail_once(fd):
        calls.append(fd)
        if len(calls) == 1:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fsops.os, "fdatasync", fail_once)
    with pytest.raises(StoreError, match="sync"):
        bench.store.flush()
    bench.write(5)
    bench.close()
    first, second = bench.paths()
    with SegmentReader(first) as segment:
        assert segment.seal.reason == f"sync failed, suspect from offset {good}"
    assert stored_tscs(second) == list(range(8, 13))


def test_direct_io_refused_at_open_falls_back(tmp_path, monkeypatch):
    """R08: EINVAL for the flag; the same bytes arrive, and status says why not direct."""
    real = fsops.fcntl.fcntl

    def refuse(fd, command, argument=0):
        if command == fsops.fcntl.F_SETFL and argument & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(fd, command, argument)

    monkeypatch.setattr(fsops.fcntl, "fcntl", refuse)
    bench = StoreBench(tmp_path)
    bench.open()
    bench.write(5)
    status = bench.store.writer_status(0)
    assert status.direct is False
    assert "EINVAL" in status.direct_reason
    bench.close()
    assert stored_tscs(bench.paths()[0]) == [1, 2, 3, 4, 5]


def test_direct_io_refused_at_the_first_write_falls_back(tmp_path, monkeypatch):
    """R08: accepted at open, refused when it counts."""
    real = os.pwrite

    def refuse(fd, data, offset):
        if fsops.fcntl.fcntl(fd, fsops.fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(fd, data, offset)

    monkeypatch.setattr(fsops.os, "pwrite", refuse)
    bench = StoreBench(tmp_path)
    bench.open()
    bench.write(5)
    bench.rotate()
    bench.write(2)
    assert bench.store.writer_status(0).direct is False
    bench.close()
    assert [t for path in bench.paths() for t in stored_tscs(path)] == list(range(1, 8))


def test_an_existing_file_is_never_overwritten(bench):
    """R30: exclusive create; the number of a file in the way is passed over."""
    bench.open()
    bench.write(3)
    bench.close()
    (path,) = bench.paths()
    before = path.read_bytes()
    again = StoreBench(bench.directory)
    again.open()
    again.close()
    assert path.read_bytes() == before
    assert len(again.paths()) == 2


@pytest.mark.parametrize(("chunk", "interrupt"), [(512, 0), (2048, 3), (1 << 15, 2)])
def test_short_and_interrupted_writes_change_nothing(tmp_path, monkeypatch, chunk, interrupt):
    """R38: the file is the one that an unfaulted run writes."""
    real = os.pwrite
    calls = [0]

    def partly(fd, data, offset):
        calls[0] += 1
        if interrupt and calls[0] % interrupt == 0:
            raise InterruptedError(errno.EINTR, "Interrupted system call")
        return real(fd, data[:chunk], offset)

    plain, faulty = tmp_path / "plain", tmp_path / "faulty"
    for directory in (plain, faulty):
        directory.mkdir()
    for directory in (plain, faulty):
        if directory is faulty:
            monkeypatch.setattr(fsops.os, "pwrite", partly)
        bench = StoreBench(directory, direct=False)
        bench.open()
        bench.write(150, 150)
        bench.write(30)
        bench.close()
    assert plain.joinpath(StoreBench(plain).paths()[0]).read_bytes() == (
        StoreBench(faulty).paths()[0].read_bytes()
    )


def test_a_directory_that_cannot_be_synced_does_not_unseal_a_segment(bench, monkeypatch):
    """The name is there: retention and ledger have the segment."""
    bench.open()
    bench.write(5)

    def refuse(path):
        raise StoreError(f"cannot sync {path}", errno=errno.EMFILE)

    with monkeypatch.context() as patch:
        patch.setattr(fsops, "sync_directory", refuse)
        with suppress(StoreError):
            bench.rotate()
    (sealed,) = bench.directory.glob("*.xtr")
    assert stored_tscs(sealed) == [1, 2, 3, 4, 5]
    assert bench.retention.segments == 1
    assert bench.retention.ledger.sums.records.total() == 5
