"""Records written for people."""

from __future__ import annotations

import pytest

from tracelib.events.catalogue import lookup
from tracelib.events.names import HYPERCALLS, TRAPS, VECTORS, name_of
from tracelib.events.values import domain_name, nanoseconds, vcpu_name


@pytest.mark.parametrize(
    ("event", "extra", "text"),
    [
        # R69: -100 with its sign; d7v0 and idle, whichever half comes first
        (0x22203, (0x0007_0000, 0xFFFFFF9C, 0x80000000, 100),
         "vcpu=d7v0 credit=-100 budget=none delta=100"),
        (0x21021, (0x0007_0000,), "vcpu=d7v0 old=running new=blocked"),
        (0x21101, (0x7FFF_0003,), "vcpu=idlev3 old=runnable new=running"),
        (0x28004, (7, 0), "vcpu=d7v0"),
        (0x2800A, (7, 0, 0x7FFF, 3), "prev=d7v0 next=idlev3"),
        (0x22A05, (0x0005_0000, 0xFFFFFFFF), "tasklet=0 cpu=5 vcpu=none"),
        # xenalyze prints 1.5us
        (0x2800E, (7, 0, 1005), "vcpu=d7v0 runtime=1.005us"),
        (0x2800F, (7, 0, 0, 0xFFFFFFFF), "vcpu=d7v0 runnable_for=0.000us slice=none"),
        (0x22213, (1, 0, 0x0007_0000, 0x0001_FFFF), "b_avgload=1 vcpu=d7v0 rq_id=none new_cpu=1"),
        # xenalyze calls 0xfa THERMAL_APIC, 0xf9 LOCAL_TIMER
        (0x8200F, (0xFA,), "vector=LOCAL_TIMER"),
        (0x8200F, (0xF9,), "vector=PMU_APIC"),
        (0x8200F, (0x89,), "vector=0x89"),
        (0x8200F, (0x1FA,), "vector=0x1fa"),
        (0x82003, (21, 0), "vector=#CP error_code=0x0"),
        (0x82003, (3, 0xFFFFFFFF), "vector=#BP error_code=none"),
        (0x82020, (0xF3, 2, 0xFFFFFFFF), "vector=0xf3 source=lapic intr=none"),
        (0x28007, (7, 0, 3), "vcpu=d7v0 reason=crash"),
        # xenalyze's names end at 37; it prints "vmexit" for dm_op
        (0x82012, (41,), "eax=dm_op"),
        (0x20100D, (0x0090_001D, 2, 0x12345678, 0xFFFF8880),
         "op=sched_op a0=0x2 a1=0xffff888012345678"),
        (0x802003, (0x0089_0021, 0xF, 0, 0x1, 0, 0, 0), "irq=33 vec=0x89 mask=0-3,64"),
        (0x40F206, (1, 0, 0xFFFF8880, 0x7FFF, 0x40_0002),
         "gl1e=0x1 va=0x7fffffff8880 flags=set_a+0x400000 levels=4"),
        (0x10F001, (7,), "dom=d7"),
        (0x81001, (), ""),
    ],
)  # fmt: skip
def test_text(event, extra, text):
    form = lookup(event, len(extra))
    assert form is not None
    assert form.text(extra) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0.000us"), (5, "0.005us"), (1005, "1.005us"), (1500000, "1500.000us"), (-1, "-0.001us")],
)
def test_nanoseconds(value, text):
    assert nanoseconds(value) == text


def test_domains():
    """R69: idle 0x7fff is called idle everywhere."""
    assert (domain_name(0), domain_name(0x7FFF), domain_name(0x7FF1)) == ("d0", "idle", "io")
    assert (vcpu_name(7, 0), vcpu_name(0x7FFF, 3)) == ("d7v0", "idlev3")


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "set_trap_table"), (7, "platform_op"), (11, "11"), (12, "memory_op"), (23, "iret"),
        (27, "xsm_op"), (34, "hvm_op"), (37, "kexec_op"), (38, "tmem_op"), (39, "argo_op"),
        (40, "xenpmu_op"), (41, "dm_op"), (42, "hypfs_op"), (43, "43"), (48, "mca"),
        (49, "paging_domctl_cont"), (55, "arch_7"), (56, "56"), (0xFFFFF, "1048575"),
    ],
)  # fmt: skip
def test_hypercall_names(number, name):
    assert name_of(HYPERCALLS, number) == name


def test_name_tables_have_their_full_length():
    assert (len(HYPERCALLS), len(TRAPS), len(VECTORS)) == (56, 32, 256)
    assert [TRAPS[13], TRAPS[14], TRAPS[20], TRAPS[21], TRAPS[28], TRAPS[29], TRAPS[30]] == [
        "#GP", "#PF", "#VE", "#CP", "#HV", "#VC", "#SX",
    ]  # fmt: skip
    assert [VECTORS[v] for v in (0xF0, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF, 0x22, 0x89)] == [
        "IRQ0", "CALL_FUNCTION", "EVENT_CHECK", "INVALIDATE_TLB", "ERROR_APIC", "SPURIOUS_APIC",
        "IRQ_MOVE_CLEANUP", None,
    ]  # fmt: skip
