"""What a process used, by /proc, and what its files left in the page cache."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its threads so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def peak_rss(pid: int) -> int:
    """VmHWM, in bytes."""
    return _line(pid, "status", "VmHWM") << 10


def waits(pid: int) -> int:
    """How often the main thread has gone to sleep."""
    return _line(pid, "status", "voluntary_ctxt_switches")


def written(pid: int) -> tuple[int, int]:
    """Bytes and calls of write(2) so far."""
    return _line(pid, "io", "wchar"), _line(pid, "io", "syscw")


def _line(pid: int, file: str, name: str) -> int:
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def cached_share(files: Iterable[Path]) -> float:
    """Which part of these files the page cache holds, by fincore(1)."""
    names = [str(path) for path in files if path.is_file() and path.stat().st_size]
    command = ["fincore", "--bytes", "--raw", "--noheadings", "--output", "RES,SIZE", *names]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [[int(number) for number in line.split()] for line in out.splitlines()]
    return sum(row[0] for row in rows) / sum(row[1] for row in rows)
