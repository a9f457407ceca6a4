"""Events of PV guests (0x201000 entries into Xen, 0x202000 hypercalls inside a multicall).

0x100 in the number means 64-bit addresses, except for hypercalls, which say it of each
argument by itself.
"""

from __future__ import annotations

from functools import partial

from tracelib.events.layout import EventType, event, table

_timed = partial(event, tsc=True)


def hypercall_arguments(extra: tuple[int, ...]) -> dict[str, int]:
    """The arguments that a hypercall record holds, as "a0" to "a5".

    Bits 20-31 of the first word have two bits for each: 1 a 32-bit argument is there,
    2 a 64-bit one. What the words no longer hold is left out.
    """
    arguments = {}
    at = 1
    for number in range(6):
        size = extra[0] >> (20 + 2 * number) & 3
        if size not in (1, 2) or at + size > len(extra):
            continue
        high = extra[at + 1] << 32 if size == 2 else 0
        arguments[f"a{number}"] = extra[at] | high
        at += size
    return arguments


def _hypercall(number: int, name: str) -> tuple[EventType, ...]:
    layouts = ("op:u20/hypercall _:u12" + " _:u32" * arguments for arguments in range(7))
    return _timed(number, name, *layouts, tail=hypercall_arguments)


PV_ENTRY = table(
    # Until Xen 4.3.
    _timed(0x201001, "hypercall", "eip:u32/x op:u32/hypercall"),
    _timed(0x201101, "hypercall", "rip:u64/x op:u32/hypercall"),
    _timed(0x201003, "trap", "eip:u32/x trapnr:u15/trap use_error_code:u1 error_code:u16/x"),
    _timed(0x201103, "trap", "rip:u64/x trapnr:u15/trap use_error_code:u1 error_code:u16/x"),
    _timed(0x201004, "page_fault", "eip:u32/x addr:u32/x error_code:u32/x"),
    _timed(0x201104, "page_fault", "rip:u64/x addr:u64/x error_code:u32/x"),
    _timed(0x201005, "forced_invalid_op", "eip:u32/x"),
    _timed(0x201105, "forced_invalid_op", "rip:u64/x"),
    _timed(0x201006, "emulate_privop", "eip:u32/x"),
    _timed(0x201106, "emulate_privop", "rip:u64/x"),
    _timed(0x201007, "emulate_4gb", "eip:u32/x"),
    _timed(0x201107, "emulate_4gb", "rip:u64/x"),
    _timed(0x201008, "math_state_restore"),
    _timed(0x201108, "math_state_restore"),
    _timed(0x201009, "paging_fixup", "eip:u32/x addr:u32/x"),
    _timed(0x201109, "paging_fixup", "rip:u64/x addr:u64/x"),
    _timed(0x20100A, "gdt_ldt_mapping_fault", "eip:u32/x offset:u32/x"),
    _timed(0x20110A, "gdt_ldt_mapping_fault", "rip:u64/x offset:u64/x"),
    _timed(0x20100B, "ptwr_emulation", "pte:u32/x addr:u32/x eip:u32/x"),
    _timed(0x20110B, "ptwr_emulation", "pte:u64/x addr:u64/x rip:u64/x"),
    _timed(0x20100C, "ptwr_emulation_pae", "pte:u64/x addr:u32/x eip:u32/x"),
    _hypercall(0x20100D, "hypercall"),
)

PV_SUBCALL = _hypercall(0x20200E, "hypercall_subcall")
