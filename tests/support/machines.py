"""Simulated machines inside a test's own process, takers that drain sources, and an
independent account of what the guests' records say."""

from __future__ import annotations

import select
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from tests.support.ring import words_of
from tests.support.uncompiled import load_uncompiled
from tracelib.records import WRAP_BUFFER, Record, iter_records
from tracelib.ring import fastpath, producer
from tracelib.ring.runstates import RunstateTable
from tracelib.units import CpuId
from xtraced.sources import Source
from xtraced.sources.sim import engine, guests

PRODUCERS: dict[str, ModuleType] = {
    "compiled" if producer.COMPILED else "installed": producer,
    "uncompiled": load_uncompiled(producer),
}
"""The producer module in each form that can be had here, by name."""

HZ = 2_400_000_000


def new_ring(module: ModuleType, pages: int = 1) -> tuple[Any, Any, memoryview]:
    """A host that traces everything, one ring's producer, and the ring's words."""
    host = module.Host()
    host.enabled = True
    ring = module.RingProducer(host)
    words = words_of(bytes(4096 * pages))
    ring.attach(words)
    return host, ring, words


def take(words: memoryview, limit: int | None = None) -> bytes:
    """Consume everything that waits in a ring (or `limit` bytes), by the indexes' rules."""
    size = 4 * len(words) - 8
    cons, prod = words[0], words[1]
    waiting = (prod - cons) % (2 * size)
    count = waiting if limit is None else min(limit, waiting)
    data = words.cast("B")[8:]
    at = cons % size
    first = min(count, size - at)
    taken = bytes(data[at : at + first]) + bytes(data[: count - first])
    words[0] = (cons + count) % (2 * size)
    return taken


def real_records(data: bytes) -> list[Record]:
    """The records of a payload, wrap fillers left out."""
    return [record for record in iter_records(data) if record.event != WRAP_BUFFER]


class Machine:
    """CPUs with guests, run in this process, drained after every round."""

    def __init__(
        self, *, cpus: int = 2, rate: int = 20_000_000, seed: int = 7, domains: int = 3,
        family: str = "vmx", forms: tuple[ModuleType, ModuleType] = (producer, engine),
    ) -> None:  # fmt: skip
        producers, engines = forms
        self.host = producers.Host()
        self.host.enabled = True
        price = 256 * HZ * cpus // rate
        rows = guests.exit_rows(family, price)
        self.engine = engines.Engine(self.host, HZ, rows, {"vmx": 2, "svm": 3}[family])
        self.rings: dict[int, memoryview] = {}
        self.taken: dict[int, bytearray] = defaultdict(bytearray)
        places = []
        for cpu in range(cpus):
            ring = producers.RingProducer(self.host)
            self.rings[cpu] = words_of(bytes(64 * 4096))
            ring.attach(self.rings[cpu])
            places.append(self.engine.add_cpu(cpu, ring, price, 0, seed * 1000 + cpu + 1))
        for place in guests.place_guests(list(range(cpus)), domains):
            self.engine.add_vcpu(*place[:4], places[place.cpu])
        self.engine.skip(1 << 40)

    def run(self, milliseconds: int) -> None:
        """So much of the guests' time."""
        end = self.engine.now + milliseconds * HZ // 1000
        while self.engine.now < end:
            self.engine.run(min(end, self.engine.now + 1))
            for cpu, words in self.rings.items():
                self.taken[cpu] += take(words)

    def vcpus(self) -> list[Any]:
        return [*self.engine.vcpus, *(cpu.idle for cpu in self.engine.cpus)]


@dataclass
class VcpuAccount:
    """What the records say of one vCPU; the same fields as the truth's."""

    running: int = 0
    runnable: int = 0
    blocked: int = 0
    changes: int = 0
    exits: dict[int, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0]))
    """By reason: count, cycles on a CPU, cycles in all."""
    hypercalls: Counter[int] = field(default_factory=Counter)
    subcalls: Counter[int] = field(default_factory=Counter)


_STATES = ("running", "runnable", "blocked")
_EXITS = (0x81002, 0x81003, 0x81102, 0x81103)


