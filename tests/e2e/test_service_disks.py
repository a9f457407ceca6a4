"""The service on disks of every kind, and on disks in every kind of trouble."""

from __future__ import annotations

import errno
import re
import threading
from pathlib import Path

import pytest

from tests.support import disks
from tests.support.account import payloads, stored, truths
from tests.support.disks import Shape
from tests.support.rig import Manager, Rig
from tracelib.errors import ServiceError
from tracelib.losses import Cause
from tracelib.store import fsops
from tracelib.store.directory import list_segments
from xtracectl.client import Client
from xtraced.cli import Exit

SMALL_BUFFERS = {"writer.buffers": "8", "writer.buffer_bytes": "64K"}
MIB = 1 << 20

REPEATABLE = {"deterministic": True, "limit": 60_000, "rate": 20_000_000, "cpus": 2}
"""A machine that produces the same records each time, and then no more."""
WHOLE = {"source.pages": "512"}
"""Rings that hold all of them, so that no busy test machine makes them overflow."""

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@pytest.fixture
def rig(tmp_path):
    with Rig(tmp_path) as rig:
        yield rig


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> dict[int, bytes]:
    """What the repeatable machine produces, stored where nothing is in the way."""
    with Rig(tmp_path_factory.mktemp("reference")) as rig:
        rig.boot(**REPEATABLE)
        assert rig.start(WHOLE).wait() == 0
        account = rig.balance()
        assert account.events.total() >= 60_000
        assert account.lost.total() == 0
        return payloads(rig.store)


# R08: direct I/O, wherever


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("kind", "sector"),
    [("tmpfs", 512), ("overlay", 512), ("ext4", 512), ("xfs", 512), ("ext4", 4096)],
)
def test_the_same_bytes_on_every_file_system(tmp_path, reference, kind, sector):
    """R08: direct or not, and status says which, with the reason if not."""
    with disks.filesystem(tmp_path, kind, 512 * MIB, sector=sector) as where:
        with Rig(tmp_path, where / "store") as rig:
            rig.boot(**REPEATABLE)
            service = rig.start(WHOLE)
            writer = service.wait_status(lambda status: status["writer"]["writes"])["writer"]
            assert service.wait() == 0
            refused = service.events("direct_io_refused")
            assert writer["direct"] is not bool(refused)
            assert bool(writer["direct_reason"]) is bool(refused)
            rig.balance()
        assert payloads(where / "store") == reference


def test_direct_writes_refused_after_the_open(rig, reference):
    """R08: accepted at open, refused at write: one warning with errno and path, plain writes
    from then on, in later segments too; not a byte lost."""
    rig.disk.refuse_direct(errno.EINVAL)
    rig.boot(**REPEATABLE)
    service = rig.start({**WHOLE, "segment.max_bytes": "512K", "writer.buffer_bytes": "64K"})
    writer = service.status()["writer"]
    assert writer["direct"] is False
    assert "EINVAL" in writer["direct_reason"]
    assert service.wait() == 0
    (warning,) = service.events("direct_io_refused")
    assert warning["errno"] == "EINVAL"
    assert Path(warning["path"]).parent == rig.store
    assert len(rig.segments()) > 1
    rig.balance()
    assert payloads(rig.store) == reference


@pytest.mark.parametrize("shape", [Shape.HALF, Shape.SECTOR, Shape.NOTHING, Shape.INTERRUPTED])
def test_short_writes(rig, reference, shape):
    """R38: every third write takes half, 512 bytes, nothing, or is interrupted: the same
    bytes, no block twice."""
    rig.disk.shape(shape)
    rig.boot(**REPEATABLE)
    service = rig.start({**WHOLE, "writer.buffer_bytes": "64K"})
    assert service.wait() == 0
    rig.balance()
    assert payloads(rig.store) == reference
    assert service.events("store_failing") == []


# R07: a disk that does not answer


def stalled(status) -> bool:
    return any(reason.startswith("disk stalled") for reason in status["reasons"])


