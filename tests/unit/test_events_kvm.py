"""KVM's events: the kernel's numbers and words, as its headers and handlers of that time have
them (include/linux/kvm.h, arch/x86/kvm, arch/powerpc/kvm of Linux 2.6.26 to 2.6.30)."""

from __future__ import annotations

import pytest

from tracelib.errors import UsageError
from tracelib.events.catalogue import CATALOGUE, NAMES, event_name, lookup
from tracelib.events.exits import exit_name
from tracelib.events.filter import parse_event_filter
from tracelib.events.kvm import KVM, KVM_CLASS, KVM_NAMES
from tracelib.masks import parse_event_mask

# KVM_TRC_* and what the handlers pass behind the vCPU.
FACTS = {
    (0x10001, ()): ("kvm_vmentry", ""),
    (0x10002, (30, 0x80201234, 0xFFFFFFFF)): ("kvm_vmexit", "reason=30 rip=0xffffffff80201234"),
    (0x20001, (2, 0x1000, 0x7F)): ("kvm_page_fault", "error_code=0x2 address=0x7f00001000"),
    (0x20002, (0x30,)): ("kvm_inj_virq", "vector=0x30"),
    (0x20003, (0x80000B0E,)): (
        "kvm_redeliver_evt", "vector=0xe type=3 error_code_valid=1 valid=1"
    ),
    (0x20004, ()): ("kvm_pend_intr", ""),
    (0x20005, (0x3F8, 1)): ("kvm_io_read", "port=0x3f8 size=1"),
    (0x20006, (0xCF8, 4)): ("kvm_io_write", "port=0xcf8 size=4"),
    (0x20007, (3, 0x1000, 1)): ("kvm_cr_read", "cr=3 value=0x100001000"),
    (0x20007, (8, 5)): ("kvm_cr_read", "cr=8 value=0x5"),
    (0x20008, (0, 0x80050033, 0)): ("kvm_cr_write", "cr=0 value=0x80050033"),
    (0x20009, (7, 0x400)): ("kvm_dr_read", "dr=7 value=0x400"),
    (0x2000A, (6, 0xFFFF0FF0)): ("kvm_dr_write", "dr=6 value=0xffff0ff0"),
    (0x2000B, (0xC0000080, 0xD01, 0)): ("kvm_msr_read", "msr=0xc0000080 value=0xd01"),
    (0x2000C, (0x10, 2, 1)): ("kvm_msr_write", "msr=0x10 value=0x100000002"),
    (0x2000D, (1, 2, 3, 4, 5)): ("kvm_cpuid", "leaf=0x1 eax=0x2 ebx=0x3 ecx=0x4 edx=0x5"),
    (0x2000E, (0x800000FD,)): ("kvm_intr", "vector=0xfd type=0 error_code_valid=0 valid=1"),
    (0x2000E, ()): ("kvm_intr", ""),
    (0x2000F, ()): ("kvm_nmi", ""),
    (0x20010, (2,)): ("kvm_vmmcall", "eax=0x2"),
    (0x20011, ()): ("kvm_hlt", ""),
    (0x20012, ()): ("kvm_clts", ""),
    (0x20013, (0x33,)): ("kvm_lmsw", "value=0x33"),
    (0x20014, (0xB0,)): ("kvm_apic_access", "offset=0xb0"),
    (0x20015, (4, 0xFEE00000, 1)): ("kvm_tdp_fault", "error_code=0x4 gpa=0x1fee00000"),
    (0x20016, (3, 1, 2, 3, 4)): (
        "kvm_gtlb_write", "index=3 tid=0x1 word0=0x2 word1=0x3 word2=0x4"
    ),
    (0x20017, (3, 1, 2, 3, 4)): (
        "kvm_stlb_write", "index=3 tid=0x1 word0=0x2 word1=0x3 word2=0x4"
    ),
    (0x20018, (3, 1, 2, 3, 4)): (
        "kvm_stlb_inval", "index=3 tid=0x1 word0=0x2 word1=0x3 word2=0x4"
    ),
    (0x20019, (0x7C0004AC, 0xC0001000, 3)): (
        "kvm_ppc_instr", "instr=0x7c0004ac pc=0xc0001000 emulated=fail"
    ),
}
OURS = {0x10000: 0x4001000, 0x20000: 0x4002000}


@pytest.mark.parametrize(("record", "said"), list(FACTS.items()), ids=str)
def test_every_event_by_name_and_words(record, said):
    number, words = record
    ours = OURS[number & 0xF0000] | number & 0xFFF
    extra = (4711, 3, *words)
    form = lookup(ours, len(extra))
    assert form is not None
    assert event_name(ours) == form.name
    assert (form.name, form.text(extra)) == (said[0], f"pid=4711 vcpu=3 {said[1]}".rstrip())


def test_the_table_has_no_others():
    numbers = {OURS[number & 0xF0000] | number & 0xFFF for number, _ in FACTS}
    assert set(KVM_NAMES) == numbers
    lengths = {(OURS[n & 0xF0000] | n & 0xFFF, 2 + len(words)) for n, words in FACTS}
    assert {(form.event, form.words) for form in KVM} == lengths


def test_only_entries_exits_and_powerpc_instructions_have_a_time():
    """By the marker that each record comes by: kvm_trace_entryexit or kvm_trace_handler."""
    timed = {form.name for form in KVM if form.tsc}
    assert timed == {"kvm_vmentry", "kvm_vmexit", "kvm_ppc_instr"}


@pytest.mark.parametrize(
    ("family", "reason", "name"),
    [
        ("vmx", 0, "EXCEPTION_NMI"), ("vmx", 12, "HLT"), ("vmx", 48, "EPT_VIOLATION"),
        ("svm", 0x60, "INTR"), ("svm", 0x78, "HLT"), ("svm", 0x400, "NPF"),
        ("ppc", 0, "CRITICAL"), ("ppc", 13, "DTLB_MISS"), ("ppc", 10, "DECREMENTER"),
        ("ppc", 15, "DEBUG"), ("ppc", 99, "99"), (None, 12, "12"),
    ],
)  # fmt: skip
def test_exits_are_intels_amds_or_powerpcs(family, reason, name):
    form = lookup(0x4001002, 5, family=family)
    assert form is not None
    assert f" reason={name} " in form.text((1, 0, reason, 0, 0))
    assert exit_name(family, reason) == name


def test_they_cannot_be_taken_for_xens():
    """Bit 26, which no class of Xen's has; and no mask of Xen's lets them through."""
    assert all(form.event & KVM_CLASS for form in KVM)
    assert not any(form.event & KVM_CLASS for form in CATALOGUE)
    assert not set(KVM_NAMES.values()) & set(NAMES.values())
    with pytest.raises(UsageError):
        parse_event_mask("kvm_vmexit")
    with pytest.raises(UsageError):
        parse_event_mask("kvm")


@pytest.mark.parametrize(
    ("term", "matching", "other"),
    [
        ("kvm", (0x4001002, 0x4002FFF), 0x8F001), ("kvm.entryexit", (0x4001001,), 0x4002001),
        ("kvm.handler", (0x4002001,), 0x4001001), ("kvm_io_*", (0x4002005, 0x4002006), 0x4002007),
        ("kvm_vmexit", (0x4001002,), 0x81002), ("4001002", (0x4001002,), 0x4001001),
        ("vmexit", (0x81002,), 0x4001002),
    ],
)  # fmt: skip
def test_what_can_be_asked_for(term, matching, other):
    chosen = parse_event_filter([term])
    assert all(chosen.matches(event) for event in matching)
    assert not chosen.matches(other)
