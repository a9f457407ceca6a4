"""A source in this process and a clock in the test's hand."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from tests.support.ring import MemoryRing, Producer
from tracelib.records import make_record
from tracelib.units import CpuId, Nanoseconds, Tsc
from xtraced.sources import HypervisorInfo, Masks, Ring

SCHEDULE = 0x22009
"""An event without meaning to the service: {cpu, flags}."""


class ManualClock:
    """Both clocks; they move when the test says so."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000_000
        self.up = 1_000_000_000

    def realtime(self) -> Nanoseconds:
        return Nanoseconds(self.now)

    def monotonic(self) -> Nanoseconds:
        return Nanoseconds(self.up)

    def advance(self, duration: int) -> None:
        self.now += duration
        self.up += duration


class FakeSource:
    """xtraced.sources.Source over rings in memory; the test plays the hypervisor."""

    def __init__(self, cpus: Iterable[int] = (0, 1), pages: int = 1, highest: int = 0) -> None:
        numbers = list(cpus)
        self.ring_pages = pages
        self.memory = {cpu: MemoryRing(pages) for cpu in numbers}
        self.producers = {cpu: Producer(ring) for cpu, ring in self.memory.items()}
        self.rings: Sequence[Ring] = [
            Ring(CpuId(cpu), ring.words, ring.size, identity=1000 + cpu)
            for cpu, ring in self.memory.items()
        ]
        self.hypervisor = HypervisorInfo(
            name="fake", version="1.0", changeset=None, capabilities=None,
            cpu_vendor="AuthenticAMD", cpu_model="test", exit_family="svm",
            tsc_hz=1_000_000_000, tsc_source="test", boot_id="boot",
            cpus=max([*numbers, highest]) + 1,
        )  # fmt: skip
        self.notifier = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.masks = Masks(0, None)
        self.enabled = False
        self.calls: list[str] = []
        self.tsc = 0

    def push(self, cpu: int, count: int = 1, words: int = 2) -> int:
        """Trace so many records on a CPU; how many found room."""
        stored = 0
        for _ in range(count):
            self.tsc += 10
            record = make_record(SCHEDULE, *range(words), tsc=self.tsc)
            self.producers[cpu].now = self.tsc - 1
            stored += self.producers[cpu].push(record)
        return stored

    def notify(self) -> None:
        """Raise the event."""
        os.eventfd_write(self.notifier, 1)

    def open(self) -> None:
        self.calls.append("open")

    def acknowledge(self) -> int:
        try:
            return os.eventfd_read(self.notifier)
        except BlockingIOError:
            return 0

    def set_masks(self, masks: Masks) -> None:
        self.calls.append("set_masks")
        self.masks = masks

    def masks_in_force(self) -> Masks:
        return self.masks

    def enable(self) -> None:
        self.calls.append("enable")
        self.enabled = True

    def disable(self) -> None:
        self.calls.append("disable")
        self.enabled = False

    def read_tsc(self) -> Tsc | None:
        return Tsc(self.tsc)

    def finished(self) -> bool:
        return False

    def close(self) -> None:
        self.calls.append("close")
        if self.notifier >= 0:
            os.close(self.notifier)
            self.notifier = -1
