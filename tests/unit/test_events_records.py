"""Sample records, their right values worked out by hand from the structs in Xen's sources.

Where xenalyze is known to be wrong, the comment says what it makes of the record.
"""

from __future__ import annotations

import pytest

from tracelib.events.catalogue import event_name, lookup

# event, extra words, name, values
SAMPLES = [
    # GEN and DOM0OP
    (0x1F001, (9, 0x0003_7FFF, 0x76543210, 0xFEDCBA98), "lost_records",
     {"count": 9, "dom": 0x7FFF, "vcpu": 3, "first_tsc": 0xFEDCBA9876543210}),
    (0x1F001, (7,), "lost_records", {"count": 7}),
    (0x1F002, (0xDEAD, 0xBEEF), "wrap_buffer", {}),
    (0x1F003, (3, 16052), "cpu_change", {"cpu": 3, "window_size": 16052}),
    (0x41001, (5,), "dom_add", {"dom": 5}),
    (0x41002, (5,), "dom_rem", {"dom": 5}),
    # SCHED: struct { u16 vcpu, dom }, the states in the event's number
    (0x21021, (0x0007_0000,), "runstate_change", {"vcpu": 0, "dom": 7, "old": 0, "new": 2}),
    (0x21101, (0x7FFF_0003,), "runstate_change", {"vcpu": 3, "dom": 0x7FFF, "old": 1, "new": 0}),
    (0x21311, (0x0001_0002,), "runstate_change", {"vcpu": 2, "dom": 1, "old": 3, "new": 1}),
    (0x21002, (0x0007_0001,), "continue_running", {"vcpu": 1, "dom": 7}),
    (0x28004, (7, 2), "wake", {"dom": 7, "vcpu": 2}),
    (0x28010, (7, 2, 3), "shutdown_code", {"dom": 7, "vcpu": 2, "reason": 3}),
    (0x2800A, (0, 1, 0x7FFF, 3), "switch",
     {"prev_dom": 0, "prev_unit": 1, "next_dom": 0x7FFF, "next_unit": 3}),
    (0x2800E, (7, 0, 1005), "switch_infprev", {"dom": 7, "unit": 0, "runtime": 1005}),
    (0x2800F, (0x7FFF, 1, 0, 0xFFFFFFFF), "switch_infnext",
     {"dom": 0x7FFF, "unit": 1, "runnable_for": 0, "slice": -1}),
    (0x28011, (0, 1, 17, 9836402), "switch_infcont",
     {"dom": 0, "unit": 1, "runtime": 17, "slice": 9836402}),
    # Credit
    (0x22004, (6, 7, 1), "csched_stolen_unit", {"peer_cpu": 6, "dom": 7, "unit": 1}),
    (0x22006, (299,), "csched_tickle", {"cpu": 299}),
    (0x22009, (0x01_00_0005,), "csched_schedule", {"cpu": 5, "tasklet": 0, "idle": 1}),
    (0x2200A, (0x0007_0001, 1005), "csched_ratelimit", {"unit": 1, "dom": 7, "runtime": 1005}),
    # Credit2
    (0x22202, (0x0007_0001, 4), "csched2_runq_pos", {"unit": 1, "dom": 7, "pos": 4}),
    (0x22203, (0x0007_0000, 0xFFFFFF9C, 0x80000000, 100), "csched2_credit_burn",
     {"unit": 0, "dom": 7, "credit": -100, "budget": -(1 << 31), "delta": 100}),
    (0x22205, (0x0007_0000, 8457575, 0xFFFFFFFF), "csched2_tickle_check",
     {"unit": 0, "dom": 7, "credit": 8457575, "score": -1}),
    (0x22206, (0xABCD_0003,), "csched2_tickle", {"cpu": 3}),
    (0x22207, (0x0007_0000, 0xFFFFFF9C, 10500000), "csched2_credit_reset",
     {"unit": 0, "dom": 7, "credit_start": -100, "credit_end": 10500000}),
    (0x2220A, (0x0007_0001, 0xDEAD_0002), "csched2_runq_assign",
     {"unit": 1, "dom": 7, "rqi": 2}),
    (0x2220B, (0x1, 0x2, 0x0007_0001, 18), "csched2_update_unit_load",
     {"avgload": 0x2_0000_0001, "unit": 1, "dom": 7, "shift": 18}),
    (0x2220C, (5, 0, 6, 0, 0x12_03_0002, 0xDEADBEEF), "csched2_update_runq_load",
     {"rq_avgload": 5, "b_avgload": 6, "rq_load": 2, "rq_id": 3, "shift": 18}),
    (0x2220D, (0x0007_0001, 3, 0xFFFFFF9C), "csched2_tickle_new",
     {"unit": 1, "dom": 7, "processor": 3, "credit": -100}),
    (0x2220E, (0x0100_0002,), "csched2_runq_max_weight", {"rqi": 2, "max_weight": 256}),
    (0x2220F, (0x0007_0001, 0x0003_0002), "csched2_migrate",
     {"unit": 1, "dom": 7, "rqi": 2, "trqi": 3}),
    (0x22210, (0x0003_0002, 0xFFFFFFFE), "csched2_load_check",
     {"lrq_id": 2, "orq_id": 3, "load_delta": -2}),
    (0x22211, (1, 0, 2, 0, 0x0003_0002, 0xDEADBEEF), "csched2_load_balance",
     {"lb_avgload": 1, "ob_avgload": 2, "lrq_id": 2, "orq_id": 3}),
    # xenalyze drops b_avgload and prints run queue 65535 for none.
    (0x22213, (630767, 0, 0x0002_0000, 0x0001_FFFF), "csched2_picked_cpu",
     {"b_avgload": 630767, "unit": 0, "dom": 2, "rq_id": -1, "new_cpu": 1}),
    (0x22214, (0x0007_0001, 0xFFFFFFFF, 0xFFFFFF9C), "csched2_runq_candidate",
     {"unit": 1, "dom": 7, "tickled_cpu": -1, "credit": -100}),
    (0x22215, (0x0002_0005, 0x04_03_02_01), "csched2_schedule",
     {"cpu": 5, "rq_id": 2, "tasklet": 1, "idle": 2, "smt_idle": 3, "tickled": 4}),
    # RTDS
    (0x22801, (0xDEAD_0003,), "rtds_tickle", {"cpu": 3}),
    (0x22802, (0x0007_0001, 0x1, 0x2, 0x3, 0x4), "rtds_runq_pick",
     {"unit": 1, "dom": 7, "cur_deadline": 0x2_0000_0001, "cur_budget": 0x4_0000_0003}),
    # xenalyze drops the last two.
    (0x22803, (0x0007_0001, 0xFFFFFFFF, 0xFFFFFFFF, 1005, 2, 1), "rtds_budget_burn",
     {"unit": 1, "dom": 7, "cur_budget": -1, "delta": 1005, "priority_level": 2,
      "has_extratime": 1}),
    (0x22804, (0x0007_0001, 2, 0x1, 0x2, 0x3, 0x4), "rtds_budget_replenish",
     {"unit": 1, "dom": 7, "priority_level": 2, "cur_deadline": 0x2_0000_0001,
      "cur_budget": 0x4_0000_0003}),
    (0x22804, (0x0007_0001, 0x1, 0x2, 0x3, 0x4), "rtds_budget_replenish",
     {"unit": 1, "dom": 7, "cur_deadline": 0x2_0000_0001, "cur_budget": 0x4_0000_0003}),
    # tickled is the low nibble, idle the high one; xenalyze has them the other way round.
    (0x22806, (0x01_00_0002,), "rtds_schedule", {"cpu": 2, "tasklet": 0, "tickled": 1, "idle": 0}),
    (0x22806, (0x10_01_0002,), "rtds_schedule", {"cpu": 2, "tasklet": 1, "tickled": 0, "idle": 1}),
    # null
    (0x22A01, (0x0007_0001, 3), "null_picked_cpu", {"unit": 1, "dom": 7, "new_cpu": 3}),
    (0x22A04, (0x0007_0001, 0x0003_0002), "null_migrate",
     {"unit": 1, "dom": 7, "cpu": 2, "new_cpu": 3}),
    (0x22A05, (0x0005_0001, 0x0007_0001), "null_schedule",
     {"tasklet": 1, "cpu": 5, "unit": 1, "dom": 7}),
    (0x22A05, (0x0005_0000, 0xFFFFFFFF), "null_schedule",
     {"tasklet": 0, "cpu": 5, "unit": -1, "dom": -1}),
    # HVM entries and exits; the reasons' names are in test_events_exits
    (0x81001, (), "vmentry", {}),
    (0x81002, (30, 0x1000), "vmexit", {"reason": 30, "eip": 0x1000}),
    (0x81102, (48, 0x8107EE03, 0xFFFFFFFF), "vmexit", {"reason": 48, "rip": 0xFFFFFFFF8107EE03}),
    (0x81003, (0x7B, 0x1000), "vmexit", {"reason": 0x7B, "eip": 0x1000}),
    (0x81103, (0x400, 1, 2), "vmexit", {"reason": 0x400, "rip": 0x2_0000_0001}),
    # xenalyze: "Unknown hvm event"
    (0x81401, (), "nested_vmentry", {}),
    (0x81403, (0x81, 0x1000), "nested_vmexit", {"reason": 0x81, "eip": 0x1000}),
    (0x81503, (0x81, 1, 2), "nested_vmexit", {"reason": 0x81, "rip": 0x2_0000_0001}),
    # HVM handlers
    # xenalyze reads va before error_code: va 1234500000000002 ec 7f00
    (0x82101, (2, 0x12345000, 0x7F00), "pf_xen", {"error_code": 2, "va": 0x7F00_12345000}),
    (0x82001, (2, 0x12345000), "pf_xen", {"error_code": 2, "va": 0x12345000}),
    (0x82102, (6, 1, 2), "pf_inject", {"error_code": 6, "cr2": 0x2_0000_0001}),
    (0x82003, (21, 0xFFFFFFFF), "inj_exc", {"vector": 21, "error_code": -1}),
    (0x82004, (0xF3, 1), "inj_virq", {"vector": 0xF3, "fake": 1}),
    (0x82108, (4, 0x1506F0, 0), "cr_read", {"cr": 4, "value": 0x1506F0}),
    (0x82109, (3, 1, 2), "cr_write", {"cr": 3, "value": 0x2_0000_0001}),
    (0x8200B, (), "dr_write", {}),
    (0x8200C, (0xC0000080, 0xD01, 0x1), "msr_read", {"msr": 0xC0000080, "value": 0x1_0000_0D01}),
    (0x8200E, (0xD, 1, 2, 3, 4, 5), "cpuid",
     {"leaf": 0xD, "subleaf": 1, "a": 2, "b": 3, "c": 4, "d": 5}),
    (0x8200E, (0xD, 2, 3, 4, 5), "cpuid", {"leaf": 0xD, "a": 2, "b": 3, "c": 4, "d": 5}),
    (0x8200F, (0xFA,), "intr", {"vector": 0xFA}),
    (0x8200F, (), "intr", {}),
    (0x82012, (41,), "vmmcall", {"eax": 41}),
    (0x82013, (1,), "hlt", {"pending": 1}),
    (0x82114, (0, 1, 2), "invlpg", {"is_invlpga": 0, "va": 0x2_0000_0001}),
    (0x82119, (0x8005003B, 0), "lmsw", {"value": 0x8005003B}),
    (0x82016, (0x3F8, 0x60), "ioport_read", {"port": 0x3F8, "data": 0x60}),
    # xenalyze takes the next record's header for the data.
    (0x82016, (0x1F0,), "ioport_read", {"port": 0x1F0}),
    (0x82216, (0x1F0,), "ioport_write", {"port": 0x1F0}),
    (0x82017, (0xFEE00020, 5), "iomem_read", {"gpa": 0xFEE00020, "data": 5}),
    # xenalyze cuts the data to 32 bits, and the address when it enumerates.
    (0x82117, (0x1000, 0x2, 0x55, 0x66), "iomem_read",
     {"gpa": 0x2_0000_1000, "data": 0x66_0000_0055}),
    (0x82317, (0x1000, 0x2, 0x55, 0x66), "iomem_write",
     {"gpa": 0x2_0000_1000, "data": 0x66_0000_0055}),
    (0x82317, (0x1000, 0x2, 0x55), "iomem_write", {"gpa": 0x2_0000_1000, "data": 0x55}),
    (0x82117, (0x1000, 0x2), "iomem_read", {"gpa": 0x2_0000_1000}),
    (0x8201A, (0x2244C8AC, 0x2B), "rdtsc", {"value": 0x2B_2244C8AC}),
    (0x82020, (0xF3, 2, 0xFFFFFFFF), "intr_window", {"vector": 0xF3, "source": 2, "intr": -1}),
    (0x82021, (1, 2, 3, 4, 0x181, 5), "npf",
     {"gpa": 0x2_0000_0001, "mfn": 0x4_0000_0003, "qualification": 0x181, "p2mt": 5}),
    (0x82023, (6,), "hvm_trap", {"vector": 6}),
    (0x82024, (0x4000,), "hvm_trap_debug", {"qualification": 0x4000}),
    # xenalyze stops with "invalid hvm event".
    (0x82126, (0, 7, 0), "xcr_read", {"xcr": 0, "value": 7}),
    (0x82127, (0, 7, 1), "xcr_write", {"xcr": 0, "value": 0x1_0000_0007}),
    # HVM emulated devices; xenalyze prints none of the 17.
    (0x84001, (1, 8, 2, 3, 4, 5), "emul_hpet_start_timer",
     {"tn": 1, "irq": 8, "delta": 0x3_0000_0002, "period": 0x5_0000_0004}),
    (0x84002, (54925, 54925), "emul_pit_start_timer", {"delta": 54925, "period": 54925}),
    (0x84003, (976562, 976562), "emul_rtc_start_timer", {"delta": 976562, "period": 976562}),
    (0x84004, (1, 2, 3, 4, 0xEC), "emul_lapic_start_timer",
     {"delta": 0x2_0000_0001, "period": 0x4_0000_0003, "irq": 0xEC}),
    (0x84005, (2,), "emul_hpet_stop_timer", {"tn": 2}),
    (0x84006, (), "emul_pit_stop_timer", {}),
    (0x84007, (), "emul_rtc_stop_timer", {}),
    (0x84008, (), "emul_lapic_stop_timer", {}),
    (0x84009, (), "emul_pit_timer_cb", {}),
    (0x8400A, (), "emul_lapic_timer_cb", {}),
    (0x8400B, (1, 0, 0xFFFFFFFF), "emul_pic_int_output",
     {"int_output": 1, "is_master": 0, "irq": -1}),
    (0x8400C, (0,), "emul_pic_kick", {"irq": 0}),
    (0x8400D, (1, 4), "emul_pic_intack", {"is_master": 1, "irq": 4}),
    (0x8400E, (4,), "emul_pic_posedge", {"irq": 4}),
    (0x8400F, (4,), "emul_pic_negedge", {"irq": 4}),
    (0x84010, (1, 0), "emul_pic_pend_irq_call", {"accept": 1, "int_output": 0}),
    (0x84011, (1, 0), "emul_lapic_pic_intr", {"target": 1, "accept": 0}),
    # MEM
    (0x10F001, (7,), "page_grant_map", {"dom": 7}),
    (0x10F004, (1, 2, 3, 4, 5, 0x0009_0007), "set_p2m_entry",
     {"gfn": 0x2_0000_0001, "mfn": 0x4_0000_0003, "p2mt": 5, "dom": 7, "order": 9}),
    (0x10F010, (1, 0, 3, 0, 7, 9), "pod_populate", {"gfn": 1, "mfn": 3, "dom": 7, "order": 9}),
    # PV
    (0x201103, (1, 2, 0x0010_800D), "trap",
     {"rip": 0x2_0000_0001, "trapnr": 13, "use_error_code": 1, "error_code": 0x10}),
    (0x201003, (1, 0xDEAD_0006), "trap",
     {"eip": 1, "trapnr": 6, "use_error_code": 0, "error_code": 0xDEAD}),
    (0x201104, (1, 2, 3, 4, 0x14), "page_fault",
     {"rip": 0x2_0000_0001, "addr": 0x4_0000_0003, "error_code": 0x14}),
    (0x201106, (1, 2), "emulate_privop", {"rip": 0x2_0000_0001}),
    (0x201109, (1, 2, 3, 4), "paging_fixup", {"rip": 0x2_0000_0001, "addr": 0x4_0000_0003}),
    (0x20110B, (1, 2, 3, 4, 5, 6), "ptwr_emulation",
     {"pte": 0x2_0000_0001, "addr": 0x4_0000_0003, "rip": 0x6_0000_0005}),
    (0x20100C, (1, 2, 3, 4), "ptwr_emulation_pae", {"pte": 0x2_0000_0001, "addr": 3, "eip": 4}),
    (0x201101, (1, 2, 23), "hypercall", {"rip": 0x2_0000_0001, "op": 23}),
    # SHADOW, two, three and four paging levels. Packed: xenalyze expects padding and stops.
    (0x40F001, (1, 2, 4), "shadow_not_shadow", {"gl1e": 1, "va": 2, "flags": 4, "levels": 2}),
    (0x40F101, (1, 2, 3, 4), "shadow_not_shadow",
     {"gl1e": 0x2_0000_0001, "va": 3, "flags": 4, "levels": 3}),
    (0x40F201, (1, 2, 3, 4, 5), "shadow_not_shadow",
     {"gl1e": 0x2_0000_0001, "va": 0x4_0000_0003, "flags": 5, "levels": 4}),
    (0x40F206, (1, 2, 3, 4, 5), "shadow_fixup",
     {"gl1e": 0x2_0000_0001, "va": 0x4_0000_0003, "flags": 5, "levels": 4}),
    (0x40F002, (1,), "shadow_fast_propagate", {"va": 1, "levels": 2}),
    (0x40F205, (1, 2), "shadow_mmio", {"va": 0x2_0000_0001, "levels": 4}),
    (0x40F008, (1, 2, 3, 0x4000_0004), "shadow_emulate",
     {"gl1e": 1, "write_val": 2, "va": 3, "flags": 4, "emulation_count": 2, "levels": 2}),
    (0x40F108, (1, 2, 3, 4, 5, 0x2000_0008), "shadow_emulate",
     {"gl1e": 0x2_0000_0001, "write_val": 0x4_0000_0003, "va": 5, "flags": 8,
      "emulation_count": 1, "levels": 3}),
    (0x40F208, (1, 2, 3, 4, 5, 6, 0xE000_0010), "shadow_emulate",
     {"gl1e": 0x2_0000_0001, "write_val": 0x4_0000_0003, "va": 0x6_0000_0005, "flags": 16,
      "emulation_count": 7, "levels": 4}),
    (0x40F009, (1, 2), "shadow_emulate_unshadow_user", {"gfn": 1, "va": 2, "levels": 2}),
    (0x40F009, (1, 2, 4), "shadow_emulate_unshadow_user",
     {"gfn": 1, "va": 2, "flags": 4, "levels": 2}),
    (0x40F10A, (1, 2, 3, 4), "shadow_emulate_unshadow_evtinj",
     {"gfn": 0x2_0000_0001, "va": 3, "flags": 4, "levels": 3}),
    (0x40F20B, (1, 2, 3, 4), "shadow_emulate_unshadow_unhandled",
     {"gfn": 0x2_0000_0001, "va": 0x4_0000_0003, "levels": 4}),
    (0x40F20B, (1, 2, 3, 4, 5), "shadow_emulate_unshadow_unhandled",
     {"gfn": 0x2_0000_0001, "va": 0x4_0000_0003, "flags": 5, "levels": 4}),
    (0x40F00E, (1, 2), "shadow_resync_full", {"gfn": 0x2_0000_0001}),
    # HW
    (0x801001, (2400, 1200), "pm_freq_change", {"old_freq": 2400, "new_freq": 1200}),
    # xenalyze drops all but the C-state.
    (0x801002, (2, 3, 4, 5), "pm_idle_entry", {"cx": 2, "tick": 3, "expected": 4, "predicted": 5}),
    (0x801003, (2, 3, 0xFA, 0, 0, 1), "pm_idle_exit",
     {"cx": 2, "tick": 3, "irq0": 0xFA, "irq1": 0, "irq2": 0, "irq3": 1}),
    (0x802001, (0x21, 0x89, 3), "irq_move_cleanup_delay", {"irq": 0x21, "vec": 0x89, "cpu": 3}),
    # xenalyze takes irq and vec for 32-bit fields: irq 890021 vec 1
    (0x802003, (0x0089_0021, 1, 0, 0, 0, 0, 0), "irq_bind_vector",
     {"irq": 0x21, "vec": 0x89, "mask": 1}),
    (0x802006, (0x0089_0021, 0, 0, 1, 0, 0, 0x80000000), "irq_assign_vector",
     {"irq": 0x21, "vec": 0x89, "mask": 1 << 64 | 1 << 191}),
    (0x802004, (0x0089_0021, 4, 0, 0, 0, 0, 0), "irq_clear_vector",
     {"irq": 0x21, "vec": 0x89, "mask": 4}),
    (0x802005, (0x21, 0x89, 3), "irq_move_finish", {"irq": 0x21, "vec": 0x89, "cpu": 3}),
    (0x802007, (0x89,), "irq_unmapped_vector", {"vec": 0x89}),
    (0x802008, (25, 0xF3C8039C, 0xF3C929FE), "irq_handled",
     {"irq": 25, "tsc_in": 0xF3C8039C, "tsc_out": 0xF3C929FE}),
    # GUEST: any number, any words. xenalyze stops, or loops for ever.
    (0x0800F000, (), "guest_event", {"number": 0}),
    (0x0800F123, (1, 2, 3, 4, 5, 6, 7), "guest_event",
     {"number": 0x123, **{f"word{word}": word + 1 for word in range(7)}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("event", "extra", "name", "values"),
    SAMPLES,
    ids=[f"{event:05x}-{len(extra)}" for event, extra, _, _ in SAMPLES],
)
def test_sample(event, extra, name, values):
    form = lookup(event, len(extra))
    assert form is not None
    assert (form.name, event_name(event)) == (name, name)
    assert form.decode(extra) == values
    form.text(extra)


def test_every_emulated_device_event_is_sampled():
    sampled = {event for event, *_ in SAMPLES if 0x84000 <= event < 0x85000}
    assert sampled == {0x84001 + number for number in range(17)}


HYPERCALLS = [
    # op 1 (mmu_update), A1 a 32-bit argument
    ((0x0040_0001, 5), {"op": 1, "a1": 5}),
    # op 24 (vcpu_op), A0 and A1 of 32 bits
    ((0x0050_0018, 8, 1), {"op": 24, "a0": 8, "a1": 1}),
    # op 29, A0 of 32 bits and A1 of 64
    ((0x0090_001D, 2, 0x12345678, 0xFFFF8880), {"op": 29, "a0": 2, "a1": 0xFFFF8880_12345678}),
    # all six arguments of 32 bits
    ((0x5550_0029, 1, 2, 3, 4, 5, 6), {"op": 41, **{f"a{n}": n + 1 for n in range(6)}}),
    # A0 and A5 of 64 bits
    ((0x8020_0021, 1, 2, 3, 4), {"op": 33, "a0": 0x2_0000_0001, "a5": 0x4_0000_0003}),
    ((0x0000_0017,), {"op": 23}),
    # 3 is reserved
    ((0x0030_0017, 9), {"op": 23}),
    # says more than the record holds: what is there is told, no further word is read
    ((0x0090_001D, 2, 0x12345678), {"op": 29, "a0": 2}),
]


@pytest.mark.parametrize("event", [0x20100D, 0x20200E])
@pytest.mark.parametrize(("extra", "values"), HYPERCALLS)
def test_hypercall_arguments(event, extra, values):
    """R35: present arguments by the bits A0 to A5, each by itself 32 or 64 bits wide."""
    form = lookup(event, len(extra))
    assert form is not None
    assert form.decode(extra) == values


@pytest.mark.parametrize("wrong", [(), (1, 2)])
def test_decode_of_another_length_is_the_callers_bug(wrong):
    form = lookup(0x21021, 1)
    assert form is not None
    with pytest.raises(ValueError, match="runstate_change"):
        form.decode(wrong)
