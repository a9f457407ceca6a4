"""Events of shadow paging (0x40f000): none has a time stamp.

Bits 8-11 of the number are the guest's paging levels less two. They decide how wide the
fields are: a page table entry has 32 bits with two levels, else 64; an address has 64
with four. Xen packs the structs, so the records are 20 or 28 bytes long where an
unpacked struct would have 24 or 32.
"""

from __future__ import annotations

from functools import partial

from tracelib.events.layout import EventType, event, table

_untimed = partial(event, tsc=False)


def _by_level(minor: int, name: str, *layouts: str) -> tuple[EventType, ...]:
    """Rows for two, three and four levels; ENTRY and ADDRESS stand for the widths."""
    rows: list[EventType] = []
    for levels, entry, address in ((2, "u32", "u32"), (3, "u64", "u32"), (4, "u64", "u64")):
        number = 0x40F000 | levels - 2 << 8 | minor
        for layout in layouts:
            # Only with three levels can one instruction be emulated more than once; with
            # others, Xen before 4.19 leaves rubbish in these bits.
            sized = layout.replace("ENTRY", entry).replace("ADDRESS", address)
            sized = sized.replace("COUNT", "u3" if levels == 3 else "u3?")
            rows += _untimed(number, name, f"{sized} levels={levels}")
    return tuple(rows)


_VA = "va:ADDRESS/x"
_ENTRY_VA = "gl1e:ENTRY/x va:ADDRESS/x flags:u32/shadow"
_GFN_VA = ("gfn:ENTRY/x va:ADDRESS/x flags:u32/shadow", "gfn:ENTRY/x va:ADDRESS/x")
"""With the flags since Xen 4.19."""
_EMULATE = "gl1e:ENTRY/x write_val:ENTRY/x va:ADDRESS/x flags:u29/shadow emulation_count:COUNT"
_GFN = ("gfn:u64/x", "gfn:u32/x")

SHADOW = table(
    _by_level(1, "shadow_not_shadow", _ENTRY_VA),
    _by_level(2, "shadow_fast_propagate", _VA),
    _by_level(3, "shadow_fast_mmio", _VA),
    _by_level(4, "shadow_false_fast_path", _VA),
    _by_level(5, "shadow_mmio", _VA),
    _by_level(6, "shadow_fixup", _ENTRY_VA),
    _by_level(7, "shadow_domf_dying", _VA),
    _by_level(8, "shadow_emulate", _EMULATE),
    _by_level(9, "shadow_emulate_unshadow_user", *_GFN_VA),
    _by_level(10, "shadow_emulate_unshadow_evtinj", *_GFN_VA),
    _by_level(11, "shadow_emulate_unshadow_unhandled", *_GFN_VA),
    # These come from the common code, which puts no levels into the number.
    _untimed(0x40F00C, "shadow_wrmap_bf", *_GFN),
    _untimed(0x40F00D, "shadow_prealloc_unpin", *_GFN),
    _untimed(0x40F00E, "shadow_resync_full", *_GFN),
    _untimed(0x40F00F, "shadow_resync_only", *_GFN),
)
