"""How the service starts: what it takes over, what it refuses, and who gets to know."""

from __future__ import annotations

import os
import signal
import socket
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import disks
from tests.support.account import stored, truths
from tests.support.rig import Manager, Rig, descriptors
from tracelib.losses import Cause
from tracelib.records import LOST_RECORDS, iter_records, parse_lost
from tracelib.ring.layout import CONS_WORD, PROD_WORD
from tracelib.store.segment import SegmentReader
from xtraced.cli import Exit
from xtraced.sources.sim import abi

TINY_RINGS = {"tbuf_pages": 4, "rate": 2_000_000}


@pytest.fixture
def rig(tmp_path):
    with Rig(tmp_path) as rig:
        yield rig


def busy(status) -> bool:
    return all(cpu["records"] for cpu in status["cpus"] if cpu["ring_bytes"])


# R22, R24: rings as they are


def test_offline_cpus_keep_their_numbers(rig):
    """R22: highest CPU 7, the odd ones offline: four rings, numbers as they are."""
    rig.boot(rate=4_000_000, cpus=8, offline=frozenset({1, 3, 5, 7}))
    service = rig.start()
    status = service.wait_status(busy)
    troubles = {cpu["cpu"]: cpu["trouble"] for cpu in status["cpus"]}
    assert troubles == {cpu: "no buffer" if cpu % 2 else None for cpu in range(8)}
    assert service.stop() == 0
    account = rig.balance()
    assert set(+account.events) == {0, 2, 4, 6}
    with SegmentReader(rig.segments()[0]) as segment:
        assert segment.metadata.ring_cpus == (0, 2, 4, 6)
        assert segment.metadata.cpus == 8


@pytest.mark.parametrize("wanted", [1024, 32])
def test_rings_that_exist_keep_their_size(rig, wanted):
    """R24: 32 pages since boot; another size or the same is wanted: it starts, and says
    both."""
    rig.boot(rate=2_000_000, tbuf_pages=32)
    service = rig.start({"source.pages": str(wanted)})
    (said,) = service.events("collecting")
    assert (said["ring_pages_wanted"], said["ring_pages"]) == (wanted, 32)
    source = service.status()["source"]
    assert (source["ring_pages_wanted"], source["ring_pages"]) == (wanted, 32)
    assert service.stop() == 0
    rig.balance()


def test_rings_that_cannot_be_allocated(rig, tmp_path):
    """R24: no buffers, and the hypervisor refuses: no READY, a clear text, a code for it."""
    disks.need("prlimit")
    rig.boot(rate=2_000_000, limits=("prlimit", "--fsize=1048576"))
    with Manager(str(tmp_path / "notify")) as manager:
        service = rig.spawn({"source.pages": "1024"}, environ=manager.environ)
        assert service.wait() == Exit.SOURCE_REFUSED
        assert manager.heard() == []
    assert "set_size: Cannot allocate memory" in service.log()
    assert rig.segments() == rig.open_segments() == []
    # What it had bound and mapped is free again.
    again = rig.start({"source.pages": "16"}, name="again")
    assert again.stop() == 0


# R29: one service


def snapshot(directory: Path) -> dict[str, tuple[int, int]]:
    return {
        entry.name: (entry.stat().st_ino, entry.stat().st_mode) for entry in os.scandir(directory)
    }


def test_a_second_service_on_the_store(rig):
    """R29: it exits at once, non-zero, names the pid, touches nothing."""
    first = rig.start()
    before = snapshot(rig.store)
    second = rig.spawn(name="second")
    assert second.wait() == Exit.LOCKED
    assert f"process {first.pid}" in second.log()
    assert snapshot(rig.store) == before
    assert first.status()["state"] == "collecting"
    assert first.stop() == 0
    rig.balance()


def test_a_second_service_on_the_hypervisor(rig, tmp_path):
    """R29: another store, the same rings: refused before it changes a mask or an index."""
    first = rig.start({"collect.events": "sched"})
    first.wait_status(busy)
    before = rig.hypervisor.info()
    other = rig.spawn(name="second", store=tmp_path / "other")
    assert other.wait() == Exit.LOCKED
    assert "VIRQ_TBUF" in other.log()
    assert rig.hypervisor.info() == before
    assert list((tmp_path / "other").glob("*.xtr*")) == []
    assert first.stop() == 0
    rig.balance()


def test_a_second_service_on_the_socket(rig, tmp_path):
    """R29: it leaves the socket to whoever answers on it."""
    first = rig.start()
    other = rig.spawn(store=tmp_path / "other")
    assert other.wait() != 0
    assert first.status()["pid"] == first.pid
    assert first.stop() == 0