@pytest.mark.slow
@pytest.mark.needs_root
def test_a_frozen_disk_stops_nothing_but_the_writes(tmp_path):
    """R07: frozen for 20 seconds with WatchdogSec=5: drains go on into the pool, status
    answers within a second and says so, no ping is missing, and afterwards it goes on."""
    with (
        disks.filesystem(tmp_path, "ext4", 512 * MIB) as where,
        Rig(tmp_path, where / "store") as rig,
        Manager(str(tmp_path / "notify")) as manager,
    ):
        rig.boot(rate=4_000_000)
        service = rig.start(environ={**manager.environ, "WATCHDOG_USEC": "5000000"})
        service.wait_status(lambda status: status["records"])
        with disks.frozen(where):
            before = service.wait_status(stalled)
            assert before["state"] == "degraded"
            # A ping comes every quarter of the interval.
            for _ in range(16):
                manager.hear("WATCHDOG=1", within=5)
                with Client(service.socket, timeout=1) as client:
                    status = client.ask("status", timeout=1)
                assert stalled(status)
            assert status["records"] > before["records"]
            assert status["pool"]["free"] == 0, "the pool is bounded, and full by now"
        # Xen tells what it dropped with the next record that it traces.
        status = service.wait_status(
            lambda status: status["healthy"] and all(cpu["lost"] for cpu in status["cpus"])
        )
        assert status["pool"]["stalled"] > 0
        assert service.stop() == 0
        assert status["lost"] == {Cause.QUEUE_FULL: rig.balance().lost.total()}


def answers(service) -> bool:
    try:
        with Client(service.socket, timeout=0.5) as client:
            client.ask("status", timeout=0.5)
    except ServiceError:
        return False
    return True


def test_a_stuck_loop_gets_no_ping(rig, tmp_path):
    """R07: pings come from the drain loop's progress, so systemd kills one that is stuck."""
    with Manager(str(tmp_path / "notify")) as manager:
        service = rig.start(environ={**manager.environ, "WATCHDOG_USEC": "1000000"})
        manager.hear("WATCHDOG=1")
        rig.hypervisor.halt()
        # Its answer is what the loop waits for now.
        pause = threading.Thread(target=service.ask, args=("pause",))
        pause.start()
        while answers(service):
            pass
        manager.heard()
        with pytest.raises(TimeoutError):
            manager.hear("WATCHDOG=1", within=1)
        rig.hypervisor.go_on()
        pause.join()
        manager.hear("WATCHDOG=1")
        assert service.stop() == 0
        rig.balance()


# R10, R60: a disk that says no


def test_sync_failed_once(rig):
    """R60: the segment is suspect from its last good sync on and ends there; a new one."""
    rig.boot(rate=4_000_000)
    rig.disk.refuse_syncs(errno.EIO, 1)
    service = rig.start({"writer.sync_interval": "100ms"})
    sealed = service.wait_log("segment_sealed")[0]
    assert sealed["reason"].startswith("sync failed, suspect from offset ")
    service.wait_log("segment_opened", 2)
    assert service.stop() == 0
    rig.balance()


# R11: a full disk


@pytest.mark.slow
@pytest.mark.needs_root
@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_a_full_disk(tmp_path, kind):
    """R11: segments and log on one file system of 64 MiB, run to full, 32 MiB freed later."""
    make = ("-m", "0", "-O", "^has_journal") if kind == "ext4" else ()
    with (
        disks.filesystem(tmp_path, kind, 64 * MIB, make=make) as where,
        Rig(tmp_path, where / "store") as rig,
    ):
        ballast = where / "ballast"
        ballast.write_bytes(bytes(30 * MIB))
        rig.boot(rate=20_000_000)
        log = where / "log"
        service = rig.start(
            {"segment.max_bytes": "8M", "writer.retry": "100ms"}, log_to=log
        )
        full = service.wait_status(lambda status: status["lost"].get(Cause.WRITE_FAILED))
        assert full["state"] == "degraded"
        assert "ENOSPC" in full["reasons"][0]
        assert full["writer"]["failed_records"] == full["lost"][Cause.WRITE_FAILED]
        early = {path: path.read_bytes() for path in rig.segments()}
        assert early, "segments from before it was full"
        # It goes on failing, and counting.
        service.wait_status(
            lambda status: status["writer"]["failed_blocks"]
            > full["writer"]["failed_blocks"] + 100
        )
        ballast.unlink()
        service.wait_status(lambda status: status["healthy"])
        opened = service.status()["store"]["open_segment"]
        stored_then = service.status()["writer"]["bytes"]
        service.wait_status(lambda status: status["writer"]["bytes"] > stored_then + MIB)
        assert service.stop() == Exit.FAILED, "not everything is stored"
        assert Path(opened.removesuffix(".open")) not in early
        assert {path: path.read_bytes() for path in early} == early
        account = rig.balance()
        assert account.stated_records(Cause.WRITE_FAILED) > 0
        assert all(loss.bytes for loss in account.stated if loss.cause == Cause.WRITE_FAILED)
        lines = log.read_text()
        changes = re.findall("store_failing|store_recovered", lines)
        # The log's own lines find no room while the disk is full.
        assert changes in (["store_recovered"], ["store_failing", "store_recovered"]), lines


