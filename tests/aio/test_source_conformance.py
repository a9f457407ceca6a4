"""The contract of xtraced.sources.Source, for every source there is.

A test says what it needs; a source that cannot have it (a file makes no new records) is
left out by name in the list beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

from tests.support.fakexen import Stage
from tests.support.machines import Machine, Taker, real_records
from tests.support.sim import Hypervisor
from tracelib.errors import LockedError, SourceError
from tracelib.records import CPU_CHANGE, make_record
from tracelib.units import CpuId
from xtraced.sources import Masks, Source
from xtraced.sources.file import file_source
from xtraced.sources.sim.client import SimSource
from xtraced.sources.sim.options import SimOptions
from xtraced.sources.xen.host import Host
from xtraced.sources.xen.source import XenSource

OPEN_FILES = Path("/proc/self/fd")
EVERYTHING = Masks(0x0FFFF000, None)
Make = Callable[[], Source]


def spawned(_: Path, __: ExitStack) -> Make:
    return lambda: SimSource(SimOptions(cpus=2, rate=20_000_000), pages=8)


def attached(directory: Path, stack: ExitStack) -> Make:
    machine = stack.enter_context(Hypervisor(directory / "machine", cpus=2, rate=20_000_000))
    return lambda: SimSource(SimOptions(socket=machine.socket), pages=8)


def replayed(directory: Path, _: ExitStack) -> Make:
    path = directory / "two.trace"
    machine = Machine(cpus=2)
    machine.run(25)
    with path.open("wb") as file:
        for cpu, payload in machine.taken.items():
            file.write(make_record(CPU_CHANGE, cpu, len(payload)) + payload)
    return lambda: file_source(path, pages=8)


def xen_on_fakes(directory: Path, stack: ExitStack) -> Make:
    """The xen source, with stand-ins for Xen's libraries over the same kind of machine."""
    machine = stack.enter_context(Hypervisor(directory / "machine", cpus=2, rate=20_000_000))
    Stage(machine, stack.enter_context(pytest.MonkeyPatch.context()))
    host = Host("GenuineIntel", "simulated", "a-boot", "PV")
    return lambda: XenSource(pages=8, host=host)


SOURCES = {
    "sim spawned": spawned, "sim attached": attached, "file": replayed,
    "xen on fakes": xen_on_fakes,
}  # fmt: skip
LIVE = [name for name in SOURCES if name != "file"]
OUTLIVING = ["sim attached", "xen on fakes"]
"""Whose hypervisor is there before and after the source."""


@pytest.fixture(params=SOURCES)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes sources that see the same hypervisor, if it is one that outlives them."""
    with ExitStack() as stack:
        yield SOURCES[request.param](tmp_path, stack)


@pytest.fixture
def source(make: Make) -> Iterator[Source]:
    """One that is open, with everything in its masks, not enabled."""
    opened = make()
    opened.open()
    opened.set_masks(EVERYTHING)
    yield opened
    opened.close()


only_live = pytest.mark.parametrize("make", LIVE, indirect=True)
only_files = pytest.mark.parametrize("make", ["file"], indirect=True)
only_lasting = pytest.mark.parametrize("make", ["sim attached"], indirect=True)
"""Hypervisors that outlive their consumer."""


def test_open_maps_a_ring_for_every_cpu(source: Source):
    assert [ring.cpu for ring in source.rings] == [0, 1]
    assert source.hypervisor.cpus == 2
    assert source.ring_pages == 8
    for ring in source.rings:
        assert ring.words.format == "I"
        assert not ring.words.readonly
        assert ring.words.nbytes == 8 * 4096
        assert ring.data_bytes == 8 * 4096 - 8
        assert 0 <= ring.identity < 1 << 64
    assert len({ring.identity for ring in source.rings}) == 2


def test_open_does_not_switch_tracing_on(source: Source):
    assert Taker(source).drain() == 0
    assert not source.finished()


def test_hypervisor_says_what_it_is(source: Source):
    info = source.hypervisor
    assert info.name in ("sim", "file", "xen")
    assert info.boot_id
    if info.name != "file":
        assert (info.cpu_vendor, info.exit_family) == ("GenuineIntel", "vmx")
        whence = "physinfo" if info.name == "xen" else "simulated"
        assert (info.tsc_hz, info.tsc_source) == (2_400_000_000, whence)
    else:
        assert (info.tsc_hz, info.tsc_source, info.exit_family) == (None, None, None)


async def test_notifier_wakes_a_task_and_acknowledge_takes_the_event(source: Source):
    source.enable()
    with trio.fail_after(30):
        await trio.lowlevel.wait_readable(source.notifier)
    source.disable()
    assert source.acknowledge() >= 1
    assert source.acknowledge() == 0
    waiting = [(ring.words[1] - ring.words[0]) % (2 * ring.data_bytes) for ring in source.rings]
    assert max(waiting) >= source.rings[0].data_bytes // 2


@pytest.mark.parametrize("events", [0x0FFFF000, 0x0002F000, 0])
@pytest.mark.parametrize("cpus", [None, frozenset({CpuId(1)}), frozenset()])
def test_masks_in_force_are_the_ones_set(source: Source, events: int, cpus):
    source.set_masks(Masks(events, cpus))
    assert source.masks_in_force() == Masks(events, cpus)


def test_masks_are_obeyed(source: Source):
    source.set_masks(Masks(0x0002F000, frozenset({CpuId(1)})))
    taker = Taker(source)
    source.enable()
    while not taker.taken[CpuId(1)] and not source.finished():
        taker.wait_for_event(0.05)
        taker.drain()
    source.disable()
    records = taker.records()
    assert records[CpuId(0)] == []
    assert records[CpuId(1)]
    assert all(r.event & 0xFFFF0000 == 0x00020000 for r in records[CpuId(1)])


def test_disable_stops_records_and_leaves_the_rings(source: Source):
    source.enable()
    Taker(source).wait_for_event()
    source.disable()
    before = [ring.words[1] for ring in source.rings]
    assert any(before)
    source.masks_in_force()  # A round trip, which a hypervisor that still traced would use.
    assert [ring.words[1] for ring in source.rings] == before


@only_live
def test_tracing_goes_on_after_disable_and_enable(source: Source):
    taker = Taker(source)
    for _ in range(3):
        source.enable()
        assert taker.wait_for_event()
        source.disable()
        assert taker.drain()
    records = taker.records()[CpuId(0)]
    times = [record.tsc for record in records if record.tsc is not None]
    assert times == sorted(times)


# Not xen on fakes: nobody can stand in for the processor's counter.
@pytest.mark.parametrize("make", ["sim spawned", "sim attached"], indirect=True)
def test_tsc_is_now(source: Source):
    source.enable()
    before = source.read_tsc()
    taker = Taker(source)
    taker.wait_for_event()
    taker.drain()
    after = source.read_tsc()
    assert before is not None
    assert after is not None
    times = [r.tsc for r in taker.records()[CpuId(0)] if r.tsc is not None]
    hz = source.hypervisor.tsc_hz
    assert hz is not None
    # A machine may be a tick ahead of or behind itself; a busy one does not lag far.
    assert before - hz // 100 <= times[0] <= times[-1] <= after + hz // 100


@only_live
def test_a_live_source_is_never_finished(source: Source):
    source.enable()
    taker = Taker(source)
    taker.wait_for_event()
    taker.drain()
    assert not source.finished()


@only_files
def test_a_file_is_finished_when_all_of_it_was_taken(source: Source):
    """Nothing lost, every CPU's bytes in order, although the file is larger than the rings."""
    taker = Taker(source)
    source.enable()
    taker.drain_until_finished()
    machine = Machine(cpus=2)
    machine.run(25)
    assert source.read_tsc() is None
    for cpu, payload in machine.taken.items():
        other = real_records(bytes(payload))
        assert [r.encode() for r in taker.records()[CpuId(cpu)]] == [r.encode() for r in other]


