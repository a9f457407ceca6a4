"""What reading costs: `xtracectl summary` against xenalyze, in the same run, on the same files.

    python -m tests.bench.read [--size 1G] [--cpus 4] [--losses 20] [--trace FILE]...

The first file is made by the simulated hypervisor (seed and size decide all of it): guests
on so many CPUs, and now and then a ring that nobody empties in time. The second is of many
CPUs whose rings have little in them when they are emptied, so that there are a hundred times
as many windows: the bulk of a real host's capture looks like one or the other, depending on
how even its load is. --trace adds files, such as real captures; those are taken to be AMD's,
at 2445.4 MHz.

xenalyze runs twice: with -s alone, and with the options that make it count what our summary
counts anyway: ports, MMIO addresses and the time of each CPU. It has no counterpart for
model-specific registers, CPUID leaves, nested faults by page, percentiles of waits, gaps, or
volume; its percentiles are of samples, ours of all. Our rate is compared with the second.

A row a program: wall-clock seconds and seconds of CPU time (user and system, of the whole
process, start included), both the median of three runs that take turns; megabytes a second of
wall-clock time; how many times xenalyze's speed, by the clock and by CPU time, which is the
steadier one on a machine that does other things; the peak of its memory. Python's compiled
bytecode is there, as in any installation; output goes to /dev/null.
"""

from __future__ import annotations

import argparse
import os
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.machines import take
from tracelib.store import fsops
from tracelib.units import Nanoseconds, parse_size
from tracelib.xentrace.format import CPU_CHANGE_HEADER
from xtraced.sources.sim.hypervisor import Hypervisor
from xtraced.sources.sim.options import SimOptions
from xtraced.sources.sim.workload import GuestWorkload

_RATE = 20_000_000
_PAGES = 32
_STEP = 2_000_000
"""Nanoseconds between two looks at the guests."""
_ROUND = 10_000_000
"""Nanoseconds between two rounds of emptying the rings: 50 KB of 128 KiB on each of 4 CPUs."""
_LATE = 60_000_000
"""Nanoseconds without, from time to time: the rings overflow."""
_PATIENCE = 900
"""Seconds that xenalyze may take: on some files it never ends."""
_REAL_HZ = 2_445_400_000
_RUNS = 3

_EQUAL = "xenalyze, equal"
_OPTIONS = ("--report-pcpu", "--with-pio-enumeration", "--with-mmio-enumeration")
_MANY_CPUS = 32


@dataclass(frozen=True)
class Run:
    """How one program did on one file."""

    wall: float
    seconds: float
    """Of CPU time."""
    rss: int
    code: int | None
    """None: it was stopped."""


