"""The service with the xen source, and Debian's xentrace, on stand-ins for Xen's libraries
(tests/support/fakexen) over the simulated hypervisor."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
from pathlib import Path

import pytest

from tests.support import fakexen
from tests.support.account import stored
from tests.support.fakexen import XENTRACE, failing, is_bound
from tests.support.rig import Manager, Rig
from tests.support.service import PATIENCE, ServiceProcess
from tracelib.losses import Cause
from tracelib.store.segment import SegmentReader
from xtraced.cli import Exit
from xtraced.sources.sim.abi import Fault, Op

with_xentrace = pytest.mark.skipif(not XENTRACE.exists(), reason="needs xen-utils-4.17")


class Dom0(Rig):
    """A rig whose programs take the simulated hypervisor for Xen."""

    def environ(self, *, preload: bool = False, **behaviour: str) -> dict[str, str]:
        socket = self.hypervisor.socket
        return fakexen.environ(fakexen.built(), socket, preload=preload, **behaviour)

    def spawn_on_xen(
        self, settings: dict[str, str] | None = None, *, environ: dict[str, str] | None = None,
        **more,
    ) -> ServiceProcess:
        return self.spawn(settings, source="xen", environ=environ or self.environ(), **more)

    def start_on_xen(self, settings: dict[str, str] | None = None, **more) -> ServiceProcess:
        return self.spawn_on_xen(settings, **more).wait_ready()

    def xentrace(self, *options: str) -> subprocess.CompletedProcess[str]:
        command = [str(XENTRACE), *options, str(self.directory / "x.trace")]
        return subprocess.run(
            command, env={**os.environ, **self.environ()}, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip


@pytest.fixture
def dom0(tmp_path):
    with Dom0(tmp_path) as dom0:
        yield dom0


def complaint(service: ServiceProcess) -> list[str]:
    """What it wrote after its log, which is JSON."""
    return [line for line in service.log().splitlines() if not line.startswith("{")]


def metadata(dom0: Dom0):
    with SegmentReader(dom0.segments()[-1]) as segment:
        return segment.metadata


def test_from_start_to_stop_every_record_is_accounted_for(dom0):
    """READY, records by events, tracing off at the stop, and Xen described in the segment."""
    dom0.boot(rate=20_000_000, cpus=4, offline=frozenset({2}))
    service = dom0.start_on_xen()
    status = service.wait_status(
        lambda status: status["wakes"]["event"] > 5 and all(
            cpu["records"] for cpu in status["cpus"] if cpu["cpu"] != 2
        )
    )  # fmt: skip
    assert status["source"]["name"] == "xen"
    assert [cpu["trouble"] for cpu in status["cpus"]] == [None, None, "no buffer", None]
    assert service.stop() == Exit.FINE
    assert dom0.hypervisor.info().enabled is False
    assert set(dom0.balance().events) == {0, 1, 3}
    found = metadata(dom0)
    assert (found.hypervisor, found.hypervisor_version) == ("xen", "4.19-sim")
    assert found.hypervisor_changeset == "git:fakexen"
    assert (found.tsc_hz, found.tsc_source) == (2_400_000_000, "physinfo")
    assert (found.cpus, found.ring_cpus) == (4, (0, 1, 3))


# Refusals

TO_OPEN = (
    "xenevtchn_open", "bind_virq", "xencall_open", "physinfo", "xen_version", "get_info",
    "set_size", "xenforeignmemory_open", "map",
)  # fmt: skip
TO_START = ("set_evt_mask", "set_cpu_mask", "enable")
NUMBERS = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EINVAL)


@pytest.mark.parametrize("call", TO_OPEN + TO_START)
def test_each_call_refused_in_turn(dom0, call):
    """R67: one line that names call and errno, never READY, exit code 3; nothing left bound,
    mapped or tracing."""
    number = NUMBERS[(TO_OPEN + TO_START).index(call) % len(NUMBERS)]
    dom0.boot(rate=2_000_000)
    with Manager(str(dom0.directory / "notify")) as manager:
        environ = dom0.environ(fail=failing(**{call: number})) | manager.environ
        service = dom0.spawn_on_xen(environ=environ)
        assert service.wait() == Exit.SOURCE_REFUSED
        assert "READY=1" not in manager.heard()
    (line, *hint) = complaint(service)
    assert call in line
    assert f"({errno.errorcode[number]})" in line
    assert len(hint) <= 1
    assert not is_bound(dom0.hypervisor)
    assert dom0.hypervisor.info().enabled is False


def test_mapping_refused_for_one_cpu_only(dom0):
    """R67: CPU 3's ring; t_info is mapped first."""
    dom0.boot(rate=0, cpus=4)
    service = dom0.spawn_on_xen(environ=dom0.environ(fail=failing(map_5=errno.EACCES)))
    assert service.wait() == Exit.SOURCE_REFUSED
    assert "xenforeignmemory_map of CPU 3's ring" in complaint(service)[0]
    assert not is_bound(dom0.hypervisor)


@pytest.mark.skipif(Path("/dev/xen").exists(), reason="this is Xen")
def test_not_on_xen_at_all(dom0):
    """With the real libraries, if there are any: they print nothing of their own."""
    service = dom0.spawn_on_xen(environ={"FAKEXEN_SOCKET": ""})
    assert service.wait() == Exit.SOURCE_REFUSED
    error, hint = complaint(service)
    assert "xenevtchn_open" in error or "cannot load libxen" in error
    assert "try --source sim" in hint


