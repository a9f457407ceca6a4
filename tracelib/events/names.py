"""What small numbers in trace records stand for, as tuples indexed by the number.

A number without a name has None in its place, so that a caller can index whole columns;
`name_of` falls back to the number.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

RUNSTATES = ("running", "runnable", "blocked", "offline")
"""RUNSTATE_* of xen/include/public/vcpu.h."""

HYPERCALLS: tuple[str | None, ...] = (
    "set_trap_table", "mmu_update", "set_gdt", "stack_switch",
    "set_callbacks", "fpu_taskswitch", "sched_op_compat", "platform_op",
    "set_debugreg", "get_debugreg", "update_descriptor", None,
    "memory_op", "multicall", "update_va_mapping", "set_timer_op",
    "event_channel_op_compat", "xen_version", "console_io", "physdev_op_compat",
    "grant_table_op", "vm_assist", "update_va_mapping_otherdomain", "iret",
    "vcpu_op", "set_segment_base", "mmuext_op", "xsm_op",
    "nmi_op", "sched_op", "callback_op", "xenoprof_op",
    "event_channel_op", "physdev_op", "hvm_op", "sysctl",
    "domctl", "kexec_op", "tmem_op", "argo_op",
    "xenpmu_op", "dm_op", "hypfs_op", None,
    None, None, None, None,
    "mca", "paging_domctl_cont", "arch_2", "arch_3",
    "arch_4", "arch_5", "arch_6", "arch_7",
)  # fmt: skip
"""__HYPERVISOR_* of xen/include/public/xen.h; arch_0 and arch_1 by their x86 names."""

TRAPS: tuple[str | None, ...] = (
    "#DE", "#DB", "NMI", "#BP", "#OF", "#BR", "#UD", "#NM",
    "#DF", "CSO", "#TS", "#NP", "#SS", "#GP", "#PF", "SPV",
    "#MF", "#AC", "#MC", "#XM", "#VE", "#CP", None, None,
    None, None, None, None, "#HV", "#VC", "#SX", None,
)  # fmt: skip
"""Exception vectors 0 to 31 by their architectural mnemonics."""

_SYSTEM_VECTORS = {
    0x22: "IRQ_MOVE_CLEANUP",
    0x80: "LEGACY_SYSCALL",
    0x82: "HYPERCALL",
    0xF0: "IRQ0",
    0xF9: "PMU_APIC",
    0xFA: "LOCAL_TIMER",
    0xFB: "CALL_FUNCTION",
    0xFC: "EVENT_CHECK",
    0xFD: "INVALIDATE_TLB",
    0xFE: "ERROR_APIC",
    0xFF: "SPURIOUS_APIC",
}

VECTORS: tuple[str | None, ...] = tuple(
    TRAPS[vector] if vector < len(TRAPS) else _SYSTEM_VECTORS.get(vector) for vector in range(256)
)
"""Interrupt vectors that Xen itself uses (asm/irq-vectors.h); the others are devices'."""

INTERRUPT_SOURCES = ("none", "pic", "lapic", "nmi", "mce", "vector")
"""enum hvm_intsrc of xen/arch/x86/include/asm/hvm/vcpu.h."""

SHUTDOWN_REASONS = ("poweroff", "reboot", "suspend", "crash", "watchdog", "soft_reset")
"""SHUTDOWN_* of xen/include/public/sched.h."""

EMULATION_RESULTS = ("done", "do_mmio", "do_dcr", "fail")
"""enum emulation_result of Linux 2.6.28, arch/powerpc/include/asm/kvm_ppc.h."""

SHADOW_FLAGS = (
    "set_ad", "set_a", "shadow_l1_get_ref", "shadow_l1_put_ref", "l2_propagate",
    "set_changed", "set_flush", "set_error", "demote", "promote", "wrmap",
    "wrmap_guess_found", "wrmap_brute_force", "early_unshadow",
    "emulation_2nd_pt_written", "emulation_last_failed", "emulate_full_pt",
    "prealloc_unhook", "unsync", "oos_fixup_add", "oos_fixup_evict",
)  # fmt: skip
"""Bits of the shadow path flags, TRCE_SFLAG_* of xen/arch/x86/mm/shadow/private.h."""

SPECIAL_DOMAINS = MappingProxyType({
    0x7FF0: "self",
    0x7FF1: "io",
    0x7FF2: "xen",
    0x7FF3: "cow",
    0x7FF4: "invalid",
    0x7FFF: "idle",
})
"""Domain numbers that are no guests: DOMID_* of xen.h, and Xen's idle domain."""


def name_of(names: Sequence[str | None], number: int) -> str:
    """The name at `number`, or the number itself in decimal where there is none."""
    name = names[number] if 0 <= number < len(names) else None
    return name if name is not None else str(number)
