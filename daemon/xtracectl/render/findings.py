"""What `verify` found: a line each, and a last line that sums up."""

from __future__ import annotations

import json as json_module
from collections import Counter

from tracelib.segment.findings import Finding, Severity


class Report:
    """One input's findings."""

    def __init__(self, name: str, *, json: bool) -> None:
        self._name = name
        self._json = json
        self._counts: Counter[Severity] = Counter()

    @property
    def errors(self) -> int:
        return self._counts[Severity.ERROR]

    def line(self, finding: Finding) -> str:
        """One finding, counted."""
        self._counts[finding.severity] += 1
        if not self._json:
            return str(finding)
        return json_module.dumps({
            "severity": finding.severity, "file": finding.file, "offset": finding.offset,
            "reason": finding.reason,
        })

    def summary(self) -> str:
        """ "x.trace: clean", or how much is wrong."""
        if not self._counts.total():
            return f"{self._name}: clean"
        parts = [
            f"{number} {severity}{'s' if number != 1 else ''}"
            for severity in Severity
            if (number := self._counts[severity])
        ]
        return f"{self._name}: {', '.join(parts)}"
