"""A service that dies at any instant between ring and disk, and a successor that gets its staging
memory: every record is stored, once, and no loss is stated."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.fakes import FakeSource, ManualClock
from tests.support.staged import NO_LIMITS, metadata, opening
from tracelib.causes import Cause
from tracelib.records import WRAP_BUFFER, iter_records
from tracelib.ring import fastpath
from tracelib.segment.findings import Severity
from tracelib.store import fsops
from tracelib.store.reader import StoreReader
from tracelib.store.recover import recover, ring_positions
from tracelib.store.verify import verify_store
from xtraced.collector import Collector, Pace
from xtraced.handover import Legacy, StagingMemory
from xtraced.incidents import Predecessor
from xtraced.retention import Retention
from xtraced.segments import SegmentStore, WritePolicy
from xtraced.staging import StagingBuffer, StagingPool

BUFFERS, BUFFER_BYTES = 3, 16384


class Death(BaseException):
    """kill -9."""


class Fate:
    """Dies at the n-th instant; without an n, counts them."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.instants = 0
        self.armed = True

    def strike(self) -> None:
        self.instants += 1
        if self.armed and self.instants == self.at:
            # The dead do nothing more, in no `finally` either.
            raise Death

    def around(self, do: Callable) -> Callable:
        """`do`, with an instant before and one after it."""

        def done(*args, **more):
            self.strike()
            result = do(*args, **more)
            self.strike()
            return result

        return done

    def torn_write(self, fd: int, data, offset: int, **more) -> None:
        """A write that may end half way, anywhere."""
        view = memoryview(data).cast("B")
        half = len(view) // 2 + 100
        self.strike()
        REAL_WRITE(fd, view[:half], offset, path=more["path"])
        self.strike()
        REAL_WRITE(fd, view[half:], offset + half, path=more["path"])
        self.strike()


REAL_WRITE = fsops.write_all


class Run:
    """One service without its loop and its thread: each step is called."""

    def __init__(self, source: FakeSource, directory: Path, memory: StagingMemory) -> None:
        clock = ManualClock()
        self.source = source
        self.memory = memory
        self.pool = StagingPool(memory)
        retention = Retention(directory, NO_LIMITS, now=clock.realtime)
        self.store = SegmentStore(
            directory, retention, WritePolicy(False, 0, 0), clock=clock, sleep=lambda _: None
        )
        self.queue: list[StagingBuffer] = []
        self.collector = Collector(
            source, self.pool, self.queue.append, clock=clock, pace=Pace(5.0, 1.0)
        )

    def open(self) -> None:
        self.memory.note_run(metadata())
        self.store.open(opening())

    def write(self) -> None:
        while self.queue:
            buffer = self.queue.pop(0)
            self.store.write(buffer)
            self.pool.give_back(buffer)

    def drain(self, why: str = "event") -> None:
        self.collector.drain(why)
        self.collector.hand_off()


