"""The processor's time-stamp counter, for cycles.py; counter.pxd has the real one."""

from __future__ import annotations


def read() -> int:
    """0: plain Python cannot execute rdtsc."""
    return 0
