"""What makes a simulated hypervisor produce records: its guests, kept at real time's pace.

The machine's TSC runs with real time. The engine's own clock counts only what the guests
lived through; the difference is the engine's offset, which grows when time passes without
them: before tracing is switched on, in the off part of a burst, and when this process was
kept from running for so long that catching up would be a flood.
"""

from __future__ import annotations

from typing import Protocol

from tracelib.units import CpuId, Nanoseconds, Tsc
from xtraced.sources.sim import guests
from xtraced.sources.sim.abi import Wrong
from xtraced.sources.sim.engine import Engine
from xtraced.sources.sim.hypervisor import Hypervisor
from xtraced.sources.sim.options import SimOptions

FIRST_TSC = 1 << 40
"""Where a deterministic machine starts to count."""
_EXIT_MINORS = {"vmx": 2, "svm": 3}
_SHORTEST_TICK = 250_000
_LONGEST_TICK = 5_000_000
_MAX_LAG = 50_000_000
"""Nanoseconds that guests may be behind real time; more is skipped."""


class Workload(Protocol):
    """What the server drives."""

    finished: bool
    """No record will ever come again."""
    tick: Nanoseconds
    """How long to sleep between two calls of `advance` while tracing is on."""

    def start(self, now: Nanoseconds) -> None:
        """Tracing was switched on."""

    def advance(self, now: Nanoseconds) -> None:
        """Produce what is due by now, at most a few ticks' worth."""

    def clock(self) -> tuple[Tsc, Nanoseconds, int]:
        """One moment as TSC and monotonic time, and the TSC's rate; 0 if it has none."""

    def wrong(self) -> Wrong:
        """What its records do not show."""


class GuestWorkload:
    """Guests run by the engine."""

    def __init__(self, options: SimOptions, hypervisor: Hypervisor, now: Nanoseconds) -> None:
        self.finished = False
        self.tick = Nanoseconds(_LONGEST_TICK)
        self.engine = _build(options, hypervisor)
        self._options = options
        self._hypervisor = hypervisor
        self._monotonic = now
        self._tsc = FIRST_TSC if options.deterministic else now * options.tsc_hz // 10**9
        self._started = False
        self._burst_ends: int | None = None

    def clock(self) -> tuple[Tsc, Nanoseconds, int]:
        return Tsc(self._tsc), self._monotonic, self._options.tsc_hz

    def wrong(self) -> Wrong:
        """Nothing: guests lose what the rings have no room for, and that is reported there."""
        return Wrong(0, [], {})

    def start(self, now: Nanoseconds) -> None:
        """The guests go on from here; a deterministic machine's time went on with them."""
        self.tick = self._choose_tick()
        if self._options.deterministic:
            self._tsc = FIRST_TSC if not self._started else self.engine.offset + self.engine.now
            self._monotonic = now
        if not self._started:
            self._started = True
            self.engine.skip(self._tsc_at(now))
            if self._options.burst is not None:
                self._burst_ends = self._cycles(self._options.burst[0])
        else:
            self.engine.skip(max(0, self._behind(now)))

    def advance(self, now: Nanoseconds) -> None:
        if self._options.rate == 0 or self.finished or self._hypervisor.stuck:
            return
        self._skip_flood(now)
        until = self.engine.now + min(self._behind(now), self._cycles(2 * self.tick))
        if self._burst_ends is not None:
            until = min(until, self._burst_ends)
        while self.engine.now < until and self._hypervisor.host.enabled and not self.finished:
            # A limit is looked at after each round, so that it always ends the same.
            self.engine.run(self.engine.now + 1 if self._options.limit else until)
            self._hypervisor.deliver()
            self._check_limit()
        self._end_burst()

    def _choose_tick(self) -> Nanoseconds:
        """So short that the busiest CPU fills an eighth of its ring in it, if that can be:
        real CPUs fill their rings smoothly, and a consumer has the rest to react."""
        online = self._hypervisor.online
        weights = [self._options.weight(cpu) for cpu in online]
        hottest = self._options.rate * max(weights) // max(1, sum(weights))
        share = self._hypervisor.rings[online[0]].size // 8
        tick = share * 10**9 // max(1, hottest)
        return Nanoseconds(min(max(tick, _SHORTEST_TICK), _LONGEST_TICK))

    def _behind(self, now: Nanoseconds) -> int:
        """Cycles from the guests' time to the machine's."""
        return self._tsc_at(now) - self.engine.offset - self.engine.now

    def _skip_flood(self, now: Nanoseconds) -> None:
        flood = self._behind(now) - self._cycles(_MAX_LAG)
        if flood > 0:
            if self._options.deterministic:
                self._tsc -= flood
            else:
                self.engine.skip(flood)

    def _end_burst(self) -> None:
        if self._burst_ends is not None and self.engine.now >= self._burst_ends:
            assert self._options.burst is not None
            on, off = self._options.burst
            self._burst_ends += self._cycles(on)
            self.engine.skip(self._cycles(off))

    def _check_limit(self) -> None:
        limit = self._options.limit
        if limit and sum(ring.produced for ring in self._hypervisor.rings.values()) >= limit:
            self.finished = True

    def _tsc_at(self, now: Nanoseconds) -> int:
        return self._tsc + self._cycles(now - self._monotonic)

    def _cycles(self, duration: int) -> int:
        return duration * self._options.tsc_hz // 10**9


def _build(options: SimOptions, hypervisor: Hypervisor) -> Engine:
    """The engine with its CPUs and guests; CPUs of weight 0 are left out."""
    busy = [cpu for cpu in hypervisor.online if options.weight(cpu)]
    shares = sum(options.weight(cpu) for cpu in busy)
    prices = {cpu: _price(options, options.weight(cpu), shares) for cpu in busy}
    rows = guests.exit_rows(options.family, min(prices.values(), default=0))
    engine = Engine(hypervisor.host, options.tsc_hz, rows, _EXIT_MINORS[options.family])
    cpus = {}
    for cpu in busy:
        seed = _mix(options.seed * 0x1_0000 + cpu)
        ring = hypervisor.rings[CpuId(cpu)]
        cpus[cpu] = engine.add_cpu(cpu, ring, prices[cpu], cpu * options.skew, seed)
    for place in guests.place_guests([int(cpu) for cpu in busy], options.domains):
        engine.add_vcpu(place.domain, place.vcpu, place.kind, place.wide, cpus[CpuId(place.cpu)])
    return engine


def _price(options: SimOptions, weight: int, shares: int) -> int:
    """Cycles of a CPU's time that a byte of its records is worth, in 1/256."""
    return 256 * options.tsc_hz * shares // (max(1, options.rate) * weight)


def _mix(seed: int) -> int:
    """64 bits, never 0, unlike those of the seed's neighbours (splitmix64)."""
    mask = 0xFFFFFFFFFFFFFFFF
    state = (seed + 0x9E3779B97F4A7C15) & mask
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & mask
    state = (state ^ state >> 27) * 0x94D049BB133111EB & mask
    return (state ^ state >> 31) or 1
