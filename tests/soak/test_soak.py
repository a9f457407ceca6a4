"""The soak: hours of full rate, rotations, questions and a disk that stalls; everything stays flat
and the account is exact.

    make soak                     an hour
    SOAK_SECONDS=600 make soak    ten minutes, as in CI
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.account import truths
from tests.support.rig import Rig, descriptors, memory
from tests.support.service import ServiceProcess
from tracelib.store.ledger import Ledger
from tracelib.units import Nanoseconds, format_size
from xtracectl.client import Client

SECONDS = float(os.environ.get("SOAK_SECONDS", "3600"))
STALLS = 2
STALL_SECONDS = 5.0
SAMPLES = 20
MIB = 1 << 20
RSS_GROWTH = 4 * MIB


class Sample(NamedTuple):
    """What is to stay flat, at one moment."""

    rss: int
    descriptors: int
    threads: int
    free_buffers: int
    records: int
    lost: int
    segments: int

    @classmethod
    def of(cls, service: ServiceProcess) -> Sample:
        status = service.status()
        threads = len(list(Path(f"/proc/{service.pid}/task").iterdir()))
        # A client that is leaving, or a segment that is looked into, is there for a moment.
        files = min(len(descriptors(service.pid)) for _ in range(50))
        return cls(
            memory(service.pid), files, threads, status["pool"]["free"], status["records"],
            sum(status["lost"].values()), status["store"]["segments"],
        )  # fmt: skip

    def __str__(self) -> str:
        return (
            f"RSS {format_size(self.rss):>9}  {self.descriptors} descriptors  {self.threads} "
            f"threads  {self.free_buffers} buffers free  {self.records:>12,} records  "
            f"{self.lost:,} lost  {self.segments} segments"
        )


class Pollster:
    """Asks for the status ten times a second, over one connection; and rotates every second."""

    def __init__(self, service: ServiceProcess) -> None:
        self.answers = self.rotations = 0
        self.slowest = 0.0
        self._service = service
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask), threading.Thread(target=self._rotate),
        ]

    def _ask(self) -> None:
        with Client(self._service.socket) as client:
            while not self._end.wait(0.1):
                started = time.monotonic()
                client.ask("status", {}, timeout=60)
                self.slowest = max(self.slowest, time.monotonic() - started)
                self.answers += 1

    def _rotate(self) -> None:
        while not self._end.wait(1.0):
            # While the disk stalls, one waits for it.
            self._service.ask("rotate")
            self.rotations += 1

    def __enter__(self) -> Pollster:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.soak
def test_soak(tmp_path):
    """R71, R72: memory, descriptors, threads and pool are flat after the warm-up, and
    produced = stored + lost, to the record."""
    with Rig(tmp_path) as rig:
        disk = rig.disk
        rig.boot(rate=20_000_000, cpus=4)
        service = rig.start({"store.max_bytes": "256M", "segment.max_bytes": "32M"})
        samples: list[Sample] = []
        started = time.monotonic()
        with Pollster(service) as pollster:
            for number in range(SAMPLES):
                while time.monotonic() < started + SECONDS * (number + 1) / SAMPLES:
                    assert service.process.poll() is None, service.log()
                    time.sleep(0.2)
                if number in (SAMPLES // 3, 2 * SAMPLES // 3):
                    disk.freeze()
                    time.sleep(STALL_SECONDS)
                    disk.thaw()
                    service.wait_status(lambda status: status["healthy"])
                samples.append(Sample.of(service))
                print(f"\n  {time.monotonic() - started:6.0f} s  {samples[-1]}", end="")
        # All that was traced is drained now, and Xen has told all it ever will.
        service.ask("pause")
        warm, last = samples[SAMPLES // 4], samples[-1]
        # What a stall makes it use is given back within seconds.
        status = service.wait_status(lambda _: memory(service.pid) - warm.rss < RSS_GROWTH)
        assert service.stop() == 0
        print(f"\n  {pollster.answers:,} statuses, the slowest {pollster.slowest * 1e3:.0f} ms; "
              f"{pollster.rotations:,} rotations; {STALLS} stalls of {STALL_SECONDS:.0f} s")
        account_is_exact(rig, status)
    assert pollster.slowest < 5.0
    assert last.descriptors <= warm.descriptors
    assert last.threads <= warm.threads
    assert last.free_buffers >= status["pool"]["buffers"] - 2


def account_is_exact(rig: Rig, status: dict) -> None:
    """By the ledger, which has what retention deleted too."""
    ledger, trouble = Ledger.load(rig.store, Nanoseconds(0))
    assert trouble is None
    truth = rig.hypervisor.truth()
    produced = truths(truth, "produced").total()
    forgotten = truths(truth, "forgotten").total()
    kept = ledger.sums.records.total() - ledger.sums.marks.total()
    lost = sum(ledger.sums.lost_by_cause().values())
    print(
        f"  produced {produced:,} = stored {kept:,} ({ledger.deleted.records:,} deleted since) "
        f"+ lost {lost:,} + forgotten by Xen {forgotten:,}"
    )
    assert produced == kept + lost + forgotten
    assert lost == sum(status["lost"].values())
    rig.verify()
