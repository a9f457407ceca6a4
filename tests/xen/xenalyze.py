"""Debian's xenalyze as a second opinion on VM exits."""

from __future__ import annotations

import re
import subprocess
import threading
from collections import Counter
from pathlib import Path

_PATIENCE = 120
"""Seconds; on some traces it runs for ten minutes."""
_MOST_LINES = 20_000_000

_EXIT = re.compile(r"vmexit exit_reason (?:VMEXIT_)?(\w+)")


class XenalyzeError(Exception):
    """It failed, or did not come to an end."""


def exits(trace: Path, tsc_hz: int) -> Counter[str]:
    """VM exits of an xentrace file from an AMD machine, by reason as SVM names it.

    Raises XenalyzeError.
    """
    counts: Counter[str] = Counter()
    command = ["xenalyze", "--svm-mode", f"--cpu-hz={tsc_hz}", "--dump-all", str(trace)]
    # It complains about each exit that Xen gives no handler for; hundreds of thousands of times.
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, errors="replace",
    ) as xenalyze:
        assert xenalyze.stdout is not None
        limit = threading.Timer(_PATIENCE, xenalyze.kill)
        limit.start()
        for number, line in enumerate(xenalyze.stdout):
            if found := _EXIT.search(line):
                counts[found[1]] += 1
            if number > _MOST_LINES:
                xenalyze.kill()
        limit.cancel()
    if xenalyze.returncode:
        raise XenalyzeError(f"xenalyze {trace.name}: exit code {xenalyze.returncode}")
    return counts
