"""Memory events (0x10f000). Only the grant events carry a time stamp.

Until September 2021 (Xen 4.16) the layouts that end in dom and order had 16 bits for each
and, on 64-bit builds, a word of stack rubbish behind them; since then 32 bits for each.
The length is the same, so the version of Xen decides, and without one the newer form is
assumed. 32-bit builds had no rubbish, so their records are a word shorter.
"""

from __future__ import annotations

from functools import partial

from tracelib.events.layout import event, table

_timed = partial(event, tsc=True)
_untimed = partial(event, tsc=False)
_before_4_16 = partial(event, tsc=False, until=(4, 16))

MEM = table(
    _timed(0x10F001, "page_grant_map", "dom:u32"),
    _timed(0x10F002, "page_grant_unmap", "dom:u32"),
    _timed(0x10F003, "page_grant_transfer", "dom:u32"),
    _untimed(0x10F004, "set_p2m_entry", "gfn:u64/x mfn:u64/x p2mt:u32 dom:u16 order:u16"),
    _before_4_16(0x10F005, "decrease_reservation", "gfn:u64/x dom:u16 order:u16 _:u32"),
    _untimed(0x10F005, "decrease_reservation", "gfn:u64/x dom:u32 order:u32",
             "gfn:u64/x dom:u16 order:u16"),
    _before_4_16(0x10F010, "pod_populate", "gfn:u64/x mfn:u64/x dom:u16 order:u16 _:u32"),
    _untimed(0x10F010, "pod_populate", "gfn:u64/x mfn:u64/x dom:u32 order:u32",
             "gfn:u64/x mfn:u64/x dom:u16 order:u16"),
    _before_4_16(0x10F011, "pod_zero_reclaim", "gfn:u64/x mfn:u64/x dom:u16 order:u16 _:u32"),
    _untimed(0x10F011, "pod_zero_reclaim", "gfn:u64/x mfn:u64/x dom:u32 order:u32",
             "gfn:u64/x mfn:u64/x dom:u16 order:u16"),
    # Had no order then, only rubbish in its place.
    _before_4_16(0x10F012, "pod_superpage_splinter", "gfn:u64/x dom:u16 _:u16 _:u32"),
    _untimed(0x10F012, "pod_superpage_splinter", "gfn:u64/x dom:u32 order:u32",
             "gfn:u64/x dom:u16 _:u16"),
)  # fmt: skip