class GuestAccount:
    """Follows every vCPU through the records of all CPUs, and checks on the way that they
    make sense: clocks, who runs where, old and new runstates, exits and entries."""

    def __init__(self) -> None:
        self.vcpus: dict[tuple[int, int], VcpuAccount] = defaultdict(VcpuAccount)
        self.events: Counter[int] = Counter()
        self.migrations = 0
        self._state: dict[tuple[int, int], tuple[int, int]] = {}
        self._current: dict[int, tuple[int, int]] = {}
        self._exit: dict[tuple[int, int], tuple[int, int, int]] = {}
        self._left: dict[tuple[int, int], int] = {}
        self._last_cpu: dict[tuple[int, int], int] = {}

    def read(self, payloads: Mapping[int, bytes | bytearray]) -> GuestAccount:
        merged = []
        for cpu, data in payloads.items():
            last = 0
            for number, record in enumerate(real_records(bytes(data))):
                assert record.tsc is None or record.tsc >= last, "a clock went back"
                last = record.tsc or last
                merged.append((last, cpu, number, record))
        for tsc, cpu, _, record in sorted(merged, key=lambda item: item[:3]):
            self._note(tsc, cpu, record)
        return self

    def _note(self, tsc: int, cpu: int, record: Record) -> None:
        self.events[record.event] += 1
        current = self._current.get(cpu)
        if record.event & 0xFFFFF00F == 0x21001:
            self._runstate(tsc, cpu, record)
        elif current is None:
            return
        elif record.event in _EXITS:
            assert current not in self._exit, "two exits without an entry"
            self._exit[current] = (record.extra[0], tsc, 0)
        elif record.event == 0x81001 and current in self._exit:
            reason, began, away = self._exit.pop(current)
            total = self.vcpus[current].exits[reason]
            total[0] += 1
            total[1] += tsc - began - away
            total[2] += tsc - began
        elif record.event == 0x20100D:
            self.vcpus[current].hypercalls[record.extra[0] & 0xFFFFF] += 1
        elif record.event == 0x20200E:
            self.vcpus[current].subcalls[record.extra[0] & 0xFFFFF] += 1

    def _runstate(self, tsc: int, cpu: int, record: Record) -> None:
        who = (record.extra[0] >> 16, record.extra[0] & 0xFFFF)
        old, new = record.event >> 8 & 0xF, record.event >> 4 & 0xF
        account = self.vcpus[who]
        account.changes += 1
        if who in self._state:
            state, since = self._state[who]
            assert state == old, "a runstate that it was not in"
            name = _STATES[old]
            setattr(account, name, getattr(account, name) + tsc - since)
        self._state[who] = (new, tsc)
        if old == 0:
            assert self._current.get(cpu, who) == who, "left a CPU it was not on"
            self._left[who] = tsc
        if new == 0:
            self._arrive(tsc, cpu, who)

    def _arrive(self, tsc: int, cpu: int, who: tuple[int, int]) -> None:
        self._current[cpu] = who
        self.migrations += self._last_cpu.get(who, cpu) != cpu
        self._last_cpu[who] = cpu
        if who in self._exit:
            reason, began, away = self._exit[who]
            self._exit[who] = (reason, began, away + tsc - self._left[who])


class Taker:
    """Drains a source's rings into one byte string a CPU, as the service would."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.taken: dict[CpuId, bytearray] = {ring.cpu: bytearray() for ring in source.rings}
        self._runstates = RunstateTable(source.hypervisor.cpus)
        longest = max(ring.words.nbytes for ring in source.rings)
        self._buffer = words_of(bytes(longest))

    def drain(self) -> int:
        """Everything that waits, once round; the bytes."""
        before = sum(map(len, self.taken.values()))
        for ring in self.source.rings:
            result = fastpath.drain(
                ring.words, ring.data_bytes, self._buffer, 0, len(self._buffer), ring.cpu,
                self._runstates,
            )  # fmt: skip
            assert result.status in (fastpath.DRAINED, fastpath.EMPTY)
            self.taken[ring.cpu] += self._buffer.cast("B")[: result.payload_bytes]
        return sum(map(len, self.taken.values())) - before

    def wait_for_event(self, seconds: float = 20.0) -> int:
        """Sleep until the notifier says something; how many events, 0 after the time-out."""
        ready, _, _ = select.select([self.source.notifier], [], [], seconds)
        return self.source.acknowledge() if ready else 0

    def drain_until_finished(self) -> None:
        """Wake at events, and every 20 ms without one, until the source has no more."""
        while not self.source.finished():
            self.wait_for_event(0.02)
            self.drain()

    def records(self) -> dict[CpuId, list[Record]]:
        return {cpu: real_records(bytes(data)) for cpu, data in self.taken.items()}

    def counted(self) -> Counter[int]:
        """How many records of each event, lost records among them."""
        return Counter(r.event for records in self.records().values() for r in records)


def total(truth: Mapping[str, Any], name: str) -> int:
    """The sum of one of the truth's counts over all CPUs."""
    return sum(cpu[name] for cpu in truth["cpus"].values())