def test_children_do_not_hold_the_lock(tmp_path):
    """R29: a helper process that outlives a killed service is no obstacle to the next."""
    with Rig(tmp_path) as rig:
        service = rig.start({"sim.socket": ""})
        (child,) = map(int, Path(f"/proc/{service.pid}/task/{service.pid}/children")
                       .read_text().split())
        assert any(name.endswith(".lock") for name in descriptors(service.pid))
        assert not any(str(rig.store) in name for name in descriptors(child))
        os.kill(child, signal.SIGSTOP)  # It cannot notice that the service is gone.
        service.kill()
        try:
            service.restart()
            assert service.stop() == 0
        finally:
            os.kill(child, signal.SIGKILL)


def test_somebody_else_takes_records(rig):
    """R29: an xentrace that moves a consumer index is noticed, logged and counted."""
    rig.boot(rate=2_000_000, cpus=2)
    service = rig.start({"collect.flush_interval": "1h"})
    service.wait_status(busy)
    service.ask("flush")
    ring = rig.hypervisor.ring(1)
    while ring[CONS_WORD] == ring[PROD_WORD]:
        assert service.process.poll() is None
    ring[CONS_WORD] = ring[PROD_WORD]
    while ring[CONS_WORD] == ring[PROD_WORD]:
        assert service.process.poll() is None
    service.ask("flush")
    (line,) = service.wait_log("foreign_consumer")
    assert line["cpu"] == 1
    assert service.status()["lost_unknown"] == [Cause.RING_CORRUPT]
    assert service.stop() == 0
    assert {(loss.cause, loss.cpu) for loss in stored(rig.store).stated} == {
        (Cause.RING_CORRUPT, 1)
    }
    rig.verify()


# R30: what lies in the rings already


def test_records_from_before_the_start_are_kept_and_marked(rig):
    """R30: the default. The losses of that time are dated to it, and are no loss of ours."""
    hypervisor = rig.boot(**TINY_RINGS)
    wait_full(hypervisor)
    service = rig.start()
    service.wait_status(lambda status: all(cpu["lost"] for cpu in status["cpus"]))
    assert service.stop() == 0
    account = rig.balance()
    rings = truths(hypervisor.truth(), "ring_bytes")
    assert set(+account.before_start) == set(rings)
    with SegmentReader(rig.segments()[0]) as segment:
        start = segment.anchors()[0].tsc
        told = [lost for chunk in segment.chunks() for lost in losses_in(chunk)]
    assert len(told) >= len(rings)
    assert all(lost.first_tsc < start for lost in told)


def losses_in(chunk):
    for record in iter_records(chunk.payload):
        if record.event == LOST_RECORDS:
            yield parse_lost(record.extra)


def test_records_from_before_the_start_are_discarded(rig):
    """R30: collect.start = discard: none of them is stored, and how many is stated."""
    hypervisor = rig.boot(**TINY_RINGS)
    wait_full(hypervisor)
    service = rig.start({"collect.start": "discard"})
    service.wait_status(busy)
    assert service.stop() == 0
    account = stored(rig.store)
    assert account.before_start.total() == 0
    discarded = account.stated_records(Cause.DISCARDED)
    assert discarded > 0
    kept = truths(hypervisor.truth(), "inserted").total() - discarded
    assert account.events.total() == kept
    rig.verify()


def test_discarding_what_came_after_a_stop(rig):
    """R30: the gap between what two runs stored is no mystery to `verify`."""
    service = rig.start({"collect.leave_enabled": "true"})
    service.wait_status(busy)
    assert service.stop() == 0
    produced = truths(rig.hypervisor.truth(), "produced").total()
    while truths(rig.hypervisor.truth(), "produced").total() == produced:
        pass
    second = rig.start({"collect.start": "discard"}, name="second")
    second.wait_status(busy)
    assert second.stop() == 0
    account = stored(rig.store)
    discarded = account.stated_records(Cause.DISCARDED)
    inserted = truths(rig.hypervisor.truth(), "inserted").total()
    assert account.events.total() + discarded == inserted
    rig.verify()


def wait_full(hypervisor) -> None:
    """Until every ring has dropped something."""
    while not all(truths(hypervisor.truth(), "dropped").values()):
        pass


@pytest.mark.parametrize("start", ["keep", "discard"])
def test_what_is_stored_already_is_never_touched(rig, start):
    """R30: the second run appends to nothing and overwrites nothing."""
    service = rig.start()
    service.wait_status(busy)
    assert service.stop() == 0
    before = {path: path.read_bytes() for path in rig.segments()}
    second = rig.start({"collect.start": start}, name="second")
    second.wait_status(busy)
    assert second.stop() == 0
    assert {path: path.read_bytes() for path in before} == before
    assert len(rig.segments()) == 2
    rig.verify()


# R61: readiness


