"""Events of HVM and PVH guests: entries and exits (0x81000), and their handlers (0x82000).

0x100 in the number means 64-bit addresses, 0x200 a write, 0x400 that the exit or entry is
one of a nested guest. Handler events carry no time stamp: they belong to the exit before.
"""

from __future__ import annotations

from functools import partial

from tracelib.events.layout import EventType, event, table

_timed = partial(event, tsc=True)
_untimed = partial(event, tsc=False)

NESTED = 0x400
"""TRC_HVM_NESTEDFLAG; set by Xen on AMD only."""

_SINCE_OWN_IDS = (4, 19)
"""From this version on, an AMD exit has numbers of its own, so 0x81002 is Intel's."""


def _exits(nested: int) -> tuple[EventType, ...]:
    name = "nested_vmexit" if nested else "vmexit"
    rows = []
    for flag, address in ((0, "eip:u32/x"), (0x100, "rip:u64/x")):
        shared, svm = 0x81002 | flag | nested, 0x81003 | flag | nested
        rows += [
            *_timed(shared, name, f"reason:u32/vmx {address}", since=_SINCE_OWN_IDS),
            *_timed(shared, name, f"reason:u32/vmx {address}", family="vmx"),
            *_timed(shared, name, f"reason:u32/svm {address}", family="svm"),
            *_timed(shared, name, f"reason:u32 {address}"),
            *_timed(svm, name, f"reason:u32/svm {address}"),
        ]
    return tuple(rows)


def _beyond_4_gib(address: str) -> tuple[str, str, str]:
    """The data are as wide as the address; an older Xen cut them to 32 bits."""
    return f"{address}:u64/x data:u64/x", f"{address}:u64/x data:u32/x", f"{address}:u64/x"


HVM_ENTRYEXIT = table(
    _timed(0x81001, "vmentry"),
    _exits(0),
    _timed(0x81001 | NESTED, "nested_vmentry"),
    _exits(NESTED),
)

HVM_HANDLER = table(
    _untimed(0x82001, "pf_xen", "error_code:u32/x va:u32/x"),
    _untimed(0x82101, "pf_xen", "error_code:u32/x va:u64/x"),
    _untimed(0x82002, "pf_inject", "error_code:u32/x cr2:u32/x"),
    _untimed(0x82102, "pf_inject", "error_code:u32/x cr2:u64/x"),
    _untimed(0x82003, "inj_exc", "vector:u32/trap error_code:s32/ec"),
    _untimed(0x82004, "inj_virq", "vector:u32/x fake:u32"),
    _untimed(0x82005, "reinj_virq", "vector:u32/x"),
    _untimed(0x82006, "io_read", "port:u32/x size:u32"),
    _untimed(0x82007, "io_write", "port:u32/x size:u32"),
    _untimed(0x82008, "cr_read", "cr:u32 value:u32/x"),
    _untimed(0x82108, "cr_read", "cr:u32 value:u64/x"),
    _untimed(0x82009, "cr_write", "cr:u32 value:u32/x"),
    _untimed(0x82109, "cr_write", "cr:u32 value:u64/x"),
    _untimed(0x8200A, "dr_read"),
    _untimed(0x8200B, "dr_write"),
    _untimed(0x8200C, "msr_read", "msr:u32/x value:u64/x"),
    _untimed(0x8200D, "msr_write", "msr:u32/x value:u64/x"),
    # Before the subleaf was logged, five words.
    _untimed(0x8200E, "cpuid", "leaf:u32/x subleaf:u32/x a:u32/x b:u32/x c:u32/x d:u32/x",
             "leaf:u32/x a:u32/x b:u32/x c:u32/x d:u32/x"),
    # AMD exits before the vector is known.
    _untimed(0x8200F, "intr", "vector:u32/vector", ""),
    _untimed(0x82010, "nmi"),
    _untimed(0x82011, "smi"),
    _untimed(0x82012, "vmmcall", "eax:u32/hypercall"),
    _untimed(0x82013, "hlt", "pending:u32"),
    _untimed(0x82014, "invlpg", "is_invlpga:u32 va:u32/x"),
    _untimed(0x82114, "invlpg", "is_invlpga:u32 va:u64/x"),
    _untimed(0x82015, "mce"),
    # The data are left out where they go through memory (string instructions).
    _untimed(0x82016, "ioport_read", "port:u32/x data:u32/x", "port:u32/x"),
    _untimed(0x82216, "ioport_write", "port:u32/x data:u32/x", "port:u32/x"),
    _untimed(0x82116, "ioport_read", *_beyond_4_gib("port")),
    _untimed(0x82316, "ioport_write", *_beyond_4_gib("port")),
    _untimed(0x82017, "iomem_read", "gpa:u32/x data:u32/x", "gpa:u32/x"),
    _untimed(0x82217, "iomem_write", "gpa:u32/x data:u32/x", "gpa:u32/x"),
    _untimed(0x82117, "iomem_read", *_beyond_4_gib("gpa")),
    _untimed(0x82317, "iomem_write", *_beyond_4_gib("gpa")),
    _untimed(0x82018, "clts"),
    _untimed(0x82019, "lmsw", "value:u32/x"),
    _untimed(0x82119, "lmsw", "value:u64/x"),
    _untimed(0x8201A, "rdtsc", "value:u64/x"),
    _untimed(0x82020, "intr_window", "vector:u32/x source:u32/source intr:s32/opt"),
    _untimed(0x82021, "npf", "gpa:u64/x mfn:u64/x qualification:u32/x p2mt:u32"),
    _untimed(0x82022, "realmode_emulate"),
    _untimed(0x82023, "hvm_trap", "vector:u32/trap"),
    _untimed(0x82024, "hvm_trap_debug", "qualification:u32/x"),
    _untimed(0x82025, "vlapic"),
    _untimed(0x82126, "xcr_read", "xcr:u32 value:u64/x"),
    _untimed(0x82127, "xcr_write", "xcr:u32 value:u64/x"),
)  # fmt: skip