def live(run: Run) -> None:
    """A life with everything in it: small drains and ones over several buffers, a rotation,
    two buffers in the queue."""
    run.open()
    for count in (40, 3, 90):
        run.source.push(0, count)
        run.source.push(1, count // 2)
        run.drain("timer")
        run.write()
    run.source.push(1, 100)
    run.drain("timer")
    run.source.push(0, 100)
    run.drain("timer")
    run.write()
    run.store.rotate("size", opening())
    run.source.push(0, 30)
    run.drain("timer")
    run.write()
    run.source.push(1, 20)
    run.drain("timer")


@contextmanager
def mortal(fate: Fate):
    """Instants at which one can die; at the end what the dead had open is closed, as the kernel
    does."""
    opened: set[int] = set()

    def opening(do: Callable[..., int]) -> Callable[..., int]:
        def done(*args, **more) -> int:
            fd = do(*args, **more)
            opened.add(fd)
            return fd

        return done

    def close(fd: int, **_: object) -> None:
        opened.discard(fd)
        os.close(fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fsops, "create_exclusive", opening(fsops.create_exclusive))
        patch.setattr(fsops, "open_existing", opening(fsops.open_existing))
        patch.setattr(fsops, "open_or_create", opening(fsops.open_or_create))
        patch.setattr(fsops, "close", close)
        patch.setattr(fastpath, "take", fate.around(fastpath.take))
        patch.setattr(fastpath, "publish", fate.around(fastpath.publish))
        patch.setattr(StagingMemory, "begin", fate.around(StagingMemory.begin))
        patch.setattr(StagingMemory, "commit", fate.around(StagingMemory.commit))
        patch.setattr(StagingMemory, "empty", fate.around(StagingMemory.empty))
        for name in ("fdatasync", "truncate", "rename_noreplace", "sync_directory"):
            patch.setattr(fsops, name, fate.around(getattr(fsops, name)))
        patch.setattr(fsops, "write_all", fate.torn_write)
        try:
            yield
        finally:
            for fd in opened:
                os.close(fd)


def succeed(source: FakeSource, directory: Path, keeper: int) -> list[Cause]:
    """The next service: takes over, drains, stops; the losses that it states."""
    legacy = Legacy.read(keeper)
    left_over = recover(directory, legacy.staged, legacy.metadata)
    run = Run(source, directory, StagingMemory(BUFFERS, BUFFER_BYTES, keeper))
    incidents = run.collector.incidents
    incidents.check_predecessor(
        run.collector.accounts, ring_positions(directory),
        Predecessor(bool(left_over), legacy.damaged),
    )
    stated = [loss.cause for loss in incidents.take()]
    run.open()
    run.collector.drain("start")
    run.collector.hand_off()
    run.write()
    run.store.close("stop", None)
    return stated


def life(directory: Path, fate: Fate) -> tuple[FakeSource, int]:
    keeper = os.memfd_create("keeper")
    source = FakeSource()
    with mortal(fate):
        run = Run(source, directory, StagingMemory(BUFFERS, BUFFER_BYTES, keeper))
        try:
            live(run)
        except Death:
            fate.armed = False
    return source, keeper


def count_instants(tmp_path: Path) -> int:
    fate = Fate()
    source, keeper = life(tmp_path, fate)
    os.close(keeper)
    source.close()
    return fate.instants


def stored(directory: Path) -> list[int]:
    """TSC of every record of the store."""
    with StoreReader(directory) as store:
        return [
            record.tsc or 0
            for chunk in store.chunks() for record in iter_records(chunk.payload)
            if record.event != WRAP_BUFFER
        ]


def check(directory: Path, source: FakeSource) -> None:
    produced = list(range(10, source.tsc + 1, 10))
    assert sorted(stored(directory)) == produced
    with StoreReader(directory) as store:
        assert list(store.losses()) == []
    wrong = [f for f in verify_store(directory) if f.severity is Severity.ERROR]
    assert wrong == []


def test_death_at_every_instant(tmp_path):
    """Nothing that left the rings is lost, and nothing comes twice (design.md, 3 and 5)."""
    (tmp_path / "count").mkdir()
    instants = count_instants(tmp_path / "count")
    assert instants > 100
    for at in range(1, instants + 1):
        directory = tmp_path / str(at)
        directory.mkdir()
        source, keeper = life(directory, Fate(at))
        assert succeed(source, directory, keeper) == []
        check(directory, source)
        os.close(keeper)
        source.close()


def test_the_successor_dies_too(tmp_path):
    """At every instant of taking over, after each of a few deaths."""
    (tmp_path / "count").mkdir()
    instants = count_instants(tmp_path / "count")
    tried = 0
    for at in range(1, instants + 1, 7):
        second = 0
        while True:
            second += 1
            directory = tmp_path / f"{at}-{second}"
            directory.mkdir()
            source, keeper = life(directory, Fate(at))
            fate = Fate(second)
            with mortal(fate):
                try:
                    succeed(source, directory, keeper)
                except Death:
                    fate.armed = False
            died = not fate.armed
            if died:
                assert succeed(source, directory, keeper) == []
            check(directory, source)
            os.close(keeper)
            source.close()
            tried += died
            if not died:
                break
    assert tried > 200


def test_damage_before_a_block_that_is_intact_is_a_stated_loss(tmp_path):
    """The ring's position fits the last block that is stored, so it tells of nothing."""
    keeper = os.memfd_create("keeper")
    source = FakeSource()
    run = Run(source, tmp_path, StagingMemory(BUFFERS, BUFFER_BYTES, keeper))
    run.open()
    for _ in range(2):  # each in a buffer of its own, both for CPU 0
        source.push(0, 10)
        run.drain("timer")
    assert len(run.queue) == 2
    at = (64 << 10) + run.queue[0].number * 4096 + 20  # its header, in the table
    os.pwrite(keeper, b"\xff", at)
    segment = run.store._segment
    assert segment is not None
    segment.close()
    stated = succeed(source, tmp_path, keeper)
    assert set(stated) == {Cause.CRASH}
    assert stored(tmp_path) == list(range(110, 201, 10))
    os.close(keeper)
    source.close()


def test_memory_that_is_gone_is_a_stated_loss(tmp_path):
    """Without a keeper, what was staged is lost, and both CPUs' rings tell of it."""
    source, keeper = life(tmp_path, Fate())
    os.ftruncate(keeper, 0)
    stated = succeed(source, tmp_path, keeper)
    assert stated == [Cause.CRASH]
    missing = set(range(10, source.tsc + 1, 10)) - set(stored(tmp_path))
    assert len(missing) == 20, "what the last drain took"
    os.close(keeper)
    source.close()
