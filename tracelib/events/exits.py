"""VM exit reasons of Intel and AMD, by the names Xen's sources give them; PowerPC's for KVM.

Since Xen 4.19 the event says whose numbers a record has (0x81002 Intel's, 0x81003 AMD's);
before, both vendors' were logged under 0x81002, and only the CPU's vendor tells them
apart. Where nothing states the vendor, `guess_family` judges by the numbers themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from tracelib.events.names import name_of

Family = Literal["vmx", "svm", "ppc"]

VMX_EXITS: tuple[str | None, ...] = (
    "EXCEPTION_NMI", "EXTERNAL_INTERRUPT", "TRIPLE_FAULT", "INIT", "SIPI",
    "IO_SMI", "OTHER_SMI", "PENDING_VIRT_INTR", "PENDING_VIRT_NMI", "TASK_SWITCH",
    "CPUID", "GETSEC", "HLT", "INVD", "INVLPG",
    "RDPMC", "RDTSC", "RSM", "VMCALL", "VMCLEAR",
    "VMLAUNCH", "VMPTRLD", "VMPTRST", "VMREAD", "VMRESUME",
    "VMWRITE", "VMXOFF", "VMXON", "CR_ACCESS", "DR_ACCESS",
    "IO_INSTRUCTION", "MSR_READ", "MSR_WRITE", "INVALID_GUEST_STATE", "MSR_LOADING",
    None, "MWAIT_INSTRUCTION", "MONITOR_TRAP_FLAG", None, "MONITOR_INSTRUCTION",
    "PAUSE_INSTRUCTION", "MCE_DURING_VMENTRY", None, "TPR_BELOW_THRESHOLD", "APIC_ACCESS",
    "EOI_INDUCED", "ACCESS_GDTR_OR_IDTR", "ACCESS_LDTR_OR_TR", "EPT_VIOLATION", "EPT_MISCONFIG",
    "INVEPT", "RDTSCP", "VMX_PREEMPTION_TIMER_EXPIRED", "INVVPID", "WBINVD",
    "XSETBV", "APIC_WRITE", "RDRAND", "INVPCID", "VMFUNC",
    "ENCLS", "RDSEED", "PML_FULL", "XSAVES", "XRSTORS",
    "PCONFIG", "SPP", "UMWAIT", "TPAUSE", "LOADIWKEY",
    "ENCLV", None, "ENQCMD_PASID", "ENQCMDS_PASID", "BUS_LOCK",
    "NOTIFY", "SEAMCALL",
)  # fmt: skip
"""By basic exit reason (bits 0-15): EXIT_REASON_* of asm/hvm/vmx/vmx.h; Intel's manual
(volume 3D, appendix C) for those that Xen does not handle."""

VMX_BASIC_REASON = 0xFFFF
VMX_BUS_LOCK_FLAG = 1 << 26
VMX_FAILED_ENTRY_FLAG = 1 << 31

_SVM_EXCEPTIONS = (
    "DE", "DB", "NMI", "BP", "OF", "BR", "UD", "NM", "DF", "09", "TS", "NP", "SS", "GP", "PF",
    "15", "MF", "AC", "MC", "XF", "20", "CP", "22", "23", "24", "25", "26", "27", "HV", "VC",
    "SX", "31",
)  # fmt: skip

_SVM_OTHERS = (
    "INTR", "NMI", "SMI", "INIT", "VINTR", "CR0_SEL_WRITE", "IDTR_READ", "GDTR_READ",
    "LDTR_READ", "TR_READ", "IDTR_WRITE", "GDTR_WRITE", "LDTR_WRITE", "TR_WRITE", "RDTSC",
    "RDPMC", "PUSHF", "POPF", "CPUID", "RSM", "IRET", "SWINT", "INVD", "PAUSE", "HLT",
    "INVLPG", "INVLPGA", "IOIO", "MSR", "TASK_SWITCH", "FERR_FREEZE", "SHUTDOWN", "VMRUN",
    "VMMCALL", "VMLOAD", "VMSAVE", "STGI", "CLGI", "SKINIT", "RDTSCP", "ICEBP", "WBINVD",
    "MONITOR", "MWAIT", "MWAIT_CONDITIONAL", "XSETBV", "RDPRU", "EFER_WRITE_TRAP",
    *(f"CR{register}_WRITE_TRAP" for register in range(16)),
    "INVLPGB", "INVLPGB_ILLEGAL", "INVPCID", "MCOMMIT", "TLBSYNC", "BUS_LOCK", "IDLE_HLT",
)  # fmt: skip

SVM_NPF = 0x400
SVM_INVALID = 0xFFFFFFFF

SVM_EXITS: tuple[str | None, ...] = (
    *(f"CR{register}_READ" for register in range(16)),
    *(f"CR{register}_WRITE" for register in range(16)),
    *(f"DR{register}_READ" for register in range(16)),
    *(f"DR{register}_WRITE" for register in range(16)),
    *(f"EXCEPTION_{name}" for name in _SVM_EXCEPTIONS),
    *_SVM_OTHERS,
    *(None for _ in range(64 + len(_SVM_EXCEPTIONS) + len(_SVM_OTHERS), SVM_NPF)),
    "NPF", "AVIC_INCOMPLETE_IPI", "AVIC_NOACCEL", "VMGEXIT",
)  # fmt: skip
"""By exit code: VMEXIT_* of asm/hvm/svm/vmcb.h; AMD's manual (volume 2, appendix C) for
those that Xen does not handle. 0xffffffff, which is VMEXIT_INVALID, lies beyond it."""


def vmx_exit_name(reason: int) -> str:
    """An Intel exit reason by name; a failed VM entry (bit 31) and a bus lock (bit 26)
    are told as a suffix, other bits above 15 are not part of the name."""
    name = name_of(VMX_EXITS, reason & VMX_BASIC_REASON)
    if reason & VMX_FAILED_ENTRY_FLAG:
        name += "+FAILED_VMENTRY"
    if reason & VMX_BUS_LOCK_FLAG:
        name += "+BUS_LOCK"
    return name


def svm_exit_name(code: int) -> str:
    """An AMD exit code by name."""
    return "INVALID" if code == SVM_INVALID else name_of(SVM_EXITS, code)


PPC_EXITS: tuple[str | None, ...] = (
    "CRITICAL", "MACHINE_CHECK", "DATA_STORAGE", "INST_STORAGE", "EXTERNAL", "ALIGNMENT",
    "PROGRAM", "FP_UNAVAIL", "SYSCALL", "AP_UNAVAIL", "DECREMENTER", "FIT", "WATCHDOG",
    "DTLB_MISS", "ITLB_MISS", "DEBUG",
)  # fmt: skip
"""Why a guest on PowerPC left: BOOKE_INTERRUPT_* of Linux 2.6.28, asm/kvm_asm.h."""


def ppc_exit_name(number: int) -> str:
    """A PowerPC interrupt by name."""
    return name_of(PPC_EXITS, number)


def exit_name(family: Family | None, reason: int) -> str:
    """An exit reason of a known family by name; a number where either is unknown."""
    if family == "vmx":
        return vmx_exit_name(reason)
    if family == "svm":
        return svm_exit_name(reason)
    if family == "ppc":
        return ppc_exit_name(reason)
    return str(reason)


# Accesses to control and debug registers that no processor has: as AMD codes they cannot
# occur, while several are Intel's most common reasons (1 external interrupt, 7 interrupt
# window, 10 CPUID, 12 HLT, 28 CR access, 30 I/O, 31 MSR read).
_NOT_SVM = frozenset({
    *(1, 5, 6, 7), *range(9, 16), *(17, 21, 22, 23), *range(25, 32), *range(40, 48), *range(56, 64),
})  # fmt: skip
_NOT_VMX = frozenset(
    code for code, name in enumerate(SVM_EXITS) if name and code >= len(VMX_EXITS)
) | {SVM_INVALID}


def guess_family(reasons: Iterable[int]) -> Family | None:
    """Whose numbers these exit reasons are, if they can be only one vendor's; else None.

    A guess, to be stated as one: meant for the records of 0x81002 and 0x81102 of a
    file that says neither its CPU's vendor nor its Xen's version.
    """
    intel = amd = False
    for reason in reasons:
        amd |= reason in _NOT_VMX
        intel |= reason in _NOT_SVM or (reason >= VMX_FAILED_ENTRY_FLAG and reason != SVM_INVALID)
    if intel == amd:
        return None
    return "vmx" if intel else "svm"
