"""Which segment goes, when, and what is said of it."""

from __future__ import annotations

import os

import pytest

from tests.support.staged import StoreBench, stored_tscs
from tracelib.store import fsops
from xtraced.retention import Limits

DAY = 86400 * 10**9


def sequences(bench: StoreBench) -> list[int]:
    return [int(path.name[:8]) for path in bench.paths()]


def fill(bench: StoreBench, segments: int) -> None:
    """So many sealed segments of 24 KiB or so, and an open one."""
    bench.open()
    for _ in range(segments):
        bench.write(4)
        bench.rotate()


def test_the_oldest_goes_and_the_total_counts_the_open_segment(tmp_path):
    limits = Limits(max_bytes=300 << 10, keep_free=0, max_age=0, max_segments=0)
    bench = StoreBench(tmp_path, limits)
    fill(bench, 30)
    assert sum(path.stat().st_size for path in bench.paths()) <= 300 << 10
    kept = sequences(bench)
    assert kept == list(range(kept[0], 32)), "strictly oldest first, no holes"
    assert bench.retention.acting == "max_bytes"
    assert bench.retention.deleted.segments == 31 - len(kept)
    assert bench.retention.deleted.records == 4 * (31 - len(kept))


def test_number_of_segments(tmp_path):
    bench = StoreBench(tmp_path, Limits(max_bytes=0, keep_free=0, max_age=0, max_segments=5))
    fill(bench, 12)
    assert len(bench.paths()) == 5
    assert bench.retention.acting == "max_segments"


def test_age_is_that_of_the_last_record_not_of_the_file(tmp_path):
    bench = StoreBench(tmp_path, Limits(max_bytes=0, keep_free=0, max_age=DAY, max_segments=0))
    fill(bench, 3)
    for path in bench.paths():
        os.utime(path, (0, 0))
    bench.store.housekeep(None)
    assert len(bench.paths()) == 4, "an old mtime means nothing"
    bench.clock.advance(2 * DAY)
    bench.store.housekeep(None)
    assert len(bench.paths()) == 1, "the open segment stays"
    assert bench.retention.acting == "max_age"


def test_a_clock_set_back_does_not_change_the_order(tmp_path):
    """R40: the sequence number decides, not the time."""
    bench = StoreBench(tmp_path)
    fill(bench, 3)
    bench.clock.now -= 30 * DAY
    bench.write(4)
    bench.rotate()
    bench.retention.limits = Limits(max_bytes=0, keep_free=0, max_age=0, max_segments=3)
    bench.store.housekeep(None)
    assert sequences(bench) == [3, 4, 5]


def test_foreign_files_and_symlinks_are_left_alone(tmp_path):
    """R40: 30 segments in one second, a foreign file, a symlink with a segment's name."""
    (tmp_path / "notes.txt").write_text("mine")
    target = tmp_path / "elsewhere"
    target.write_text("mine too")
    (tmp_path / "00000001-20200101T000000Z.xtr").symlink_to(target)
    bench = StoreBench(tmp_path, Limits(max_bytes=0, keep_free=0, max_age=0, max_segments=4))
    fill(bench, 30)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert target.read_text() == "mine too"
    assert (tmp_path / "00000001-20200101T000000Z.xtr").is_symlink()


def test_keep_free_counts_what_is_available_to_us(tmp_path, monkeypatch):
    """R39: f_bavail * f_frsize, not f_bfree or f_bsize."""
    real = os.statvfs(tmp_path)
    free = [64 << 20]

    class Answer:
        f_bavail = property(lambda _: free[0] // 512)
        f_bfree = property(lambda _: real.f_blocks)
        f_frsize = 512
        f_bsize = 1 << 20

    monkeypatch.setattr(fsops.os, "statvfs", lambda _: Answer())
    limits = Limits(max_bytes=0, keep_free=32 << 20, max_age=0, max_segments=0)
    bench = StoreBench(tmp_path, limits)
    fill(bench, 4)
    assert len(bench.paths()) == 5
    free[0] = 16 << 20
    bench.write(4)
    assert len(bench.paths()) == 1, "everything sealed was deleted for it"
    assert bench.retention.acting == "keep_free"
    assert "keep_free" in bench.store.writer_status(0).last_error
    assert bench.store.failed_by_cpu == {0: 4}, "and then it stopped, counted"
    free[0] = 64 << 20
    bench.write(4)
    assert bench.store.writer_status(0).failing_since is None, "resumes by itself"
    bench.close()
    assert stored_tscs(bench.paths()[0]) == [21, 22, 23, 24]


def test_a_reserve_larger_than_the_disk_never_wraps_around(tmp_path):
    """R39: reserve larger than what there is: a refusal, not a huge unsigned number."""
    limits = Limits(max_bytes=0, keep_free=1 << 60, max_age=0, max_segments=0)
    bench = StoreBench(tmp_path, limits)
    with pytest.raises(Exception, match="keep_free"):
        bench.open()


def test_what_was_there_at_start_counts(tmp_path):
    fill(StoreBench(tmp_path), 6)
    for path in StoreBench(tmp_path).paths():
        if path.name.endswith(".open"):
            path.unlink()
    bench = StoreBench(tmp_path, Limits(max_bytes=0, keep_free=0, max_age=0, max_segments=3))
    bench.open()
    assert len(bench.paths()) == 3
    assert bench.retention.deleted.records == 16
