"""kill -9, again and again, under load: what was stored stays stored, and nothing twice."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from tests.support.account import stored, truths
from tests.support.rig import Rig
from tracelib.losses import Cause
from tracelib.store.directory import list_segments
from tracelib.store.recover import Outcome
from tracelib.store.segment import SegmentReader

KILLS = int(os.environ.get("XTRACED_KILLS", "30"))
UNKEPT_KILLS = 10
LOAD = {
    "collect.flush_interval": "50ms", "segment.max_bytes": "2M", "writer.buffer_bytes": "256K",
    "writer.sync_interval": "100ms",
}  # fmt: skip


@pytest.fixture
def rig(tmp_path):
    with Rig(tmp_path) as rig:
        yield rig


@pytest.mark.slow
def test_killed_again_and_again_with_a_keeper(rig):
    """R29, R59: whoever keeps the staging memory (systemd does) loses nothing that had left
    the rings: produced = stored + lost by Xen, exactly, over all runs; XTRACED_KILLS says how
    many."""
    chance = random.Random(KILLS)
    rig.boot(rate=8_000_000, cpus=3)
    service = rig.start(LOAD, keeps=rig.keeper)
    handed_over = 0
    for _ in range(KILLS):
        much = service.status()["records"] + chance.randrange(100_000)
        service.wait_status(lambda status, much=much: status["records"] > much)
        service.kill()
        service.restart()
        handed_over += sum(line["handed_over"] for line in service.events("segment_recovered"))
        assert service.events("crash_loss") == []
    assert service.stop() == 0
    assert [path.name for path in rig.segments() if "-1970" in path.name] == []
    account = rig.balance()
    assert [loss for loss in account.stated if loss.cause == Cause.CRASH] == []
    print(f"\n{KILLS} kills: {account.events.total()} records traced and stored, "
          f"{handed_over} of them handed over")
    assert handed_over


@pytest.mark.slow
def test_killed_without_a_keeper(rig):
    """R29, R59: after each restart the leftover is sealed, every stored record can be read,
    verify is clean, no record is there twice, and what was taken and never stored is
    stated."""
    chance = random.Random(1)
    rig.boot(rate=8_000_000, cpus=3)
    service = rig.start(LOAD)
    kept: Counter[int] = Counter()
    sealed = stated = 0
    for _ in range(UNKEPT_KILLS):
        much = service.status()["records"] + chance.randrange(100_000)
        service.wait_status(lambda status, much=much: status["records"] > much)
        service.kill()
        service.restart()
        recovered = service.events("segment_recovered")
        assert len(recovered) <= 1
        assert all(line["outcome"] in (Outcome.SEALED, Outcome.REMOVED) for line in recovered)
        sealed += sum(line["outcome"] == Outcome.SEALED for line in recovered)
        stated += len(service.events("crash_loss"))
        account = stored(rig.store)
        assert all(account.events[cpu] >= count for cpu, count in kept.items())
        kept = account.events
    assert service.stop() == 0
    rig.verify()
    assert sealed > UNKEPT_KILLS // 2
    reasons = Counter(reason(entry.path) for entry in list_segments(rig.store))
    # A few died between seal and rename.
    assert sealed // 2 < reasons["crash"] <= sealed
    account, truth = stored(rig.store), rig.hypervisor.truth()
    inserted = truths(truth, "inserted").total()
    crashed = [loss for loss in account.stated if loss.cause == Cause.CRASH]
    print(f"\n{UNKEPT_KILLS} kills, {sealed} leftovers sealed; {inserted} records traced, "
          f"{account.events.total()} stored, {inserted - account.events.total()} taken and lost "
          f"with the service ({len(crashed)} losses stated)")
    assert account.events.total() <= inserted
    assert len(crashed) <= stated
    # What a killed service had staged, at most: its whole pool, each time.
    assert inserted - account.events.total() <= UNKEPT_KILLS * 8 * (256 << 10) // 8
    if account.events.total() < inserted:
        assert crashed


def reason(path) -> str:
    with SegmentReader(path) as segment:
        assert segment.seal is not None
        return segment.seal.reason


def test_killed_with_everything_durable(rig):
    """After a flush, what the killed service took is all there; what came since is in the
    rings, and the next start takes it: nothing is lost, and no loss is stated."""
    rig.boot(rate=2_000_000, cpus=2)
    service = rig.start({"collect.flush_interval": "1h"})
    service.wait_status(lambda status: status["records"] or status["cpus"][0]["fill"])
    service.ask("pause")
    service.ask("flush")
    service.kill()
    service.restart()
    assert service.events("segment_recovered")[0]["outcome"] == Outcome.SEALED
    assert service.events("crash_loss") == []
    assert service.stop() == 0
    assert rig.balance().stated == []


def test_killed_with_records_in_flight(rig):
    """What was drained and is not stored is stated as lost by the crash, on each CPU."""
    disk = rig.disk
    rig.boot(rate=4_000_000, cpus=2)
    service = rig.start({"writer.buffer_bytes": "64K"})
    service.wait_status(lambda status: status["writer"]["bytes"] > 1 << 20)
    disk.freeze()
    status = service.wait_status(lambda status: status["writer"]["queued"] >= 3)
    service.kill()
    disk.thaw()
    service.restart()
    assert {line["cpu"] for line in service.wait_log("crash_loss", 2)} == {0, 1}
    assert service.status()["lost_unknown"] == [Cause.CRASH]
    assert service.stop() == 0
    account = stored(rig.store)
    assert {loss.cpu for loss in account.stated if loss.cause == Cause.CRASH} == {0, 1}
    missing = truths(rig.hypervisor.truth(), "inserted").total() - account.events.total()
    assert missing > 0
    assert status["records"] >= missing
    rig.verify()
