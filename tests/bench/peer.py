"""Debian's xentrace on the rings that the service had before it.

It runs as it is, on stand-ins for Xen's libraries (tests/support/fakexen). What it lost is
what the hypervisor says that it dropped; its bytes are its file's.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.costs import Cost
from tests.bench.processes import cached_share, cpu_seconds, peak_rss, waits, written
from tests.support import fakexen
from tests.support.sim import Hypervisor


def why_not() -> str | None:
    """Why there can be no comparison on this machine; None if there can."""
    if fakexen.COMPILER is None:
        return "no C compiler for the stand-ins of Xen's libraries"
    return None if fakexen.XENTRACE.exists() else f"no {fakexen.XENTRACE} (xen-utils-4.17)"


def measure(
    hypervisor: Hypervisor, rate: int, seconds: float, settle: float, directory: Path
) -> Cost:
    """One run of xentrace: start, let it settle, measure, stop."""
    path = directory / "xentrace.trace"
    with _xentrace(hypervisor, path) as process:
        time.sleep(settle)
        pid = process.pid
        before, begin = _counts(hypervisor, pid, path), time.monotonic()
        time.sleep(seconds)
        after, took = _counts(hypervisor, pid, path), time.monotonic() - begin
        rss = peak_rss(pid)
    cached = cached_share([path])
    used = {name: after[name] - before[name] for name in after}
    return Cost(
        "xentrace", rate, took, int(used["bytes"]), int(used["inserted"]), int(used["dropped"]),
        used["cpu"], rss, cached, int(used["writes"]), int(used["waits"]),
    )  # fmt: skip


@contextmanager
def _xentrace(hypervisor: Hypervisor, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(fakexen.XENTRACE), "-D", "-e", "all", str(path)]
    environ = {**os.environ, **fakexen.environ(fakexen.built(), hypervisor.socket)}
    process = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _counts(hypervisor: Hypervisor, pid: int, path: Path) -> dict[str, float]:
    cpus = hypervisor.truth()["cpus"].values()
    return {
        "cpu": cpu_seconds(pid),
        "bytes": path.stat().st_size,
        "writes": written(pid)[1],
        "waits": waits(pid),
        "inserted": sum(cpu["inserted"] for cpu in cpus),
        "dropped": sum(cpu["dropped"] for cpu in cpus),
    }
