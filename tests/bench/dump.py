"""What the full text dump costs: `xtracectl dump` against `xenalyze -a`, on the same files.

    python -m tests.bench.dump [--size 200M] [--cpus 4] [--losses 20] [--trace FILE]...

The files are those of tests.bench.read. A row a file and program: seconds of CPU time (user
and system, of the whole process, start included), records a second, how many times
xenalyze's speed, and the peak of its memory. Python's compiled bytecode is there, as in any
installation; output goes to /dev/null.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bench.read import Run, keep_bytecode, make_parser, measure, sample

_ROUNDS = 3
"""The best of so many runs counts, for both."""
_REAL_HZ = 2_445_400_000


def compare(path: Path, hz: int, *, svm: bool) -> None:
    """Both programs on one file, a row each."""
    ours = [sys.executable, "-m", "xtracectl", "dump", str(path), f"--cpu-hz={hz}"]
    theirs = ["xenalyze", f"--cpu-hz={hz}", *(["--svm-mode"] if svm else []), "-a", str(path)]
    records = _records(path)
    best = {"xenalyze": _best(theirs), "xtracectl": _best(ours)}
    print(f"{path.name}, {records} records as text")
    for name, run in best.items():
        end = "stopped" if run.code is None else f"exit {run.code}"
        print(
            f"  {name:<10} {run.seconds:8.2f} s {records / 1e6 / run.seconds:8.2f} M records/s "
            f"{best['xenalyze'].seconds / run.seconds:7.1f} x {run.rss / 1e6:8.1f} MB RSS  {end}"
        )


def _records(path: Path) -> int:
    words = [sys.executable, "-m", "xtracectl", "info", "--json", str(path)]
    done = subprocess.run(words, capture_output=True, check=True)
    return int(json.loads(done.stdout)["records"])


def _best(command: Sequence[str]) -> Run:
    return min((measure(command) for _ in range(_ROUNDS)), key=lambda run: run.seconds)


def main(argv: Sequence[str] | None = None) -> None:
    options = make_parser(__doc__).parse_args(argv)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as place:
        keep_bytecode(Path(place))
        made, hz = sample(Path(place), options)
        compare(made, hz, svm=False)
        for path in options.trace:
            compare(path, _REAL_HZ, svm=True)


if __name__ == "__main__":
    main()
