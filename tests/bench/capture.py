"""What collecting costs: the service on the simulated hypervisor, at several rates.

    python -m tests.bench.capture [--rates 50M,100M,200M] [--seconds 10] [--store DIR]

A row a rate: CPU seconds (user + system) of the service alone a GB of records, records lost
by cause, its memory, what it left in the page cache, and how large its writes were. The
simulated hypervisor is a process of its own and is not counted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.service import ServiceProcess
from tests.support.sim import Hypervisor
from tracelib.units import format_size, parse_size

TICK = os.sysconf("SC_CLK_TCK")
GB = 1e9


@dataclass(frozen=True)
class Result:
    rate: int
    bytes: int
    records: int
    lost: dict[str, int]
    cpu: float
    seconds: float
    rss: int
    cached: int
    write_sizes: dict[str, int]
    wakes: dict[str, int]

    def row(self) -> str:
        lost = sum(self.lost.values())
        share = 100 * self.cpu / self.seconds
        mean = self.bytes / max(1, sum(self.write_sizes.values()))
        wakes = self.wakes["event"] / self.seconds
        return (
            f"{self.rate / 1e6:8.0f} {self.bytes / self.seconds / 1e6:8.1f} "
            f"{self.records / 1e6:9.2f} {lost:9d} {self.cpu / (self.bytes / GB):9.2f} "
            f"{share:6.1f} {self.rss / 1e6:8.1f} {self.cached / (self.bytes / GB) / 1e6:10.2f} "
            f"{format_size(int(mean)):>11} {wakes:8.0f}"
        )


HEADER = (
    "    MB/s  stored    records      lost  CPU s/GB   CPU%   RSS MB  cache MB/GB   mean write"
    "  wakes/s"
)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its threads so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def peak_rss(pid: int) -> int:
    """VmHWM, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def cached_bytes(directory: Path) -> int:
    """How much of the directory's files the page cache holds, by fincore(1)."""
    files = [str(path) for path in directory.iterdir() if path.is_file() and path.stat().st_size]
    command = ["fincore", "--bytes", "--raw", "--noheadings", "--output", "RES", *files]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sum(int(line) for line in out.split())


def measure(rate: int, seconds: float, directory: Path) -> Result:
    """One run: start, let it settle, measure, stop."""
    store = directory / "store"
    with (
        Hypervisor(directory / "hypervisor", rate=rate, tbuf_pages=32) as hypervisor,
        ServiceProcess(
            store, directory / "control.sock", source="sim",
            settings={"sim.socket": str(hypervisor.socket), "store.keep_free": "1G"},
        ) as service,
    ):
        service.wait_ready()
        time.sleep(1)
        before, cpu, begin = service.status(), cpu_seconds(service.pid), time.monotonic()
        time.sleep(seconds)
        after, cpu, took = (
            service.status(), cpu_seconds(service.pid) - cpu, time.monotonic() - begin,
        )
        rss = peak_rss(service.pid)
        cached = cached_bytes(store)
    lost = {cause: n - before["lost"].get(cause, 0) for cause, n in after["lost"].items()}
    sizes = {
        size: n - before["writer"]["sizes"].get(size, 0)
        for size, n in after["writer"]["sizes"].items()
    }
    wakes = {why: after["wakes"][why] - before["wakes"][why] for why in ("event", "timer")}
    return Result(
        rate, after["bytes"] - before["bytes"], after["records"] - before["records"], lost,
        cpu, took, rss, cached, sizes, wakes,
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.bench.capture")
    parser.add_argument("--rates", default="50M,100M,200M")
    default = float(os.environ.get("XTRACED_BENCH_SECONDS", "10"))
    parser.add_argument("--seconds", type=float, default=default)
    parser.add_argument("--store", type=Path, help="where to write (default: a temporary one)")
    options = parser.parse_args()
    print(HEADER)
    histograms = []
    for rate in options.rates.split(","):
        directory = Path(tempfile.mkdtemp(prefix="bench-", dir=options.store))
        try:
            # Rates are decimal: 100M is 100 MB/s.
            wanted = parse_size(rate) * 10**6 >> 20 if rate.endswith("M") else parse_size(rate)
            result = measure(wanted, options.seconds, directory)
        finally:
            shutil.rmtree(directory)
        print(result.row(), flush=True)
        histograms.append(result)
    print("\nwrites by size (largest power of two not above it):")
    for result in histograms:
        sizes = ", ".join(
            f"{format_size(int(size))}: {count}" for size, count in result.write_sizes.items()
        )
        print(f"{result.rate / 1e6:8.0f} MB/s  {sizes}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