# Two consumers


def test_a_second_service_on_the_same_xen(dom0):
    """R29: its own store is free, VIRQ_TBUF is not; the first goes on undisturbed."""
    first = dom0.start_on_xen({"collect.events": "sched", "collect.cpus": "0-1"})
    before = dom0.hypervisor.info()
    second = dom0.spawn_on_xen(name="second", store=dom0.directory / "other")
    assert second.wait() == Exit.LOCKED
    assert "VIRQ_TBUF is bound already" in complaint(second)[0]
    assert dom0.hypervisor.info() == before
    records = first.status()["records"]
    first.wait_status(lambda status: status["records"] > records)
    assert first.stop() == Exit.FINE
    dom0.balance()


@with_xentrace
def test_xentrace_beside_the_service_is_refused(dom0):
    """R29: by the same binding, that of a real xentrace."""
    service = dom0.start_on_xen()
    beside = dom0.xentrace("-T", "1")
    assert beside.returncode != 0
    assert "failed to bind to VIRQ port (17 = File exists)" in beside.stderr
    assert service.stop() == Exit.FINE
    dom0.balance()


@with_xentrace
def test_the_service_after_a_xentrace(dom0):
    """R24, R30, R66: its rings are taken as they are, with what it left in them; its masks
    are not."""
    dom0.boot(rate=2_000_000)
    left = dom0.xentrace("-x", "-e", "0x2f000", "-c", "0x1", "-S", "16", "-T", "1")
    assert left.returncode == 0
    info = dom0.hypervisor.info()
    assert (info.evt_mask, info.cpus, info.enabled) == (0x2F000, {0}, True)
    service = dom0.start_on_xen({"source.pages": "64"})
    status = service.wait_status(lambda status: all(cpu["records"] for cpu in status["cpus"]))
    assert (status["source"]["ring_pages_wanted"], status["source"]["ring_pages"]) == (64, 16)
    assert status["masks"]["events"] == 0x0FFFF000
    assert dom0.hypervisor.info().cpus == {0, 1, 2, 3}
    assert service.stop() == Exit.FINE
    assert set(stored(dom0.store).before_start) >= {0}
    dom0.verify()


def test_a_foreign_consumer_is_reported(dom0):
    """R29: somebody moves `cons` of a mapped ring."""
    dom0.boot(rate=500_000, cpus=1)
    service = dom0.start_on_xen({"source.pages": "4"})
    service.wait_status(lambda status: status["records"])
    (memfd,) = dom0.hypervisor.ask(Op.MAP).fds
    with mmap.mmap(memfd, 0) as memory:
        ring = memoryview(memory)[2 * 4096 :].cast("I")
        while not service.events("foreign_consumer"):
            ring[0] = ring[1]
        ring.release()
    os.close(memfd)
    assert service.status()["lost_unknown"] == [Cause.RING_CORRUPT]
    assert service.stop() == Exit.FINE


# What a service leaves


def test_a_killed_service_is_succeeded(dom0):
    """R66: tracing stays on, the rings stay; the next one sets both masks and takes all."""
    dom0.boot(rate=2_000_000)
    service = dom0.start_on_xen({"collect.events": "sched", "collect.cpus": "0"})
    service.wait_status(lambda status: status["records"])
    service.kill()
    assert dom0.hypervisor.info().enabled is True
    second = dom0.start_on_xen(name="second")
    status = second.wait_status(lambda status: all(cpu["records"] for cpu in status["cpus"]))
    assert status["masks"]["events"] == 0x0FFFF000
    assert dom0.hypervisor.info().cpus == {0, 1, 2, 3}
    assert second.stop() == Exit.FINE
    assert dom0.hypervisor.info().enabled is False
    dom0.verify()


# Events


def test_events_that_never_come(dom0):
    """R28: the timer carries on, and status says so."""
    machine = dom0.boot(rate=20_000_000)
    machine.inject(Fault.NO_NOTIFY)
    service = dom0.start_on_xen({"source.pages": "8"})
    status = service.wait_status(lambda status: status["state"] == "degraded")
    assert any("0 events while rings crossed half" in reason for reason in status["reasons"])
    records = status["records"]
    service.wait_status(lambda status: status["records"] > records)
    assert service.stop() == Exit.FINE
    dom0.balance()


def test_an_overflowing_event_queue_is_reset(dom0):
    """R28: EFBIG, which lasts until the reset, and a channel left masked by it."""
    dom0.boot(rate=20_000_000)
    service = dom0.start_on_xen(
        {"source.pages": "8"}, environ=dom0.environ(preload=True, overflow="3")
    )
    service.wait_status(lambda status: status["wakes"]["event"] > 20)
    assert service.stop() == Exit.FINE
    dom0.balance()


def test_an_event_queue_that_cannot_be_reset(dom0):
    """Without the driver behind the descriptor, the reset is refused: an error, not a loop. It
    is one of a service that ran, so systemd may start it again; what it took is stored."""
    dom0.boot(rate=20_000_000)
    service = dom0.spawn_on_xen(environ=dom0.environ(overflow="3"))
    assert service.wait() == Exit.FAILED
    assert "ioctl(IOCTL_EVTCHN_RESET)" in service.log()
    assert "segment_sealed" in service.log()
    assert dom0.hypervisor.info().enabled is False
