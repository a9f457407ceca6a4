"""What `verify` finds, one value a fault."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Severity(enum.StrEnum):
    """Errors are wrong or missing bytes; warnings are odd and may have a harmless cause."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, and where it is."""

    severity: Severity
    file: str
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.file}: offset {self.offset}: {self.reason}"
