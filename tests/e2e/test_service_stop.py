"""How the service stops: nothing that was drained is left behind, and what is, is said."""

from __future__ import annotations

import signal

import pytest

from tests.support.account import stored, truths
from tests.support.rig import Rig
from tracelib.losses import Cause
from tracelib.store.segment import SegmentReader

SMALL_BUFFERS = {"writer.buffers": "8", "writer.buffer_bytes": "64K"}


@pytest.fixture
def rig(tmp_path):
    with Rig(tmp_path) as rig:
        yield rig


def reason(rig: Rig) -> str:
    with SegmentReader(rig.segments()[-1]) as segment:
        return segment.seal.reason


def queued(count: int):
    """A status with so many buffers handed over and none of them written."""
    return lambda status: status["writer"]["queued"] >= count and status["writer"]["busy_since"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_tracing_drains_every_ring_and_seals(rig, number):
    """R05: four CPUs busy; after the stop nothing that Xen had traced is missing."""
    rig.boot(rate=4_000_000, cpus=4)
    service = rig.start()
    service.wait_status(lambda status: all(cpu["records"] for cpu in status["cpus"]))
    assert service.stop(number) == 0
    assert rig.hypervisor.info().enabled is False
    account = rig.balance()
    assert set(account.events) == {0, 1, 2, 3}
    assert reason(rig) == "stop"
    assert rig.open_segments() == []
    assert not rig.directory.joinpath("control.sock").exists()


def test_hangup_does_not_stop_it(rig):
    """R05: SIGHUP asks for the configuration to be read again."""
    service = rig.start()
    service.process.send_signal(signal.SIGHUP)
    service.wait_log("reloaded")
    assert service.status()["state"] == "collecting"
    assert service.stop() == 0
    rig.balance()


def test_a_stop_over_the_socket_is_the_same(rig):
    """R05."""
    service = rig.start()
    service.wait_status(lambda status: status["records"])
    service.ask("stop")
    assert service.wait() == 0
    rig.balance()
    assert reason(rig) == "stop"


def test_a_user_signal_rotates(rig):
    service = rig.start()
    service.wait_status(lambda status: status["records"])
    service.process.send_signal(signal.SIGUSR1)
    sealed, = service.wait_log("segment_sealed")
    assert sealed["reason"] == "signal"
    assert service.stop() == 0
    rig.balance()


def test_buffers_queued_at_the_stop_are_written(rig):
    """R06: one write in flight and at least three blocks behind it when SIGTERM comes."""
    disk = rig.disk
    rig.boot(rate=4_000_000)
    service = rig.start(SMALL_BUFFERS)
    disk.freeze()
    service.wait_status(queued(4))
    assert disk.held == 1
    service.process.send_signal(signal.SIGTERM)
    service.wait_log("stopping")
    assert disk.held == 1
    disk.thaw()
    assert service.wait() == 0
    rig.balance()
    assert service.events("records_not_stored") == []


def test_a_stop_that_takes_too_long_says_what_is_not_stored(rig):
    """R06: the limit hits; records drained and not stored are counted, the exit code is not
    0, and what is still in the rings waits for the next start."""
    disk = rig.disk
    rig.boot(rate=4_000_000)
    service = rig.start({**SMALL_BUFFERS, "service.stop_timeout": "1s"})
    service.wait_status(lambda status: status["writer"]["bytes"] > 1 << 18)
    disk.freeze()
    service.wait_status(queued(4))
    assert service.stop() == 1
    (said,) = service.events("records_not_stored")
    assert said["reason"] == "time is up"
    disk.thaw()
    service.restart()
    assert service.wait_log("segment_recovered")[0]["outcome"] == "sealed"
    assert service.stop() == 0
    account, truth = stored(rig.store), rig.hypervisor.truth()
    assert truths(truth, "inserted").total() == account.events.total() + said["records"]
    assert Cause.CRASH in {loss.cause for loss in account.stated}
    rig.verify()


def test_a_second_signal_does_not_wait_for_the_disk(rig):
    """R06: whoever asks twice means it."""
    disk = rig.disk
    rig.boot(rate=4_000_000)
    service = rig.start({**SMALL_BUFFERS, "service.stop_timeout": "1h"})
    disk.freeze()
    service.wait_status(queued(4))
    service.process.send_signal(signal.SIGTERM)
    service.wait_log("stopping")
    assert service.stop() == 1
    assert service.events("records_not_stored")[0]["records"] > 0


def test_rings_full_at_the_stop_hide_losses_and_a_new_start_has_none(rig):
    """R14: Xen forgets its count when tracing is switched off: "unknown", never 0. The next
    start, with nothing going on any more, has lost nothing."""
    disk = rig.disk
    # Records for four seconds of tracing, then none for an hour.
    rig.boot(rate=8_000_000, tbuf_pages=4, burst=(4 * 10**9, 3600 * 10**9))
    service = rig.start(SMALL_BUFFERS)
    disk.freeze()
    service.wait_status(
        lambda status: all(cpu["fill"] > cpu["ring_bytes"] - 100 for cpu in status["cpus"])
    )
    service.process.send_signal(signal.SIGTERM)
    service.wait_log("stopping")
    disk.thaw()
    assert service.wait() == 0
    account = rig.balance()
    forgotten = +truths(rig.hypervisor.truth(), "forgotten")
    assert forgotten, "the rings were not full"
    unknown = {loss.cpu: loss for loss in account.stated if loss.cause == Cause.TAIL_UNKNOWN}
    assert set(unknown) >= set(forgotten)
    assert all(loss.records is None for loss in unknown.values())
    assert {line["cpu"] for line in service.events("tail_unknown")} == set(unknown)

    service.restart()
    status = service.status()
    assert status["lost"] == {}
    assert status["lost_unknown"] == []
