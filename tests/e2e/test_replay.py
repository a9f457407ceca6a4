"""Replaying files: what is wrong with one is said, since the new store cannot show it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import structlog

from tests.support import captures
from tests.support.machines import Taker
from tests.support.segments import SegmentBuilder, make_records
from tests.support.service import ServiceProcess
from tracelib import reading
from tracelib.losses import Cause, Loss
from tracelib.units import CpuId
from xtraced.sources import Masks
from xtraced.sources.file import file_source
from xtraced.sources.sim.client import SimSource

SETTINGS = {"store.keep_free": "0", "collect.flush_interval": "50ms"}


@pytest.fixture
def logs():
    with structlog.testing.capture_logs() as entries:
        yield entries


def opened(path: Path) -> SimSource:
    source = file_source(path, pages=32)
    source.open()
    source.set_masks(Masks(0x0FFFF000, None))
    source.enable()
    return source


def replay(path: Path) -> None:
    source = opened(path)
    Taker(source).drain_until_finished()
    source.close()


def warnings(logs: list) -> list[dict]:
    return [entry for entry in logs if entry["log_level"] == "warning"]


def test_a_cut_capture_is_replayed_with_a_warning(tmp_path):
    """With the place and the reason that every other reader of that file gives."""
    cut = tmp_path / "cut.trace"
    cut.write_bytes(captures.capture(captures.NAMES[0])[:100_000])
    with closing(reading.open(cut)) as reader:
        for _ in reader.chunks():
            pass
        (problem,) = reader.problems
    with ServiceProcess(
        tmp_path / "store", tmp_path / "s", source=f"file:{cut}", settings=SETTINGS
    ) as service:
        assert service.wait() == 0
        (said,) = service.events("replay_damaged")
    assert said["level"] == "warning"
    assert (said["file"], said["offset"], said["reason"], said["problems"]) == (
        str(cut), problem.offset, problem.reason, 1
    )


def test_a_whole_capture_is_replayed_without_a_word(tmp_path, logs):
    replay(captures.write(captures.NAMES[0], tmp_path))
    assert logs == []


def test_a_damaged_segment_and_what_it_says_was_lost(tmp_path, logs):
    """Losses by cause, the uncountable as such; damage beyond the first five as a number."""
    builder = SegmentBuilder()
    for n in range(14):
        builder.block(n % 2, make_records(20, first_tsc=1000 + 10_000 * n))
    builder.losses(
        Loss(Cause.WRITE_FAILED, CpuId(0), 30), Loss(Cause.WRITE_FAILED, CpuId(1), 12),
        Loss(Cause.CRASH, CpuId(0), 5), Loss(Cause.CRASH, CpuId(1), None),
    )
    builder.seal()
    path = builder.write(tmp_path)
    data = bytearray(path.read_bytes())
    for place in damage(path)[:12:2]:
        data[place] ^= 1
    path.write_bytes(data)
    replay(path)
    damaged = [entry for entry in warnings(logs) if entry["event"] == "replay_damaged"]
    assert [entry["problems"] for entry in damaged] == [6] * 5
    lost = [entry for entry in warnings(logs) if entry["event"] == "replay_lost_before"]
    assert {entry["cause"]: entry["records"] for entry in lost} == {
        "write_failed": 42, "crash": None
    }


def damage(path: Path) -> list[int]:
    """Where the payloads of a segment's chunks begin."""
    with closing(reading.open(path)) as reader:
        return [chunk.offset for chunk in reader.chunks()]


def test_a_replay_that_is_broken_off_tells_what_it_has_met(tmp_path, logs):
    cut = tmp_path / "cut.trace"
    cut.write_bytes(captures.capture(captures.NAMES[0])[:100_000])
    opened(cut).close()
    (said,) = warnings(logs)
    assert said["event"] == "replay_damaged"
