"""Events of the hardware: power management (0x801000) and interrupts (0x802000)."""

from __future__ import annotations

from functools import partial

from tracelib.events.layout import event, table

_timed = partial(event, tsc=True)

_VECTOR_MASK = "irq:u16 vec:u16/x mask:u192/cpus"

HW_PM = table(
    # In MHz.
    _timed(0x801001, "pm_freq_change", "old_freq:u32 new_freq:u32"),
    # Ticks are those of the idle driver's clock; expected and predicted are us.
    _timed(0x801002, "pm_idle_entry", "cx:u32 tick:u32 expected:u32 predicted:u32",
           "cx:u32 tick:u32"),
    _timed(0x801003, "pm_idle_exit", "cx:u32 tick:u32 irq0:u32 irq1:u32 irq2:u32 irq3:u32",
           "cx:u32 tick:u32"),
)  # fmt: skip

HW_IRQ = table(
    _timed(0x802001, "irq_move_cleanup_delay", "irq:u32 vec:u32/x cpu:u32"),
    _timed(0x802002, "irq_move_cleanup", "irq:u32 vec:u32/x cpu:u32"),
    _timed(0x802003, "irq_bind_vector", _VECTOR_MASK),
    _timed(0x802004, "irq_clear_vector", _VECTOR_MASK),
    _timed(0x802005, "irq_move_finish", "irq:u32 vec:u32/x cpu:u32"),
    _timed(0x802006, "irq_assign_vector", _VECTOR_MASK),
    _timed(0x802007, "irq_unmapped_vector", "vec:u32/vector"),
    # The low halves of two time stamps.
    _timed(0x802008, "irq_handled", "irq:u32 tsc_in:u32/x tsc_out:u32/x"),
)
