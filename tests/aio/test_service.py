"""The service from start to stop, over rings in memory and a real store."""

from __future__ import annotations

import errno
import os
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio

import tracelib
from tests.support.fakes import FakeSource
from tests.support.staged import stored_tscs
from tracelib.counting import count
from tracelib.errors import SourceError, StoreError
from tracelib.losses import Cause
from tracelib.store import fsops
from tracelib.store.segment import SegmentReader
from tracelib.store.verify import verify_store
from tracelib.units import CpuId
from xtraced.clock import SystemClock
from xtraced.config import Override, load
from xtraced.incidents import Predecessor
from xtraced.notify import Notifier
from xtraced.service import Service
from xtraced.sources import Masks


class Said(Notifier):
    """A notifier that remembers."""

    def __init__(self) -> None:
        super().__init__(None)
        self.lines: list[str] = []

    def _send(self, *lines: str) -> bool:
        self.lines += lines
        return True


def refuse(number: int):
    """A system call that fails, whatever it is asked."""

    def call(*_args, **_kwargs):
        raise OSError(number, os.strerror(number))

    return call


class Bench:
    def __init__(self, directory, **settings: str) -> None:
        self.directory = directory
        self.source = FakeSource(pages=4)
        defaults = {"store.keep_free": "0", "collect.flush_interval": "50ms"}
        overrides = [Override("test", k, v) for k, v in (defaults | settings).items()]
        overrides.append(Override("test", "store.directory", str(directory)))
        self.said = Said()
        self.service = Service(
            load(None, overrides), self.source, clock=SystemClock(), notifier=self.said,
            watchdog=None,
        )
        self.complete: bool | None = None

    async def _run(self) -> None:
        self.complete = await self.service.run(lambda _: [])

    @asynccontextmanager
    async def running(self):
        """The service, collecting; stopped at the end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run)
            with trio.fail_after(30):
                while "READY=1" not in self.said.lines:
                    await trio.sleep(0.001)
                yield self.service
                if self.service.status().state != "stopping":
                    self.service.stop("test")

    def tscs(self) -> list[int]:
        paths = sorted(self.directory.glob("*.xtr"))
        return [tsc for path in paths for tsc in stored_tscs(path)]


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    bench.source.close()


async def test_every_record_from_before_during_and_the_very_end_is_stored(bench):
    """R05: tracing off first, every ring read once more, the segment closed, all of it there."""
    bench.source.push(0, 20)
    async with bench.running() as service:
        bench.source.push(1, 300)
        await service.flush()
        bench.source.push(0, 50)
        bench.source.push(1, 50)
    assert bench.complete is True
    assert sorted(bench.tscs()) == [10 * n for n in range(1, 421)]
    (path,) = bench.directory.glob("*.xtr")
    with SegmentReader(path) as segment:
        assert segment.seal.reason == "stop"


async def test_the_order_of_calls_on_the_hypervisor(bench):
    """R66: both masks before tracing goes on; R05: off before the last drain."""
    async with bench.running():
        assert bench.source.calls == ["set_masks", "enable"]
    assert bench.source.calls == ["set_masks", "enable", "disable"]


async def test_ready_only_with_an_open_segment(bench):
    """R61."""
    opened = []
    real = bench.said.ready
    bench.said.ready = lambda line: opened.append(list(bench.directory.iterdir())) or real(line)
    async with bench.running():
        pass
    assert any(path.name.endswith(".open") for path in opened[0])
    assert [line for line in bench.said.lines if line.startswith("STOPPING")] == ["STOPPING=1"]


async def test_a_store_that_refuses_at_start_is_an_error_before_ready(bench, monkeypatch):
    """R57: no READY, and the error that says what was tried."""
    monkeypatch.setattr(fsops.os, "open", refuse(errno.EROFS))
    with pytest.RaisesGroup(pytest.RaisesExc(StoreError), allow_unwrapped=True,
                            flatten_subgroups=True):
        await bench._run()
    assert "READY=1" not in bench.said.lines
    monkeypatch.undo()


async def test_rotate_gives_the_sealed_segment_and_an_empty_one_goes_on(bench):
    """R55: rotate twice with nothing new: the second is a no-op."""
    async with bench.running() as service:
        bench.source.push(0, 10)
        sealed = await service.rotate()
        assert sealed is not None
        assert sealed.records == 10
        assert stored_tscs(Path(sealed.path)) == [10 * n for n in range(1, 11)]
        assert await service.rotate() is None
        bench.source.push(0, 1)
    assert len(list(bench.directory.glob("*.xtr"))) == 2


async def test_rotation_by_size_keeps_every_record_once(tmp_path):
    bench = Bench(
        tmp_path, **{"segment.max_bytes": "256K", "writer.buffer_bytes": "64K",
                     "writer.buffers": "3"}
    )  # fmt: skip
    async with bench.running() as service:
        for _ in range(60):
            bench.source.push(0, 700)
            await service.flush()
    paths = sorted(tmp_path.glob("*.xtr"))
    assert len(paths) > 3
    assert all(path.stat().st_size <= 256 << 10 for path in paths)
    assert bench.tscs() == [10 * n for n in range(1, 60 * 700 + 1)]
    bench.source.close()


async def test_status_has_everything_and_adds_up(bench):
    async with bench.running() as service:
        bench.source.push(0, 500)
        bench.source.push(1, 3)
        await service.flush()
        status = service.status()
    assert (status.state, status.healthy, status.reasons) == ("collecting", True, [])
    assert [cpu.records for cpu in status.cpus] == [500, 3]
    assert status.records == 503
    assert status.source.ring_pages_wanted == 64
    assert status.source.ring_pages == 4, "R24: wanted and real"
    assert status.store.segments == 1
    assert status.writer.writes >= 2


async def test_cpus_without_a_ring_are_named(tmp_path):
    """R22."""
    bench = Bench(tmp_path)
    bench.source.close()
    bench.source = FakeSource(cpus=(0, 2), highest=3)
    bench.service = Service(
        bench.service.settings, bench.source, clock=SystemClock(), notifier=bench.said,
        watchdog=None,
    )
    async with bench.running() as service:
        cpus = {cpu.cpu: cpu.trouble for cpu in service.status().cpus}
    assert cpus == {0: None, 1: "no buffer", 2: None, 3: "no buffer"}
    bench.source.close()


async def test_pause_and_resume(bench):
    async with bench.running() as service:
        bench.source.push(0, 5)
        service.pause()
        assert not bench.source.enabled
        assert service.status().state == "paused"
        service.resume()
        assert bench.source.enabled
        assert service.status().state == "collecting"
    assert len(bench.tscs()) == 5


async def test_a_pause_is_in_the_stream(bench):
    """Or what ran when it began would seem to have run until it ended."""
    async with bench.running() as service:
        bench.source.push(0, 5)
        paused = bench.source.tsc
        service.pause()
        bench.source.tsc += 5000
        service.resume()
        bench.source.push(0, 5)
    (path,) = bench.directory.glob("*.xtr")
    with SegmentReader(path) as segment:
        losses = segment.losses()
    assert {(x.cause, x.cpu, x.records, x.first_tsc, x.last_tsc) for x in losses} == {
        (Cause.NOT_TRACED, cpu, None, paused, paused + 5000) for cpu in (0, 1)
    }
    assert service.status().lost_unknown == [], "on purpose: no loss"


async def test_a_mask_that_hides_who_runs_is_in_the_stream(bench):
    async with bench.running() as service:
        bench.source.push(0, 5)
        service.set_masks(0x81000, "same")
        now = bench.source.tsc
        service.set_masks(0x0FFFF000, frozenset({CpuId(0)}))
        service.set_masks(0x0FFFF000, None)
    losses = []
    for path in sorted(bench.directory.glob("*.xtr")):
        with SegmentReader(path) as segment:
            losses += segment.losses()
    assert [(x.cause, x.cpu, x.first_tsc, x.last_tsc) for x in losses] == [
        (Cause.NOT_TRACED, 0, now, now),
        (Cause.NOT_TRACED, 1, now, now),
    ]


async def test_a_crash_of_the_whole_host_is_an_unknown_loss(tmp_path):
    """What the rings held, and what was staged, is gone with them: never shown as 0."""
    bench = Bench(tmp_path)
    async with bench.running():
        bench.source.push(0, 5)
    bench.source.close()
    again = Bench(tmp_path)
    again.source.rings = [replace(ring, identity=ring.identity + 7) for ring in again.source.rings]
    again.service = Service(
        again.service.settings, again.source, clock=SystemClock(), notifier=again.said,
        watchdog=None, predecessor=Predecessor(crashed=True),
    )
    async with again.running() as service:
        assert service.status().lost_unknown == [Cause.CRASH]
    with SegmentReader(max(tmp_path.glob("*.xtr"))) as segment:
        assert [(x.cause, x.cpu, x.records) for x in segment.losses()] == [(Cause.CRASH, 0, None)]
    again.source.close()


async def test_a_new_mask_begins_a_new_segment_that_says_so(bench):
    async with bench.running() as service:
        bench.source.push(0, 5)
        shown = service.set_masks(0x21000, frozenset({CpuId(1)}))
        assert (shown.events, shown.cpus) == (0x21000, "1")
        bench.source.push(1, 5)
    first, second = sorted(bench.directory.glob("*.xtr"))
    with SegmentReader(first) as a, SegmentReader(second) as b:
        assert a.metadata.events == 0x0FFFF000
        assert (b.metadata.events, b.metadata.cpus_traced) == (0x21000, (1,))
        assert a.seal.reason == "mask"


async def test_a_mask_that_lets_nothing_through_is_degraded(bench):
    async with bench.running() as service:
        service.set_masks(0, "same")
        status = service.status()
        assert status.state == "degraded"
        assert status.reasons == ["the event mask lets nothing through"]


async def test_writes_that_fail_degrade_and_are_counted_by_cpu(bench, monkeypatch):
    """R10: EIO for every write: status says what is not stored, the stop says so as well."""
    async with bench.running() as service:
        service._store.policy = service._store.policy.__class__(True, 10**9, 0)
        real = os.pwrite
        monkeypatch.setattr(fsops.os, "pwrite", refuse(errno.EIO))
        bench.source.push(0, 7)
        await service.flush()
        status = service.status()
        assert status.state == "degraded"
        assert "EIO" in status.reasons[0]
        assert status.lost == {Cause.WRITE_FAILED: 7}
        monkeypatch.setattr(fsops.os, "pwrite", real)
    assert bench.complete is False


async def test_a_full_ring_at_stop_is_stated_in_the_segment(bench):
    """R14."""
    async with bench.running():
        bench.source.push(0, 5000)
    (path,) = bench.directory.glob("*.xtr")
    with SegmentReader(path) as segment:
        (loss,) = segment.losses()
    assert (loss.cause, loss.cpu, loss.records) == (Cause.TAIL_UNKNOWN, 0, None)


async def test_why_the_ring_overflowed_is_still_known_when_the_store_is_read(tmp_path):
    """R37: "Xen was too fast" and "the disk was too slow" are told apart for ever."""
    bench = Bench(tmp_path)
    async with bench.running() as service:
        full = 2000 - bench.source.push(0, 2000)
        await service.flush()
        bench.source.push(0, 1)  # brings the count along
        await service.flush()
        service.collector.accounts[1].starve(bench.source.read_tsc())
        slow = 2000 - bench.source.push(1, 2000)
        await service.flush()
        bench.source.push(1, 1)
        await service.flush()
        assert service.status().lost == {Cause.RING_FULL: full, Cause.QUEUE_FULL: slow}
    with tracelib.open(tmp_path) as reader:
        counts = count(reader)
    assert counts.lost_by_cause == {Cause.RING_FULL: full, Cause.QUEUE_FULL: slow}
    bench.source.close()


async def test_a_source_that_refuses_to_stop_tracing_costs_no_record(bench):
    """The rings are still mapped: drained, stored and sealed like at any stop; not a success."""
    def gone():
        raise SourceError("the hypervisor is gone")

    bench.source.disable = gone
    async with bench.running():
        bench.source.push(0, 300)
        bench.source.push(1, 20)
    assert bench.complete is False
    assert len(bench.tscs()) == 320
    (path,) = bench.directory.glob("*.xtr")
    with SegmentReader(path) as segment:
        assert segment.seal.reason == "stop"


async def test_a_source_that_fails_in_the_middle_of_a_stop_does_not_cut_it_short(bench):
    def gone():
        raise SourceError("the hypervisor is gone")

    async with bench.running():
        bench.source.push(0, 300)
        bench.source.read_tsc = gone
    assert bench.complete is False
    (path,) = bench.directory.glob("*.xtr")
    with SegmentReader(path) as segment:
        assert segment.seal.reason == "stop"
    assert len(bench.tscs()) == 300


async def test_a_source_that_fails_while_collecting_ends_the_service_in_order(bench):
    def gone():
        raise SourceError("the hypervisor is gone")

    async with bench.running():
        bench.source.push(0, 300)
        bench.source.acknowledge = gone
        bench.source.notify()
        while bench.service.status().state != "stopping":
            await trio.sleep(0.001)
    assert bench.complete is False
    assert len(bench.tscs()) == 300


async def test_a_cpu_mask_without_any_ring_is_degraded(bench):
    """R10, R64: nothing can come."""
    async with bench.running() as service:
        service.set_masks(None, frozenset({CpuId(40)}))
        status = service.status()
    assert status.state == "degraded"
    assert status.reasons == ["the CPU mask names no CPU that has a ring"]


async def test_masks_changed_by_another_are_noticed_and_repaired(bench):
    """R29: xentrace sets the mask before it finds that it cannot have the rings."""
    async with bench.running() as service:
        bench.source.masks = Masks(0x2F000, None)
        shown = service.mask_status()
        assert (shown.events_wanted, shown.events) == (0x0FFFF000, 0x2F000)
        status = service.status()
        assert status.reasons == [
            "another program changed the masks: 0x0002f000 is in force"
        ]
        service.set_masks(0x0FFFF000, "same")
        assert bench.source.masks.events == 0x0FFFF000
        assert service.status().healthy


async def test_a_snapshot_is_kept_from_retention(tmp_path):
    """What was in the rings is in it; it is a store like any other."""
    bench = Bench(tmp_path, **{"store.max_segments": "2"})
    async with bench.running() as service:
        bench.source.push(0, 30)
        kept = await service.snapshot(None)
        assert (kept.segments, kept.records) == (1, 30)
        for _ in range(3):
            bench.source.push(0, 10)
            await service.rotate()
    assert len(list(bench.directory.glob("*.xtr"))) == 2
    with tracelib.open(kept.path) as store:
        assert count(store).records == 30
    assert [finding.reason for finding in verify_store(Path(kept.path))] == []


async def test_a_snapshot_of_the_last_moment(tmp_path):
    bench = Bench(tmp_path)
    async with bench.running() as service:
        bench.source.push(0, 5)
        await service.rotate()
        since = SystemClock().realtime()
        bench.source.push(0, 7)
        kept = await service.snapshot(SystemClock().realtime() - since)
        assert (kept.segments, kept.records) == (1, 7)
        assert kept.last >= kept.first
        nothing = await service.snapshot(1)
    assert nothing.path is None or nothing.records == 0


async def test_a_snapshot_that_the_disk_refuses(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    async with bench.running() as service:
        bench.source.push(0, 5)

        def refuse_link(_source, target):
            raise StoreError(f"cannot link {target}", errno=errno.EMLINK)

        monkeypatch.setattr(fsops, "link", refuse_link)
        with pytest.raises(StoreError):
            await service.snapshot(None)
        assert service.status().healthy
    assert list((tmp_path / "snapshots").iterdir()) == []
