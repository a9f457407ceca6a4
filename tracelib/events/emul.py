"""Events of the devices that Xen emulates for HVM guests (0x84000): timers and the PIC.

HPET and LAPIC log their periods in 64 bits; PIT and RTC cut theirs to 32. All are ns.
"""

from __future__ import annotations

from functools import partial

from tracelib.events.layout import event, table

_timed = partial(event, tsc=True)

HVM_EMUL = table(
    _timed(0x84001, "emul_hpet_start_timer", "tn:u32 irq:u32 delta:u64/ns period:u64/ns"),
    _timed(0x84002, "emul_pit_start_timer", "delta:u32/ns period:u32/ns"),
    _timed(0x84003, "emul_rtc_start_timer", "delta:u32/ns period:u32/ns"),
    _timed(0x84004, "emul_lapic_start_timer", "delta:u64/ns period:u64/ns irq:u32"),
    _timed(0x84005, "emul_hpet_stop_timer", "tn:u32"),
    _timed(0x84006, "emul_pit_stop_timer"),
    _timed(0x84007, "emul_rtc_stop_timer"),
    _timed(0x84008, "emul_lapic_stop_timer"),
    _timed(0x84009, "emul_pit_timer_cb"),
    _timed(0x8400A, "emul_lapic_timer_cb"),
    _timed(0x8400B, "emul_pic_int_output", "int_output:u32 is_master:u32 irq:s32/opt"),
    _timed(0x8400C, "emul_pic_kick", "irq:s32/opt"),
    _timed(0x8400D, "emul_pic_intack", "is_master:u32 irq:s32/opt"),
    _timed(0x8400E, "emul_pic_posedge", "irq:u32"),
    _timed(0x8400F, "emul_pic_negedge", "irq:u32"),
    _timed(0x84010, "emul_pic_pend_irq_call", "accept:u32 int_output:u32"),
    _timed(0x84011, "emul_lapic_pic_intr", "target:u32 accept:u32"),
)