# R39: the reserve


@pytest.mark.needs_root
def test_the_reserve_counts_what_is_left_for_us(tmp_path):
    """R39: f_bavail * f_frsize, without what ext4 keeps for root; the oldest go first, and
    the reserve is never touched."""
    make = ("-m", "5")
    with (
        disks.filesystem(tmp_path, "ext4", 128 * MIB, make=make) as where,
        Rig(tmp_path, where / "store") as rig,
    ):
        space = fsops.free_space(where)
        assert space.free - space.available > 5 * MIB
        keep = space.available - 12 * MIB
        rig.boot(rate=20_000_000)
        service = rig.start({"segment.max_bytes": "2M", "store.keep_free": str(keep)})
        status = service.wait_status(lambda status: status["store"]["deleted_segments"] >= 3)
        assert status["state"] == "collecting"
        assert status["store"]["acting"] == "keep_free"
        assert status["store"]["keep_free"] == keep
        assert keep <= status["store"]["free_bytes"] <= space.available
        assert service.stop() == 0
        assert fsops.free_space(where).available >= keep
        deleted = service.events("segment_deleted")
        assert list_segments(rig.store)[0].sequence == 1 + len(deleted)


@pytest.mark.needs_root
def test_a_reserve_that_is_larger_than_what_is_free(tmp_path):
    """R39: nothing to delete: the start says why it fails, with both numbers in reach."""
    with (
        disks.filesystem(tmp_path, "tmpfs", 64 * MIB) as where,
        Rig(tmp_path, where / "store") as rig,
    ):
        service = rig.spawn({"store.keep_free": "1G"})
        assert service.wait() == Exit.STORE_REFUSED
        assert "store.keep_free" in service.log()
        assert list_segments(rig.store) == []


# R57: a directory that is not ours


@pytest.mark.needs_root
def test_a_directory_that_becomes_read_only(reference):
    """R57: no new segment can be made: degraded, tried again, loss counted; then on."""
    del reference
    disks.need("setpriv")
    with disks.public_directory() as public:
        public.chmod(0o777 | 0o1000)
        with Rig(public) as rig:
            rig.boot(rate=4_000_000)
            rig.hypervisor.socket.chmod(0o777)
            rig.store.mkdir(mode=0o777)
            rig.store.chmod(0o777)
            service = rig.start(
                {"segment.max_bytes": "1M", "writer.retry": "100ms", "writer.buffer_bytes": "64K"},
                rights=NOBODY,
            )
            service.wait_status(lambda status: status["records"])
            rig.store.chmod(0o555)
            bad = service.wait_status(lambda status: status["lost"].get(Cause.WRITE_FAILED))
            assert bad["state"] == "degraded"
            assert "EACCES" in bad["reasons"][0]
            rig.store.chmod(0o777)
            service.wait_status(lambda status: status["healthy"])
            assert service.stop() == Exit.FAILED, "not everything is stored"
            account = rig.balance()
            assert account.stated_records(Cause.WRITE_FAILED) > 0
            assert truths(rig.hypervisor.truth(), "inserted").total() > stored(
                rig.store
            ).events.total()
