"""When segments end, and which of them stay."""

from __future__ import annotations

import pytest

from tests.support.rig import Rig
from tracelib.losses import Cause
from tracelib.records import iter_records
from tracelib.store import names
from tracelib.store.recover import Outcome
from tracelib.store.segment import SegmentReader
from xtraced.cli import Exit

MIB = 1 << 20


@pytest.fixture
def rig(tmp_path):
    with Rig(tmp_path) as rig:
        yield rig


def reasons(rig: Rig) -> list[str]:
    found = []
    for path in rig.segments():
        with SegmentReader(path) as segment:
            found.append(segment.seal.reason)
    return found


@pytest.mark.slow
def test_size(rig):
    """R55: 100 MiB of data at 32 MiB a segment: 3 full and 1 part; the open segment counts
    for no more than its limit at any time."""
    rig.boot(rate=40_000_000, cpus=2, deterministic=True, limit=5_400_000)
    # Rings that hold it all, so that nothing is lost on however busy a machine.
    service = rig.start({"segment.max_bytes": "32M", "source.pages": "16384"})
    assert service.wait() == 0
    account = rig.balance()
    assert account.lost.total() == 0
    sizes = [path.stat().st_size for path in rig.segments()]
    assert 98 * MIB < sum(sizes) < 110 * MIB
    assert len(sizes) == 4
    # Full: not one more staging buffer of 1 MiB would have been sure to fit.
    assert all(30 * MIB < size <= 32 * MIB for size in sizes[:3])
    assert sizes[3] < 32 * MIB
    assert reasons(rig) == ["size", "size", "size", "stop"]


def test_a_rotation_with_nothing_new_is_none(rig):
    """R55: by command: the first seals, the second finds nothing to seal."""
    rig.boot(rate=0)
    service = rig.start()
    assert service.ask("rotate")["sealed"] is None
    assert service.ask("rotate")["sealed"] is None
    assert service.stop() == 0
    assert len(rig.segments()) == 1


@pytest.mark.parametrize(
    "setting", [{"segment.max_bytes": "4K"}, {"segment.max_bytes": "0"}, {"store.max_bytes": "1"}]
)
def test_nonsense_is_refused(rig, setting):
    """R55: smaller than a block, or nothing at all."""
    service = rig.spawn(setting)
    assert service.wait() == Exit.USAGE
    assert next(iter(setting)) in service.log()
    assert not rig.store.exists()


@pytest.mark.slow
def test_slow_traffic_across_rotations(rig):
    """R56: rotated every second, never drained between: each record in exactly one segment,
    and within the time that the segment covers."""
    rig.boot(rate=10_000, cpus=2)
    # The simulated CPUs may be ahead of the clock by what some records are worth.
    slack = rig.hypervisor.truth()["tsc_hz"] // 10
    service = rig.start({"segment.max_age": "1s", "collect.flush_interval": "1h"})
    service.wait_log("segment_sealed", 8)
    assert service.stop() == 0
    rig.balance()
    assert set(reasons(rig)[:-1]) == {"age"}
    held = 0
    for path in rig.segments():
        with SegmentReader(path) as segment:
            opened, closed = segment.anchors()[0].tsc, segment.anchors()[-1].tsc
            times = [
                record.tsc for chunk in segment.chunks() if not chunk.before_start
                for record in iter_records(chunk.payload) if record.tsc
            ]
            assert all(opened - slack <= tsc <= closed + slack for tsc in times)
            held += bool(times)
    assert held >= 8


def test_a_silent_host(rig):
    """R41: header-only: a segment without records is a whole one; what a killed service
    left of such is no segment, and goes."""
    rig.boot(rate=0)
    service = rig.start()
    assert service.stop() == 0
    (path,) = rig.segments()
    with SegmentReader(path) as segment:
        assert list(segment.chunks()) == []
        assert segment.seal.reason == "stop"
    service.restart()
    service.kill()
    service.restart()
    (line,) = service.events("segment_recovered")
    assert line["outcome"] == Outcome.REMOVED
    assert service.stop() == 0
    assert rig.balance().events.total() == 0


def test_an_empty_file_does_not_stop_a_start(rig):
    """R41: zero bytes under a segment's name."""
    rig.store.mkdir()
    name = names.new_name(7, 1_796_076_000 * 10**9).text
    (rig.store / name).touch()
    service = rig.start()
    assert service.events("segment_recovered")[0]["outcome"] == Outcome.REMOVED
    assert service.stop() == 0
    rig.balance()


def test_retention_keeps_to_the_limit_and_counts_what_goes(rig):
    """R37, R40: max_bytes with the open segment in it; oldest first, each logged."""
    rig.boot(rate=4_000_000)
    service = rig.start(
        {"segment.max_bytes": "1M", "store.max_bytes": "4M", "writer.buffer_bytes": "64K"}
    )
    status = service.wait_status(lambda status: status["store"]["deleted_segments"] >= 4)
    assert status["store"]["bytes"] <= 4 * MIB
    assert status["store"]["acting"] == "max_bytes"
    assert Cause.RETENTION not in status["lost"], "on purpose, so it is no loss"
    assert status["store"]["deleted_records"] > 0
    assert service.stop() == 0
    deleted = service.events("segment_deleted")
    first = names.parse_name(rig.segments()[0].name).sequence
    assert first == 1 + len(deleted)
    assert all(line["records"] and line["last_time"] for line in deleted)
    assert sum(path.stat().st_size for path in rig.segments()) <= 4 * MIB
    rig.verify()
