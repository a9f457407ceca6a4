"""Names of the model-specific registers that guests use most, and of a page fault's bits.

By Intel's SDM (volume 4; volume 3, 4.7 and 12.12) and AMD's APM (volume 2); the numbers are in
xen/arch/x86/include/asm/msr-index.h too.
"""

from __future__ import annotations

from types import MappingProxyType

MSRS: MappingProxyType[int, str] = MappingProxyType({
    0x10: "TSC", 0x1B: "APIC_BASE", 0x3A: "FEATURE_CONTROL", 0x48: "SPEC_CTRL",
    0x49: "PRED_CMD", 0x8B: "PATCH_LEVEL", 0xFE: "MTRR_CAP",
    0x174: "SYSENTER_CS", 0x175: "SYSENTER_ESP", 0x176: "SYSENTER_EIP",
    0x179: "MCG_CAP", 0x17A: "MCG_STATUS", 0x1A0: "MISC_ENABLE", 0x1D9: "DEBUGCTL",
    0x277: "PAT", 0x2FF: "MTRR_DEF_TYPE", 0x6E0: "TSC_DEADLINE",
    0x802: "X2APIC_ID", 0x803: "X2APIC_VERSION", 0x808: "X2APIC_TPR", 0x80B: "X2APIC_EOI",
    0x80D: "X2APIC_LDR", 0x80F: "X2APIC_SVR", 0x828: "X2APIC_ESR", 0x830: "X2APIC_ICR",
    0x832: "X2APIC_LVT_TIMER", 0x835: "X2APIC_LVT_LINT0", 0x836: "X2APIC_LVT_LINT1",
    0x837: "X2APIC_LVT_ERROR", 0x838: "X2APIC_TMICT", 0x839: "X2APIC_TMCCT",
    0x83E: "X2APIC_TDCR", 0x83F: "X2APIC_SELF_IPI",
    0xC0000080: "EFER", 0xC0000081: "STAR", 0xC0000082: "LSTAR", 0xC0000083: "CSTAR",
    0xC0000084: "SYSCALL_MASK", 0xC0000100: "FS_BASE", 0xC0000101: "GS_BASE",
    0xC0000102: "KERNEL_GS_BASE", 0xC0000103: "TSC_AUX",
})  # fmt: skip

_RARE_BITS = ((1 << 3, "reserved bit"), (1 << 5, "protection key"))


def fault_text(error_code: int) -> str:
    """ "ring 3 write absent": who did what to a page that was there or not, by the error code.

    Ring 3 is not only user mode: a 64-bit PV guest's kernel runs there too.
    """
    access = "fetch" if error_code & 1 << 4 else "write" if error_code & 1 << 1 else "read"
    words = ["ring 3" if error_code & 1 << 2 else "ring 0", access]
    words.append("present" if error_code & 1 else "absent")
    return " ".join(words + [word for bit, word in _RARE_BITS if error_code & bit])
