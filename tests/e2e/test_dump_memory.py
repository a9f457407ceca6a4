"""Memory does not grow with the trace."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from tests.support.xtracectl import PATIENCE, info
from tracelib.records import make_record
from tracelib.xentrace.format import make_window

LIMIT = 1 << 30
ALLOWED_GROWTH = 12 << 20


def write_trace(path, rounds: int) -> int:
    """Windows of 64 KiB on four CPUs, in rounds; the number of records."""
    count = 4000
    serial = 0
    with path.open("wb") as file:
        for _ in range(rounds):
            records = b"".join(
                make_record(0x28004, 0, 1, tsc=1_000_000 + (serial + at) * 10)
                for at in range(count)
            )
            serial += count
            for cpu in range(4):
                file.write(make_window(cpu, records))
    return rounds * count * 4


MEASURED = """
import sys
from pathlib import Path
from xtracectl.cli import main
code = main(sys.argv[1:])
(line,) = (l for l in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in l)
print(line.split()[1], file=sys.stderr)
sys.exit(code)
"""
"""The command, and then its peak of resident memory in KiB. (What wait4 says of a child
includes the memory that its parent had when it forked.)"""


def peak_memory(*words) -> int:
    """Highest resident size of a run that may have 1 GiB of address space, in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, words)], stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False, timeout=PATIENCE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int(done.stderr.split()[-1]) << 10


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """A trace, and one eight times as long."""
    directory = tmp_path_factory.mktemp("traces")
    short, long = directory / "short.trace", directory / "long.trace"
    assert write_trace(short, 15) == info(short)["records"]
    write_trace(long, 120)
    return short, long


@pytest.mark.parametrize(
    "words",
    [
        ("info",), ("summary",), ("verify",), ("dump",), ("dump", "--format", "json"),
        ("dump", "--format", "xentrace"), ("dump", "--event", "vmexit"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_flat(traces, words):
    """R51: within 1 GiB of address space, and as much for a long trace as for a short one."""
    short, long = traces
    assert long.stat().st_size == 8 * short.stat().st_size
    first, second = peak_memory(*words, short), peak_memory(*words, long)
    assert second < first + ALLOWED_GROWTH, (first, second)
    assert second < 100 << 20
