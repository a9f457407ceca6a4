"""Exit reasons: whose numbers they are, and their names."""

from __future__ import annotations

import pytest

from tracelib.events.catalogue import lookup
from tracelib.events.exits import (
    SVM_EXITS,
    VMX_EXITS,
    exit_name,
    guess_family,
    svm_exit_name,
    vmx_exit_name,
)


def reason_text(event, reason, **context):
    extra = (reason, 0x1000) if event & 0x100 == 0 else (reason, 0x1000, 0)
    form = lookup(event, len(extra), **context)
    assert form is not None
    return form.text(extra).split()[0]


@pytest.mark.parametrize("flags", [0, 0x100, 0x400, 0x500])
class TestWhoseNumbers:
    """R32: Intel's or AMD's, by the event's own number where that tells."""

    def test_own_number_of_amd(self, flags):
        for family in (None, "svm", "vmx"):
            for version in (None, (4, 19), (4, 17)):
                context = {"family": family, "xen_version": version}
                assert reason_text(0x81003 | flags, 0x7B, **context) == "reason=IOIO"

    def test_shared_number_since_4_19_is_intels(self, flags):
        for family in (None, "vmx"):
            context = {"family": family, "xen_version": (4, 19)}
            assert reason_text(0x81002 | flags, 30, **context) == "reason=IO_INSTRUCTION"

    def test_shared_number_before_goes_by_family(self, flags):
        for version in (None, (4, 17), (4, 18)):
            intel = {"family": "vmx", "xen_version": version}
            amd = {"family": "svm", "xen_version": version}
            assert reason_text(0x81002 | flags, 30, **intel) == "reason=IO_INSTRUCTION"
            assert reason_text(0x81002 | flags, 48, **intel) == "reason=EPT_VIOLATION"
            assert reason_text(0x81002 | flags, 0x400, **amd) == "reason=NPF"
            assert reason_text(0x81002 | flags, 0x7B, **amd) == "reason=IOIO"

    def test_shared_number_of_nobody_known_stays_a_number(self, flags):
        for version in (None, (4, 17)):
            assert reason_text(0x81002 | flags, 48, xen_version=version) == "reason=48"

    def test_unknown_reason_stays_a_number(self, flags):
        for family in (None, "vmx", "svm"):
            assert reason_text(0x81002 | flags, 999, family=family) == "reason=999"
        assert reason_text(0x81003 | flags, 999) == "reason=999"


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        (0, "EXCEPTION_NMI"), (1, "EXTERNAL_INTERRUPT"), (7, "PENDING_VIRT_INTR"), (10, "CPUID"),
        (12, "HLT"), (18, "VMCALL"), (28, "CR_ACCESS"), (30, "IO_INSTRUCTION"), (31, "MSR_READ"),
        (32, "MSR_WRITE"), (33, "INVALID_GUEST_STATE"), (36, "MWAIT_INSTRUCTION"),
        (39, "MONITOR_INSTRUCTION"), (40, "PAUSE_INSTRUCTION"), (43, "TPR_BELOW_THRESHOLD"),
        (44, "APIC_ACCESS"), (45, "EOI_INDUCED"), (46, "ACCESS_GDTR_OR_IDTR"),
        (47, "ACCESS_LDTR_OR_TR"), (48, "EPT_VIOLATION"), (49, "EPT_MISCONFIG"), (50, "INVEPT"),
        (51, "RDTSCP"), (52, "VMX_PREEMPTION_TIMER_EXPIRED"), (53, "INVVPID"), (54, "WBINVD"),
        (55, "XSETBV"), (56, "APIC_WRITE"), (58, "INVPCID"), (59, "VMFUNC"), (62, "PML_FULL"),
        (63, "XSAVES"), (64, "XRSTORS"), (74, "BUS_LOCK"), (75, "NOTIFY"),
        # What the processor can say but Xen does not handle.
        (57, "RDRAND"), (61, "RDSEED"), (65, "PCONFIG"), (70, "ENCLV"), (76, "SEAMCALL"),
        # Gaps and what lies beyond: numbers.
        (35, "35"), (38, "38"), (42, "42"), (71, "71"), (77, "77"), (999, "999"), (65535, "65535"),
        # Flags in the upper half.
        (0x80000021, "INVALID_GUEST_STATE+FAILED_VMENTRY"),
        (0x80000029, "MCE_DURING_VMENTRY+FAILED_VMENTRY"),
        (0x04000030, "EPT_VIOLATION+BUS_LOCK"),
        (0xFFFFFFFF, "65535+FAILED_VMENTRY+BUS_LOCK"),
    ],
)  # fmt: skip
def test_intel_names(reason, name):
    """R32: names and numbers of EXIT_REASON_* in Xen's vmx.h; xenalyze's end at 55."""
    assert vmx_exit_name(reason) == exit_name("vmx", reason) == name


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0x00, "CR0_READ"), (0x0F, "CR15_READ"), (0x10, "CR0_WRITE"), (0x14, "CR4_WRITE"),
        (0x1F, "CR15_WRITE"), (0x20, "DR0_READ"), (0x2F, "DR15_READ"), (0x30, "DR0_WRITE"),
        (0x3F, "DR15_WRITE"), (0x40, "EXCEPTION_DE"), (0x46, "EXCEPTION_UD"),
        (0x4D, "EXCEPTION_GP"), (0x4E, "EXCEPTION_PF"), (0x51, "EXCEPTION_AC"),
        (0x52, "EXCEPTION_MC"), (0x53, "EXCEPTION_XF"), (0x55, "EXCEPTION_CP"),
        (0x5F, "EXCEPTION_31"), (0x60, "INTR"), (0x61, "NMI"), (0x64, "VINTR"),
        (0x65, "CR0_SEL_WRITE"), (0x66, "IDTR_READ"), (0x6D, "TR_WRITE"), (0x6E, "RDTSC"),
        (0x72, "CPUID"), (0x77, "PAUSE"), (0x78, "HLT"), (0x79, "INVLPG"), (0x7B, "IOIO"),
        (0x7C, "MSR"), (0x7F, "SHUTDOWN"), (0x80, "VMRUN"), (0x81, "VMMCALL"), (0x86, "SKINIT"),
        (0x87, "RDTSCP"), (0x89, "WBINVD"), (0x8A, "MONITOR"), (0x8C, "MWAIT_CONDITIONAL"),
        (0x8D, "XSETBV"), (0x8E, "RDPRU"), (0x8F, "EFER_WRITE_TRAP"), (0x90, "CR0_WRITE_TRAP"),
        (0x9F, "CR15_WRITE_TRAP"), (0xA0, "INVLPGB"), (0xA2, "INVPCID"), (0xA5, "BUS_LOCK"),
        (0xA6, "IDLE_HLT"), (0x400, "NPF"), (0x401, "AVIC_INCOMPLETE_IPI"),
        (0x402, "AVIC_NOACCEL"), (0x403, "VMGEXIT"), (0xFFFFFFFF, "INVALID"),
        (0xA7, "167"), (999, "999"), (0x3FF, "1023"), (0x404, "1028"), (0x80000021, "2147483681"),
    ],
)  # fmt: skip
def test_amd_names(code, name):
    """R32: names and numbers of VMEXIT_* in Xen's vmcb.h; xenalyze's end at 140."""
    assert svm_exit_name(code) == exit_name("svm", code) == name


def test_names_can_be_indexed_by_number():
    assert len(VMX_EXITS) == 77
    assert len(SVM_EXITS) == 0x404


@pytest.mark.parametrize(
    ("reasons", "family"),
    [
        ([0x60, 0x7B, 0x400], "svm"),
        ([0x6E], "svm"),
        ([0xFFFFFFFF], "svm"),
        ([1, 7, 30, 48], "vmx"),
        ([0x80000021], "vmx"),
        ([48, 30], "vmx"),
        # Possible for both: nothing to judge by.
        ([], None),
        ([0, 2, 3, 48], None),
        ([999], None),
        # Contradictory: a merged or damaged file.
        ([1, 0x7B], None),
    ],
)
def test_guess(reasons, family):
    """R32: old files that state no vendor, judged by codes that only one vendor has."""
    assert guess_family(reasons) == family