@pytest.mark.parametrize("abstract", [False, True])
def test_ready_when_rings_are_mapped_and_a_segment_is_open(rig, tmp_path, abstract):
    """R61: also through an abstract socket."""
    address = f"@xtraced-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with Manager(address) as manager:
        service = rig.spawn(environ=manager.environ)
        ready = manager.hear("READY=1")
        assert ready[1].startswith("STATUS=collecting")
        (segment,) = rig.open_segments()
        assert segment.stat().st_size > 0
        assert any("memfd:xtraced-sim" in line for line in
                   Path(f"/proc/{service.pid}/maps").read_text().splitlines())
        assert rig.hypervisor.info().enabled
        assert service.status()["pid"] == service.pid
        assert service.stop() == 0
        manager.hear("STOPPING=1")
    rig.balance()


def test_no_ready_before_that(rig, tmp_path):
    """R61: while the store does not take the first segment there is no READY."""
    disk = rig.disk
    disk.freeze()
    with Manager(str(tmp_path / "notify")) as manager:
        service = rig.spawn(environ=manager.environ)
        while not disk.held:
            assert service.process.poll() is None
        assert "READY=1" not in manager.heard()
        disk.thaw()
        manager.hear("READY=1")
        assert service.stop() == 0


def test_nobody_listens(rig, tmp_path):
    """R61: the variable names nothing that can be written to, or is not set."""
    for environ in ({"NOTIFY_SOCKET": str(tmp_path / "nothing")}, {"NOTIFY_SOCKET": ""}):
        service = rig.start(environ=environ, name=f"s{len(environ['NOTIFY_SOCKET'])}")
        assert service.stop() == 0
    rig.verify()


def test_a_manager_that_does_not_read(rig, tmp_path):
    """R61: its queue is full: messages are dropped, the loop never waits for it."""
    with Manager(str(tmp_path / "notify")) as manager:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as full:
            full.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    full.sendto(b"X=1", manager.address)
        service = rig.start(environ={**manager.environ, "WATCHDOG_USEC": "200000"})
        service.wait_status(busy)
        assert service.stop() == 0
        assert set(manager.heard()) == {"X=1"}
    rig.balance()


# R62: modes


class Watch:
    """Looks at a path as often as it can, and remembers the modes it saw."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.modes: set[int] = set()
        self.looks = 0
        self._end = False
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._end:
            self.looks += 1
            try:
                self.modes.add(stat.S_IMODE(self._path.stat().st_mode))
            except FileNotFoundError:
                continue

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end = True
        self._thread.join()


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_modes_do_not_depend_on_the_umask(rig, tmp_path, umask):
    """R62: the socket's from the first instant; directories, segments, open and sealed."""
    run = tmp_path / "run"
    with Watch(run / "control.sock") as watch:
        service = rig.spawn(umask=umask, name="run/control", log_to=tmp_path / "log")
        service.wait_ready()
        while watch.looks < 10_000:
            pass
    assert watch.modes == {0o660}
    modes = {path.name.rpartition(".")[2]: stat.S_IMODE(path.stat().st_mode)
             for path in rig.store.iterdir()}
    assert modes["open"] == 0o640
    assert modes["lock"] & 0o077 == 0
    assert service.stop() == 0
    assert {stat.S_IMODE(path.stat().st_mode) for path in rig.segments()} == {0o640}
    assert stat.S_IMODE(rig.store.stat().st_mode) == 0o750
    assert stat.S_IMODE(run.stat().st_mode) == 0o750


# R26, R28: rings in trouble, on a real process


def test_one_ring_with_impossible_indexes(rig):
    """R26: that CPU is set aside; Xen stops tracing when it sees them, and status says so."""
    rig.boot(rate=2_000_000)
    service = rig.start()
    service.wait_status(busy)
    rig.hypervisor.inject(abi.Fault.BOGUS_PROD, 0)
    (line,) = service.wait_log("ring_set_aside")
    assert line["cpu"] == 0
    status = service.status()
    assert status["state"] == "degraded"
    assert [cpu["cpu"] for cpu in status["cpus"] if cpu["trouble"]] == [0]
    assert status["lost_unknown"] == [Cause.RING_CORRUPT]
    assert service.stop() == 0
    assert {loss.cpu for loss in stored(rig.store).stated} == {0}


def test_a_notifier_that_never_fires(rig):
    """R28: the timer keeps data flowing; status says that no event comes."""
    rig.boot(rate=8_000_000, tbuf_pages=8, faults=frozenset({"no-notify"}))
    service = rig.start({"collect.flush_interval": "20ms"})
    status = service.wait_status(lambda status: status["wakes"]["missed"] >= 3)
    assert status["wakes"]["event"] == 0
    assert any("0 events" in reason for reason in status["reasons"])
    assert service.stop() == 0
    rig.balance()
