"""The list of what is wrong in a trace, each thing once however often it is met."""

from __future__ import annotations

from tracelib.chunks import Problem


class ProblemList:
    """Several passes over the same file meet the same damage; `problems` has it once."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._seen: set[tuple[str, int, str]] = set()

    def add(self, file: str, offset: int, reason: str, missing_bytes: int | None = None) -> None:
        key = (file, offset, reason)
        if key not in self._seen:
            self._seen.add(key)
            self.problems.append(Problem(file, offset, reason, missing_bytes))
