"""The service from its first start to its last stop."""

from __future__ import annotations

from dom0 import ending, live, others, recovery, starting

CHECKS = (*starting.CHECKS, *live.CHECKS, *others.CHECKS, *recovery.CHECKS, *ending.CHECKS)
