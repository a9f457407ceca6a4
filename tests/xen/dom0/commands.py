"""Programs, run with a limit; what they say, or an error that says what they said."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 90
"""Seconds for one command: emulated, under load, with time to spare."""

UNIT = "xtraced.service"


class CheckError(Exception):
    """Something is not as it should be."""


def require(holds: object, otherwise: str) -> None:
    """Raise CheckError unless it holds."""
    if not holds:
        raise CheckError(otherwise)


def find(pattern: str, text: str) -> str:
    """What the pattern's group matches; CheckError if the pattern does not."""
    found = re.search(pattern, text)
    if found is None:
        raise CheckError(f"no {pattern} in: {text[-400:]}")
    return found[1]


def run(*command: str, codes: tuple[int, ...] = (0,), timeout: float = PATIENCE) -> str:
    """Standard output; CheckError if the exit code is another."""
    code, output, errors = attempt(*command, timeout=timeout)
    if code not in codes:
        said = (errors + output).strip()[-1500:]
        raise CheckError(f"{' '.join(command)}: exit code {code}: {said}")
    return output


def attempt(*command: str, timeout: float = PATIENCE) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    try:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            check=False, timeout=timeout,
        )
    except subprocess.TimeoutExpired as exc:
        raise CheckError(f"{' '.join(command)}: no end after {timeout:.0f} s") from exc
    return answer.returncode, answer.stdout, answer.stderr


def wait_for(met: Callable[[], object], what: str, timeout: float = PATIENCE) -> float:
    """Seconds until `met` says so; CheckError if that takes too long."""
    started = time.monotonic()
    while not met():
        if time.monotonic() > started + timeout:
            raise CheckError(f"{what}: not after {timeout:.0f} s")
        time.sleep(0.5)
    return time.monotonic() - started


def properties(*names: str) -> dict[str, str]:
    """What systemd says of the service."""
    lines = run("systemctl", "show", UNIT, f"--property={','.join(names)}").splitlines()
    return dict(line.split("=", 1) for line in lines)


def status() -> dict[str, Any]:
    """What the service says of itself."""
    answer = json.loads(run("xtracectl", "status", "--json", codes=(0, 1)))
    require(isinstance(answer, dict), "status is no object")
    return dict(answer)