@only_lasting
def test_second_consumer_is_refused_and_changes_nothing(make: Make):
    """R29: EEXIST, before any mask or size was touched."""
    first, second = make(), make()
    first.open()
    first.set_masks(Masks(0x0008F000, frozenset({CpuId(1)})))
    with pytest.raises(LockedError, match="bound already"):
        second.open()
    assert first.masks_in_force() == Masks(0x0008F000, frozenset({CpuId(1)}))
    first.close()
    second.open()
    second.close()


@only_lasting
def test_rings_keep_identity_and_content_over_a_restart_of_the_consumer(make: Make):
    first = make()
    first.open()
    first.set_masks(EVERYTHING)
    first.enable()
    Taker(first).wait_for_event()
    first.disable()
    identities = [ring.identity for ring in first.rings]
    indexes = [tuple(ring.words[:2]) for ring in first.rings]
    first.close()
    second = make()
    second.open()
    assert [ring.identity for ring in second.rings] == identities
    assert [tuple(ring.words[:2]) for ring in second.rings] == indexes
    assert second.masks_in_force() == EVERYTHING
    second.close()


@only_lasting
def test_rings_that_exist_keep_their_size(make: Make, tmp_path: Path):
    """R24: wanted 1024 pages, there are 8."""
    first = make()
    first.open()
    first.close()
    other = SimSource(SimOptions(socket=tmp_path / "machine" / "sim.sock"), pages=1024)
    other.open()
    assert other.ring_pages == 8
    other.close()


def test_close_is_idempotent_and_frees_everything(make: Make):
    descriptors = len(list(OPEN_FILES.iterdir()))
    opened = make()
    opened.open()
    opened.close()
    opened.close()
    assert opened.rings == []
    assert len(list(OPEN_FILES.iterdir())) == descriptors


def test_views_that_are_still_held_do_not_break_close(make: Make):
    opened = make()
    opened.open()
    held = opened.rings[0].words[:2]
    opened.close()
    assert list(held) == [0, 0]


@only_live
def test_open_after_close_works_again(make: Make):
    opened = make()
    for _ in range(2):
        opened.open()
        opened.set_masks(EVERYTHING)
        opened.enable()
        taker = Taker(opened)
        assert taker.wait_for_event()
        opened.disable()
        assert taker.drain()
        opened.close()


def test_nobody_listens(tmp_path: Path):
    source = SimSource(SimOptions(socket=tmp_path / "none.sock"), pages=8)
    with pytest.raises(SourceError, match=r"no simulated hypervisor at .*none\.sock") as caught:
        source.open()
    assert caught.value.hint is not None
    source.close()


def test_file_that_is_no_trace(tmp_path: Path):
    """The reason comes from the process that could not read it; nothing stays open."""
    (tmp_path / "notes.txt").write_text("no trace at all, only words and words and words")
    for name, reason in (("notes.txt", "not an xentrace file"), ("none", "No such file")):
        source = file_source(tmp_path / name, pages=8)
        with pytest.raises(SourceError, match=reason):
            source.open()
        source.close()
