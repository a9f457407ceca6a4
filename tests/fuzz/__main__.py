"""`make fuzz`: mutate good inputs and feed them to every target, for FUZZ_SECONDS.

    python -m tests.fuzz [--seconds 300] [--seed N] [TARGET ...]

An input that is answered by anything but an error of ours is written to a file, named, and
ends the run with 1. Runs can be repeated: everything follows from the seed, which is printed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from tests.fuzz.mutate import mutated
from tests.fuzz.targets import TARGETS
from tracelib.errors import XtraceError

_ROUND = 20
"""So many inputs of a target, then the next one's turn."""
_SLOW = 10.0
"""Seconds for one small input that count as no end."""


def attempt(name: str, data: bytes) -> str | None:
    """Feed one input; what is wrong with how it was answered."""
    started = time.monotonic()
    try:
        with redirect_stdout(StringIO()):
            TARGETS[name].run(data)
    except XtraceError:
        pass
    except Exception:  # noqa: BLE001 - that is what we look for
        return traceback.format_exc()
    took = time.monotonic() - started
    return f"took {took:.0f} s" if took > _SLOW else None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--save", type=Path, default=Path.cwd(), help="where to leave inputs")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    chance = random.Random(seed)
    names = options.targets or list(TARGETS)
    seeds = {name: list(TARGETS[name].seeds()) for name in names}
    done: Counter[str] = Counter()
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        for name in names:
            for _ in range(_ROUND):
                data = mutated(chance.choice(seeds[name]), chance)
                done[name] += 1
                if (trouble := attempt(name, data)) is not None:
                    options.save.mkdir(parents=True, exist_ok=True)
                    path = options.save / f"fuzz-{name}-{seed}-{done[name]}"
                    path.write_bytes(data)
                    print(f"{trouble}\n{name}: input left in {path}", file=sys.stderr)
                    return 1
    for name in names:
        print(f"  {name:<10} {done[name]:>9,} inputs")
    print(f"  {done.total():,} in all, none answered wrongly")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
