"""What collecting costs: the service, and xentrace after it on the same rings.

    python -m tests.bench.capture [--rates 50M,100M,200M] [--seconds 10] [--store DIR]

Two rows a rate: CPU seconds (user + system) of the collecting process alone a GB of records,
records lost, its memory, what it left in the page cache, and how large its writes were; then
the ratios. The simulated hypervisor is a process of its own and is not counted; nor is the
kernel writing back what xentrace left in the page cache. Both use stand-ins for Xen's
libraries. Without xentrace or a C compiler, there is the service alone, on the `sim` source.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench import peer
from tests.bench.costs import HEADER, Cost, ratios
from tests.bench.processes import cached_share, cpu_seconds, peak_rss
from tests.support import fakexen
from tests.support.service import ServiceProcess
from tests.support.sim import Hypervisor
from tracelib.units import format_size, parse_size

RING_PAGES = 32
"""xentrace's default."""
SETTLE = 1.0


def service_on(hypervisor: Hypervisor, directory: Path) -> ServiceProcess:
    """By way of the xen source if xentrace is there to compare with."""
    settings = {"store.keep_free": "1G"}
    where: dict[str, Any] = {"source": "sim"}
    if peer.why_not() is None:
        environ = fakexen.environ(fakexen.built(), hypervisor.socket)
        where = {"source": "xen", "environ": environ}
    else:
        settings |= hypervisor.settings
    return ServiceProcess(
        directory / "store", directory / "control.sock", settings=settings, **where
    )


def measure(
    hypervisor: Hypervisor, rate: int, seconds: float, directory: Path
) -> tuple[Cost, dict[str, int]]:
    """One run of the service: start, let it settle, measure, stop. Also its writes by size."""
    with service_on(hypervisor, directory) as service:
        service.wait_ready()
        time.sleep(SETTLE)
        before, cpu, begin = service.status(), cpu_seconds(service.pid), time.monotonic()
        time.sleep(seconds)
        after, cpu, took = (
            service.status(), cpu_seconds(service.pid) - cpu, time.monotonic() - begin,
        )
        rss = peak_rss(service.pid)
    # Not while it may rename a segment.
    cached = cached_share((directory / "store").iterdir())
    sizes = {
        size: n - before["writer"]["sizes"].get(size, 0)
        for size, n in after["writer"]["sizes"].items()
    }
    cost = Cost(
        "xtraced", rate, took, after["bytes"] - before["bytes"],
        after["records"] - before["records"],
        sum(after["lost"].values()) - sum(before["lost"].values()), cpu, rss, cached,
        sum(sizes.values()), after["wakes"]["event"] - before["wakes"]["event"],
    )  # fmt: skip
    return cost, sizes


def compare(rate: int, seconds: float, directory: Path) -> dict[str, int]:
    """Print a rate's rows; the service's writes by size."""
    with Hypervisor(directory / "hypervisor", rate=rate, tbuf_pages=RING_PAGES) as hypervisor:
        ours, sizes = measure(hypervisor, rate, seconds, directory)
        print(ours.row(), flush=True)
        if peer.why_not() is None:
            theirs = peer.measure(hypervisor, rate, seconds, SETTLE, directory)
            print(theirs.row(), ratios(ours, theirs), sep="\n", flush=True)
    return sizes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.bench.capture")
    parser.add_argument("--rates", default="50M,100M,200M")
    default = float(os.environ.get("XTRACED_BENCH_SECONDS", "10"))
    parser.add_argument("--seconds", type=float, default=default)
    parser.add_argument("--store", type=Path, help="where to write (default: a temporary one)")
    options = parser.parse_args()
    if reason := peer.why_not():
        print(f"xentrace is not compared: {reason}")
    print(HEADER)
    histograms: dict[str, dict[str, int]] = {}
    for rate in options.rates.split(","):
        directory = Path(tempfile.mkdtemp(prefix="bench-", dir=options.store))
        try:
            # Rates are decimal: 100M is 100 MB/s.
            wanted = parse_size(rate) * 10**6 >> 20 if rate.endswith("M") else parse_size(rate)
            histograms[rate] = compare(wanted, options.seconds, directory)
        finally:
            shutil.rmtree(directory)
    print("\nxtraced's writes by size (largest power of two not above it):")
    for rate, sizes in histograms.items():
        row = ", ".join(f"{format_size(int(size))}: {count}" for size, count in sizes.items())
        print(f"{rate:>8}B/s  {row}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
