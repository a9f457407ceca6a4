"""Events of KVM as Linux 2.6.26 to 2.6.30 traced them (kvmtrace), in numbers of our own.

The kernel's number is a category bit and twelve bits (include/linux/kvm.h of that time:
KVM_TRC_ENTRYEXIT is 0x10000, KVM_TRC_HANDLER 0x20000). Here the bits 12 and 13 tell the
category, and bit 26, which no class of Xen's has, says that it is KVM's: 0x10002 is 0x4001002.

Names are the kernel's too: KVM_TRC_IO_READ is kvm_io_read.

Every record begins with the process (the guest) and its vCPU. What follows is as the
kernel's handlers log it (arch/x86/kvm, arch/powerpc/kvm: KVMTRACE_nD). Values of
64 bits are two words, the low one first, whatever the byte order.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType

from tracelib.events.layout import EventType, event, table

KVM_CLASS = 0x04000000
ENTRYEXIT = 0x04001000
HANDLER = 0x04002000
VMENTRY = 0x04001001
VMEXIT = 0x04001002

KVM_CLASSES: MappingProxyType[str, int] = MappingProxyType({
    "kvm.entryexit": ENTRYEXIT,
    "kvm.handler": HANDLER,
})
"""What there is of the class "kvm"; nothing of it is in a mask of Xen's."""

OWNER_WORDS = 2
"""Process and vCPU, in front of what the event itself says."""

_timed = partial(event, tsc=True)
_untimed = partial(event, tsc=False)
_OWNER = "pid:u32/pid vcpu:u32"
_CR = "cr:u32 value:u64/x"
_DR = "dr:u32 value:u32/x"
_MSR = "msr:u32/x value:u64/x"
_PORT = "port:u32/x size:u32"
_TLB = "index:u32 tid:u32/x word0:u32/x word1:u32/x word2:u32/x"
_INTERRUPT = "vector:u8/x type:u3 error_code_valid:u1 _:u19 valid:u1"
"""Intel's VM-exit interruption information and IDT-vectoring information."""


def _exits() -> tuple[EventType, ...]:
    kinds = (("vmx", "/vmx"), ("svm", "/svm"), ("ppc", "/ppc"), (None, ""))
    rows = (
        _timed(VMEXIT, "kvm_vmexit", f"{_OWNER} reason:u32{kind} rip:u64/x", family=family)
        for family, kind in kinds
    )
    return table(*rows)


def _handler(number: int, name: str, *layouts: str) -> tuple[EventType, ...]:
    """One that carries no time: the marker that its record comes by does not ask for one."""
    full = (f"{_OWNER} {layout}" for layout in layouts or ("",))
    return _untimed(HANDLER | number, name, *full)


KVM = table(
    _timed(VMENTRY, "kvm_vmentry", _OWNER),
    _exits(),
    _handler(0x01, "kvm_page_fault", "error_code:u32/x address:u64/x"),
    _handler(0x02, "kvm_inj_virq", "vector:u32/x"),
    _handler(0x03, "kvm_redeliver_evt", _INTERRUPT),
    _handler(0x04, "kvm_pend_intr"),
    _handler(0x05, "kvm_io_read", _PORT),
    _handler(0x06, "kvm_io_write", _PORT),
    # CR8 has four bits: a read of it is logged with one word.
    _handler(0x07, "kvm_cr_read", _CR, "cr:u32 value:u32/x"),
    _handler(0x08, "kvm_cr_write", _CR),
    _handler(0x09, "kvm_dr_read", _DR),
    _handler(0x0A, "kvm_dr_write", _DR),
    _handler(0x0B, "kvm_msr_read", _MSR),
    _handler(0x0C, "kvm_msr_write", _MSR),
    _handler(0x0D, "kvm_cpuid", "leaf:u32/x eax:u32/x ebx:u32/x ecx:u32/x edx:u32/x"),
    # On Intel's CPUs with what came, on AMD's without.
    _handler(0x0E, "kvm_intr", _INTERRUPT, ""),
    _handler(0x0F, "kvm_nmi"),
    _handler(0x10, "kvm_vmmcall", "eax:u32/x"),
    _handler(0x11, "kvm_hlt"),
    _handler(0x12, "kvm_clts"),
    _handler(0x13, "kvm_lmsw", "value:u32/x"),
    _handler(0x14, "kvm_apic_access", "offset:u32/x"),
    _handler(0x15, "kvm_tdp_fault", "error_code:u32/x gpa:u64/x"),
    _handler(0x16, "kvm_gtlb_write", _TLB),
    _handler(0x17, "kvm_stlb_write", _TLB),
    _handler(0x18, "kvm_stlb_inval", _TLB),
    # A handler's number, but it comes by the marker of entries and exits: with a time.
    _timed(
        HANDLER | 0x19, "kvm_ppc_instr", f"{_OWNER} instr:u32/x pc:u32/x emulated:u32/emulated"
    ),
)

KVM_NAMES: MappingProxyType[int, str] = MappingProxyType({
    form.event: form.name for form in KVM
})
