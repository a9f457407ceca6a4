"""Faults from the side: the account is exact after each, by the ledger over all runs."""

from __future__ import annotations

import resource
import signal
import subprocess

import pytest

from tests.support.account import truths
from tests.support.rig import Rig
from tests.support.service import ServiceProcess
from tracelib.store.ledger import NAME, Ledger
from tracelib.units import Nanoseconds


@pytest.fixture
def rig(tmp_path):
    with Rig(tmp_path) as rig:
        rig.boot(rate=4_000_000, cpus=2)
        yield rig


def last_for(service: ServiceProcess, seconds: float) -> None:
    """How long a fault lasts; the service's end would be news."""
    with pytest.raises(subprocess.TimeoutExpired):
        service.process.wait(seconds)


def finish(rig: Rig, service: ServiceProcess) -> int:
    """Stop; produced = stored + lost. The exit code."""
    service.ask("pause")
    code = service.stop()
    ledger, _ = Ledger.load(rig.store, Nanoseconds(0))
    truth = rig.hypervisor.truth()
    kept = ledger.sums.records.total() - ledger.sums.marks.total()
    lost = sum(ledger.sums.lost_by_cause().values())
    forgotten = truths(truth, "forgotten").total()
    assert truths(truth, "produced").total() == kept + lost + forgotten
    rig.verify()
    assert "Traceback" not in service.log()
    return code


@pytest.mark.slow
def test_stopped_for_a_while(rig):
    """SIGSTOP, as a suspended machine or a debugger does: the rings overflow, Xen counts."""
    service = rig.start()
    service.wait_status(lambda status: status["records"] > 100_000)
    service.process.send_signal(signal.SIGSTOP)
    last_for(service, 3)
    service.process.send_signal(signal.SIGCONT)
    status = service.wait_status(lambda status: status["records"] > 300_000)
    assert status["healthy"]
    assert set(status["lost"]) == {"ring_full"}
    assert finish(rig, service) == 0


@pytest.mark.slow
def test_no_descriptors_left(rig):
    """No segment can be opened, no directory synced: degraded; by itself well again."""
    service = rig.start({"segment.max_bytes": "2M", "writer.buffer_bytes": "256K"})
    service.wait_status(lambda status: status["records"] > 100_000)
    resource.prlimit(service.pid, resource.RLIMIT_NOFILE, (6, 1024))
    last_for(service, 3)
    resource.prlimit(service.pid, resource.RLIMIT_NOFILE, (1024, 1024))
    status = service.wait_status(lambda status: status["healthy"])
    assert "EMFILE" in status["writer"]["last_error"]
    assert len(service.events("store_failing")) == len(service.events("store_recovered"))
    assert finish(rig, service) == 1, "some records could not be stored, which it says"


def test_something_else_has_the_ledger_s_name(rig):
    """R59: one line of log, and no failed start."""
    service = rig.start()
    service.wait_status(lambda status: status["records"] > 50_000)
    (rig.store / NAME).unlink()
    (rig.store / NAME).mkdir()
    service.ask("rotate")
    service.wait_status(lambda status: status["store"]["open_bytes"] > 100_000)
    service.ask("rotate")
    assert len(service.events("ledger_not_saved")) == 1
    service.kill()
    service.restart()
    (rebuilt,) = service.events("ledger_rebuilt")
    assert "Is a directory" in rebuilt["reason"]
    assert finish(rig, service) == 0
