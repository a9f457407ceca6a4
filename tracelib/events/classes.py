"""Trace classes and subclasses by name, and Xen's rule for what a mask lets through.

An event's class is a bit among 16-27 and its subclass one among 12-15. General, memory,
shadow and guest events have all four subclass bits set: they belong to no single one.
"""

from __future__ import annotations

from types import MappingProxyType

from tracelib.records import LOST_RECORDS, WRAP_BUFFER

CLASS_BITS = 0x0FFF0000
SUBCLASS_BITS = 0xF000

CLASSES: MappingProxyType[str, int] = MappingProxyType({
    "gen": 0x0001F000,
    "sched": 0x0002F000,
    "dom0op": 0x0004F000,
    "hvm": 0x0008F000,
    "mem": 0x0010F000,
    "pv": 0x0020F000,
    "shadow": 0x0040F000,
    "hw": 0x0080F000,
    "guest": 0x0800F000,
})

ALL_CLASSES = 0x0FFFF000

SUBCLASSES: MappingProxyType[str, int] = MappingProxyType({
    "sched.min": 0x00021000,
    "sched.class": 0x00022000,
    "sched.verbose": 0x00028000,
    "dom0op.domops": 0x00041000,
    "hvm.entryexit": 0x00081000,
    "hvm.handler": 0x00082000,
    "hvm.emul": 0x00084000,
    "pv.entry": 0x00201000,
    "pv.subcall": 0x00202000,
    "hw.pm": 0x00801000,
    "hw.irq": 0x00802000,
})

UNDIVIDED = frozenset({"gen", "mem", "shadow", "guest"})
"""Classes whose events have all subclass bits: any subclass bit of a mask lets them in."""

LEAVES: MappingProxyType[str, int] = MappingProxyType(
    dict(sorted({**SUBCLASSES, **{name: CLASSES[name] for name in UNDIVIDED}}.items(),
                key=lambda leaf: leaf[1]))
)  # fmt: skip
"""The finest parts that a mask can tell apart, by class."""


def passes(mask: int, event: int) -> bool:
    """Whether Xen records `event` under this mask: class bits and subclass bits must both
    meet (tb_event_mask in xen/common/trace.c). Lost and wrap records ask no mask."""
    if event in (LOST_RECORDS, WRAP_BUFFER):
        return True
    common = mask & event
    return bool(common & CLASS_BITS and common & SUBCLASS_BITS)


def describe(mask: int) -> str:
    """What a mask lets through, by the names that tracelib.masks takes."""
    if mask == 0:
        return "none"
    if not (mask & CLASS_BITS and mask & SUBCLASS_BITS):
        return f"nothing ({mask:#010x})"
    if mask & ALL_CLASSES == ALL_CLASSES:
        return "all"
    parts = []
    for bit in (1 << shift for shift in range(16, 28)):
        if mask & bit:
            parts += _describe_class(bit, mask & SUBCLASS_BITS)
    return ", ".join(parts)


def _describe_class(bit: int, subclasses: int) -> list[str]:
    name = next((name for name, bits in CLASSES.items() if bits & bit), None)
    if name is not None and (name in UNDIVIDED or subclasses == SUBCLASS_BITS):
        return [name]
    leaves = [leaf for leaf, bits in LEAVES.items() if passes(bit | subclasses, bits)]
    return leaves or [f"{bit | subclasses:#010x}"]
