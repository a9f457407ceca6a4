# cython: annotation_typing=False
"""The counter that Xen stamps its records with on x86, read here and now.

One instruction, compiled: no system call and no library has it, and machine code made at
run time is what the service's unit forbids (MemoryDenyWriteExecute=).
"""

from __future__ import annotations

from tracelib.ring import counter


def read_tsc() -> int | None:
    """Cycles; None where nothing is compiled, and on other processors: an Arm dom0 cannot
    read the physical counter that Xen uses there."""
    now = counter.read()
    return now if now else None
