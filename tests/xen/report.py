"""What was checked, a line each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PASS, FAIL = "PASS", "FAIL"


class Report:
    """Collects lines, those of the boots and those of the host."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    def say(self, text: str) -> None:
        print(text, flush=True)

    def line(self, line: str) -> None:
        """A line that a scenario printed: counted if it is one of a check."""
        self.passed += line.startswith(f"{PASS} ")
        self.failed += line.startswith(f"{FAIL} ")
        self.say(line)

    def fail(self, what: str) -> None:
        self.line(f"{FAIL} {what}")

    def check(self, check: Callable[..., str], *args: Any) -> None:
        """Run one check: its docstring says what holds, its answer is the evidence."""
        name = (check.__doc__ or check.__name__).partition("\n")[0].rstrip(".")
        started = time.monotonic()
        try:
            evidence = check(*args)
        except Exception as exc:  # noqa: BLE001 - whatever went wrong, the next check may not.
            self.fail(f"{name}: {type(exc).__name__}: {exc}")
        else:
            seconds = time.monotonic() - started
            self.line(f"{PASS} {name} [{seconds:.0f} s]" + (f": {evidence}" if evidence else ""))

    def finish(self) -> int:
        """Say how many; the exit code."""
        self.say(f"{self.passed} passed, {self.failed} failed")
        return 0 if self.passed and not self.failed else 1
