"""What is fixed about xentrace's file (Xen's tools/xentrace/xentrace.c, write_buffer).

    offset  size  field
    0       4     0x2001f003: event 0x1f003 (cpu_change), two extra words, no TSC
    4       4     CPU number
    8       4     window size in bytes
    12      ...   the window: that CPU's records, whole, in the order Xen wrote them

The file is a row of these and nothing else: no magic, version, byte order, clock rate or
start time. All words are little-endian.
"""

from __future__ import annotations

import struct

from tracelib.records import CLASS_MASK, CPU_CHANGE, make_header

CPU_CHANGE_HEADER = make_header(CPU_CHANGE, 2, tsc=False)
MARK = struct.pack("<I", CPU_CHANGE_HEADER)
"""How a window starts; looked for, at any byte, behind damage."""

HEADER = struct.Struct("<III")
HEADER_BYTES = HEADER.size

CPU_LIMIT = 1 << 16
"""No Xen numbers its CPUs this high; a header that does is damaged."""

_FIXED_LAYOUTS = {36: "32-bit", 56: "64-bit"}
"""2005-2007: u32 cpu, u64 tsc, u32 event, five longs, unpadded."""
_FIXED_HEAD = struct.Struct("<IQI")
_FIXED_CPU_LIMIT = 4096
_FIXED_CHECKED = 16


def parse_header(data: bytes | memoryview, at: int) -> tuple[int, int] | None:
    """CPU and window size if a plausible cpu_change record lies at `at`, else None."""
    if at + HEADER_BYTES > len(data):
        return None
    header, cpu, size = HEADER.unpack_from(data, at)
    if header != CPU_CHANGE_HEADER or cpu >= CPU_LIMIT or size % 4:
        return None
    return cpu, size


def make_window(cpu: int, payload: bytes | memoryview) -> bytes:
    """One window, header first, as xentrace writes it."""
    return HEADER.pack(CPU_CHANGE_HEADER, cpu, len(payload)) + payload


def fixed_layout(head: bytes, *, whole: bool) -> str | None:
    """Name the layout of a file's first bytes if they are fixed records of 2005-2007.

    They have no magic either, so every record of the first few must look like one: a small
    CPU number, an event with class bits and without flags, and on each CPU a TSC that does
    not go back. `whole`: the bytes are the whole file.
    """
    for size, name in _FIXED_LAYOUTS.items():
        count = min(len(head) // size, _FIXED_CHECKED)
        if whole and len(head) % size:
            continue
        if count and all(_fixed_records(head, size, count)):
            return f"fixed {size}-byte records ({name}) of xentrace before 2008"
    return None


def _fixed_records(head: bytes, size: int, count: int) -> list[bool]:
    last: dict[int, int] = {}
    good = []
    for at in range(0, count * size, size):
        cpu, tsc, event = _FIXED_HEAD.unpack_from(head, at)
        good.append(
            cpu < _FIXED_CPU_LIMIT
            and 0 < event < 1 << 28
            and event & CLASS_MASK != 0
            and tsc >= last.get(cpu, 1)
        )
        last[cpu] = tsc
    return good
