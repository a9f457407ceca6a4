"""Losses on a running service: each cause by itself, with its count, exactly."""

from __future__ import annotations

import errno
import signal

import pytest

from tests.support.account import stored, truths
from tests.support.rig import Rig, memory
from tracelib.losses import Cause
from xtraced import logs
from xtraced.cli import Exit
from xtraced.sources.sim.abi import Fault

SMALL_BUFFERS = {"writer.buffers": "8", "writer.buffer_bytes": "64K"}
MB = 1_000_000


@pytest.fixture
def rig(tmp_path):
    with Rig(tmp_path) as rig:
        yield rig


def dropped(rig: Rig) -> int:
    return truths(rig.hypervisor.truth(), "dropped").total()


def test_ring_full(rig):
    """R37: the service did not get to run for a while."""
    rig.boot(rate=20 * MB, tbuf_pages=4)
    service = rig.start({"writer.buffer_bytes": "16M"})
    service.wait_status(lambda status: status["records"])
    before = service.status()["lost"]
    service.process.send_signal(signal.SIGSTOP)
    more = dropped(rig) + 10_000
    while dropped(rig) < more:
        pass
    service.process.send_signal(signal.SIGCONT)
    status = service.wait_status(
        lambda status: status["lost"].get(Cause.RING_FULL, 0)
        > before.get(Cause.RING_FULL, 0) + 9_000
    )
    assert set(status["lost"]) == {Cause.RING_FULL}
    assert status["lost_unknown"] == []
    assert service.stop() == 0
    rig.balance()


def test_queue_full(rig):
    """R37: every staging buffer waits for the disk."""
    disk = rig.disk
    rig.boot(rate=4 * MB)
    service = rig.start(SMALL_BUFFERS)
    service.wait_status(lambda status: status["records"])
    disk.freeze()
    service.wait_log("collection_stalled")
    more = dropped(rig) + 10_000
    while dropped(rig) < more:
        pass
    disk.thaw()
    status = service.wait_status(lambda status: status["lost"].get(Cause.QUEUE_FULL, 0) > 9_000)
    assert set(status["lost"]) == {Cause.QUEUE_FULL}
    assert status["pool"]["stalled"] > 0
    assert service.stop() == 0
    rig.balance()


def test_write_failed(rig):
    """R37, R10: EIO for every write, then none: exactly what was drained and not stored."""
    rig.boot(rate=4 * MB, cpus=2)
    disk = rig.disk
    service = rig.start({**SMALL_BUFFERS, "writer.retry": "100ms"})
    service.wait_status(lambda status: status["records"])
    disk.refuse(errno.EIO)
    status = service.wait_status(
        lambda status: status["lost"].get(Cause.WRITE_FAILED, 0) > 10_000
    )
    assert status["state"] == "degraded"
    assert "EIO" in status["writer"]["last_error"]
    assert status["writer"]["failed_records"] == status["lost"][Cause.WRITE_FAILED]
    disk.refuse(0)
    status = service.wait_status(lambda status: status["healthy"])
    failed = status["lost"][Cause.WRITE_FAILED]
    assert service.stop() == Exit.FAILED
    # The disk took no seal either. The next start writes it.
    assert len(rig.open_segments()) == 1
    again = rig.start()
    assert again.stop() == 0
    assert rig.open_segments() == []
    account = rig.balance()
    assert account.stated_records(Cause.WRITE_FAILED) == failed
    (said,) = service.events("records_not_stored")
    assert said["records"] == failed


def test_ring_corrupt(rig):
    """R37: nobody can know how many, so it is no number."""
    rig.boot(rate=2 * MB)
    service = rig.start()
    rig.hypervisor.inject(Fault.BOGUS_PROD, 1)
    status = service.wait_status(lambda status: status["lost_unknown"])
    assert status["lost_unknown"] == [Cause.RING_CORRUPT]
    assert status["lost"] == {}
    assert [cpu["cpu"] for cpu in status["cpus"] if cpu["lost_unknown"]] == [1]
    assert service.stop() == 0
    (loss,) = stored(rig.store).stated
    assert (loss.cause, loss.cpu, loss.records) == (Cause.RING_CORRUPT, 1, None)


@pytest.mark.slow
@pytest.mark.parametrize("speed", [1 * MB, 10 * MB, 50 * MB])
def test_a_disk_slower_than_the_rings(rig, speed):
    """R72: 40 MB/s against a disk of 1, 10, 50 MB/s: memory bounded, losses exactly what the
    generator made and the store has not, the time of it shown, recovery without restart."""
    disk = rig.disk
    rig.boot(rate=40 * MB)
    service = rig.start({"writer.buffer_bytes": "256K"})
    service.wait_status(lambda status: status["writer"]["writes"] > 8)
    disk.limit(speed)
    peak = 0
    produced = truths(rig.hypervisor.truth(), "produced").total()
    while truths(rig.hypervisor.truth(), "produced").total() < produced + 8 * MB:
        peak = max(peak, memory(service.pid))
        status = service.status()
        assert status["pool"]["free"] <= status["pool"]["buffers"] == 8
    if speed < 40 * MB:
        status = service.wait_status(lambda status: status["lost"].get(Cause.QUEUE_FULL))
        assert status["pool"]["stalled"] > 0
        assert status["state"] == "degraded"
        assert any("slower than the rings" in reason for reason in status["reasons"])
    assert peak < 60 << 20
    disk.limit(0)
    service.wait_status(
        lambda status: status["healthy"] and status["pool"]["free"] > 4
        and status["pool"]["stalled_since"] is None
    )
    more = service.status()["records"] + MB
    written = service.wait_status(lambda status: status["records"] > more)["writer"]["writes"]
    assert service.stop() == 0
    account = rig.balance()
    generated = truths(rig.hypervisor.truth(), "produced").total()
    unknown = truths(rig.hypervisor.truth(), "forgotten").total()
    assert generated == account.events.total() + account.lost.total() + unknown
    stalls, ends = service.events("collection_stalled"), service.events("collection_resumed")
    assert len(stalls) == min(len(ends), logs.BURST)
    # A disk of 50 MB/s and a busy machine may cross the line to and fro by themselves.
    most = 4 if speed < 40 * MB else written // 8
    assert len(ends) <= most, "one line for each change, not for each buffer"
