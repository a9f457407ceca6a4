"""The service from its first start to its last stop, with a guest beside it."""

from __future__ import annotations

from dom0 import ending, live, others, recovery, starting

# In the order of the story: what is recorded until `rotate` has no gap, so that xenalyze can
# read it; whatever breaks the stream comes later.
CHECKS = (*starting.CHECKS, *live.CHECKS, *others.CHECKS, *recovery.CHECKS, *ending.CHECKS)
