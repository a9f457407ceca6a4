"""The guests at the pace of a clock that the test turns."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.support.machines import real_records, take
from tracelib.units import Nanoseconds
from xtraced.sources.sim.hypervisor import Hypervisor
from xtraced.sources.sim.options import SimOptions
from xtraced.sources.sim.workload import FIRST_TSC, GuestWorkload

MS = 1_000_000
START = 10_000_000_000


class Bench:
    """A machine with its workload; `records` are what its rings gave."""

    def __init__(self, **options) -> None:
        options = {"cpus": 2, "rate": 20_000_000, "tsc_hz": 1_000_000_000} | options
        self.options = SimOptions(**options)
        self.hypervisor = Hypervisor(self.options.online(), self.options.cpus)
        self.hypervisor.set_size(64)
        self.now = START
        self.workload = GuestWorkload(self.options, self.hypervisor, Nanoseconds(self.now))
        self.workload.start(Nanoseconds(self.now))
        self.taken: dict[int, bytearray] = {cpu: bytearray() for cpu in self.hypervisor.rings}

    def turn(self, milliseconds: int, step: int = 1) -> int:
        """Let time pass; the bytes produced."""
        before = sum(map(len, self.taken.values()))
        for _ in range(milliseconds // step):
            self.now += step * MS
            self.workload.advance(Nanoseconds(self.now))
            for cpu, words in self.hypervisor.memory.rings.items():
                self.taken[cpu] += take(words)
        return sum(map(len, self.taken.values())) - before

    def times(self, cpu: int = 0) -> list[int]:
        records = real_records(bytes(self.taken[cpu]))
        return [record.tsc for record in records if record.tsc is not None]


def test_virtual_time_is_real_time():
    bench = Bench()
    size = bench.turn(100)
    assert size == pytest.approx(2_000_000, rel=0.05)
    tsc, monotonic, hz = bench.workload.clock()
    assert hz == 10**9
    now = tsc + bench.now - monotonic
    assert now == pytest.approx(bench.times()[-1], abs=2 * MS)
    assert bench.times()[0] == pytest.approx(now - 100 * MS, abs=MS)


def test_deterministic_machine_starts_from_a_fixed_tsc():
    bench = Bench(deterministic=True)
    bench.turn(5)
    assert FIRST_TSC <= bench.times()[0] < FIRST_TSC + MS


def test_deterministic_content_does_not_depend_on_the_pace():
    smooth, rough = Bench(deterministic=True), Bench(deterministic=True)
    smooth.turn(60)
    rough.turn(20, step=5)
    rough.turn(2000, step=500)
    for cpu in (0, 1):
        shorter = min(smooth.taken[cpu], rough.taken[cpu], key=len)
        assert len(shorter) > 100_000
        assert smooth.taken[cpu][: len(shorter)] == rough.taken[cpu][: len(shorter)]


def test_a_pause_of_the_process_is_skipped_not_made_up_for():
    """After 10 s away it does not produce 10 s of records, and no clock goes back."""
    bench = Bench()
    bench.turn(10)
    bench.now += 10_000 * MS
    size = bench.turn(100)
    assert size < 20_000_000 * 0.2
    times = bench.times()
    assert times == sorted(times)
    assert times[-1] - times[0] == pytest.approx(10_110 * MS, abs=60 * MS)


def test_a_short_delay_is_made_up_for_in_small_steps():
    bench = Bench()
    bench.turn(10)
    bench.now += 20 * MS
    assert bench.turn(1) < 20_000_000 * 2.5 * bench.workload.tick / 10**9
    assert bench.turn(60) == pytest.approx(20_000_000 * 0.08, rel=0.1)


def test_bursts():
    """5 ms of every 20 ms, at the full rate."""
    bench = Bench(burst=(Nanoseconds(5 * MS), Nanoseconds(15 * MS)))
    size = bench.turn(200)
    assert size == pytest.approx(20_000_000 * 0.05, rel=0.1)
    times = bench.times()
    gaps = [after - before for before, after in pairwise(times)]
    assert sum(gap > 10 * MS for gap in gaps) == 9


def test_hot_and_quiet_and_silent_cpus():
    bench = Bench(cpus=3, weights=(8, 2, 0))
    bench.turn(100)
    sizes = [len(bench.taken[cpu]) for cpu in range(3)]
    assert sizes[2] == 0
    assert sizes[0] / sizes[1] == pytest.approx(4, rel=0.1)


def test_rate_0_is_silence():
    bench = Bench(rate=0)
    assert bench.turn(100) == 0


@pytest.mark.parametrize(
    ("rate", "pages", "tick"),
    [(1_000_000, 32, 5 * MS), (80_000_000, 32, 409_575), (200_000_000, 1, MS // 4)],
)
def test_ticks_are_as_short_as_the_rings_ask_for(rate, pages, tick):
    """An eighth of a ring, but within 0.25 to 5 ms: with 32 pages 131064 / 8 bytes at
    40 MB/s."""
    bench = Bench(rate=rate)
    bench.hypervisor = Hypervisor([0, 1], 2)
    bench.hypervisor.set_size(pages)
    workload = GuestWorkload(bench.options, bench.hypervisor, Nanoseconds(START))
    workload.start(Nanoseconds(START))
    assert workload.tick == tick


@pytest.mark.parametrize("skew", [12345, -300])
def test_skew_is_in_the_time_stamps_alone(skew):
    plain, skewed = Bench(deterministic=True), Bench(deterministic=True, skew=skew)
    for bench in (plain, skewed):
        bench.turn(10)
    assert plain.times(0) == skewed.times(0)
    assert [tsc + skew for tsc in plain.times(1)] == skewed.times(1)


def test_limit_ends_it():
    bench = Bench(limit=5000)
    bench.turn(1000)
    assert bench.workload.finished
    produced = sum(ring.produced for ring in bench.hypervisor.rings.values())
    assert 5000 <= produced < 7000


def test_time_without_tracing_is_skipped():
    bench = Bench()
    bench.turn(10)
    bench.hypervisor.disable()
    assert bench.turn(1000) == 0
    bench.hypervisor.enable()
    bench.workload.start(Nanoseconds(bench.now))
    assert bench.turn(10) > 0
    times = bench.times()
    assert times == sorted(times)
    assert times[-1] - times[0] == pytest.approx(1020 * MS, abs=5 * MS)


def test_deterministic_machine_stands_still_without_tracing():
    bench = Bench(deterministic=True)
    bench.turn(10)
    bench.hypervisor.disable()
    bench.turn(1000)
    bench.hypervisor.enable()
    bench.workload.start(Nanoseconds(bench.now))
    bench.turn(10)
    assert bench.times()[-1] - bench.times()[0] == pytest.approx(20 * MS, abs=5 * MS)


def test_stuck_machine_traces_nothing():
    bench = Bench()
    bench.hypervisor.stuck = True
    assert bench.turn(50) == 0