def simulate(path: Path, size: int, cpus: int, losses: int, pause: int = _ROUND) -> int:
    """Write an xentrace file of about so many bytes; the TSC rate. `pause` is between two
    rounds of emptying the rings, in nanoseconds."""
    options = SimOptions(cpus=cpus, rate=_RATE, deterministic=True, tbuf_pages=_PAGES)
    hypervisor = Hypervisor(options.online(), cpus)
    hypervisor.set_size(_PAGES)
    now = 10**9
    workload = GuestWorkload(options, hypervisor, Nanoseconds(now))
    workload.start(Nanoseconds(now))
    written, late = 0, size // (losses + 1)
    fd = fsops.create_exclusive(path)
    while written < size:
        wait = pause
        if losses and written >= late:
            late += size // (losses + 1)
            wait = _LATE
        for _ in range(wait // _STEP):
            now += _STEP
            workload.advance(Nanoseconds(now))
        for cpu, ring in hypervisor.memory.rings.items():
            payload = take(ring)
            window = struct.pack("<III", CPU_CHANGE_HEADER, cpu, len(payload)) + payload
            fsops.write_all(fd, window, written, path=path)
            written += len(window)
    fsops.close(fd, path=path)
    return options.tsc_hz


def measure(command: Sequence[str]) -> Run:
    """Run a program to its end, its output thrown away. Its CPU time and memory are those
    that the kernel counted for it alone."""
    limited = ["timeout", "--kill-after=1", str(_PATIENCE), *command]
    with subprocess.Popen(
        [sys.executable, "-c", _MEASURED, *limited],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        wall, seconds, rss, code = child.stdout.read().split()
    # What timeout(1) says of a command that it had to stop.
    stopped = code in ("124", "137")
    return Run(float(wall), float(seconds), int(rss) << 10, None if stopped else int(code))


# A parent of its own for each run: getrusage keeps the maximum of all children.
_MEASURED = """
import resource, subprocess, sys, time
start = time.monotonic()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
wall = time.monotonic() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(wall, used.ru_utime + used.ru_stime, used.ru_maxrss, code)
"""


def compare(path: Path, hz: int, *, svm: bool) -> None:
    """The programs on one file, a row each."""
    size = path.stat().st_size
    xenalyze = ["xenalyze", f"--cpu-hz={hz}", *(["--svm-mode"] if svm else []), "-s", str(path)]
    commands = {
        "xenalyze -s": xenalyze,
        _EQUAL: [*xenalyze, *_OPTIONS],
        "xtracectl": [sys.executable, "-m", "xtracectl", "summary", str(path), f"--cpu-hz={hz}"],
    }
    measure(["cat", str(path)])  # so that the page cache is the same for all
    measure(commands["xtracectl"])  # so that the bytecode is there
    rounds = [{name: measure(command) for name, command in commands.items()} for _ in range(_RUNS)]
    runs = {name: _median([one[name] for one in rounds]) for name in commands}
    print(f"{path.name}, {size / 1e6:.0f} MB")
    print(f"  {'':<16}{'wall s':>8}{'CPU s':>8}{'MB/s':>8}{'wall':>9}{'CPU':>9}{'MB RSS':>9}")
    base = runs[_EQUAL]
    for name, run in runs.items():
        end = "stopped" if run.code is None else f"exit {run.code}"
        print(
            f"  {name:<16}{run.wall:8.2f}{run.seconds:8.2f}{size / 1e6 / run.wall:8.0f}"
            f"{base.wall / run.wall:7.2f} x{base.seconds / run.seconds:7.2f} x"
            f"{run.rss / 1e6:9.1f}  {end}"
        )


def _median(runs: Sequence[Run]) -> Run:
    """Each number's own."""
    return Run(
        statistics.median(run.wall for run in runs), statistics.median(run.seconds for run in runs),
        max(run.rss for run in runs), runs[0].code,
    )  # fmt: skip


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """The options of the reading benchmarks."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--size", type=parse_size, default=200 << 20)
    parser.add_argument("--cpus", type=int, default=4)
    parser.add_argument("--losses", type=int, default=20, help="how often the rings overflow")
    parser.add_argument("--trace", type=Path, action="append", default=[])
    return parser


def sample(place: Path, options: argparse.Namespace) -> tuple[Path, int]:
    """The simulated file in a folder, and its TSC rate."""
    made = place / "simulated.trace"
    return made, simulate(made, options.size, options.cpus, options.losses)


def main(argv: Sequence[str] | None = None) -> None:
    parser = make_parser(__doc__)
    parser.set_defaults(size=1 << 30)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as place:
        keep_bytecode(Path(place))
        made, hz = sample(Path(place), options)
        compare(made, hz, svm=False)
        made.unlink()
        short = Path(place, "short-windows.trace")
        hz = simulate(short, options.size // 4, _MANY_CPUS, options.losses, pause=_STEP)
        compare(short, hz, svm=False)
        for path in options.trace:
            compare(path, _REAL_HZ, svm=True)


def keep_bytecode(place: Path) -> None:
    """Have the programs that are measured find theirs, as they do where they are installed."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(place / "bytecode")


if __name__ == "__main__":
    main()
