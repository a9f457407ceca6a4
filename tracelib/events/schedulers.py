"""Events of the single schedulers (0x22000): bits 9-11 say which one, the rest which event.

Credit (0), Credit2 (1), RTDS (4) and null (5) of xen/common/sched/; ARINC 653 (3) has
numbers of its own but emits nothing. A run queue that is none is logged as -1.
"""

from __future__ import annotations

from functools import partial

from tracelib.events.layout import event, table

_timed = partial(event, tsc=True)

CSCHED = table(
    _timed(0x22001, "csched_sched_tasklet"),
    _timed(0x22002, "csched_account_start", "dom:u32 unit:u32 active:u32"),
    _timed(0x22003, "csched_account_stop", "dom:u32 unit:u32 active:u32"),
    _timed(0x22004, "csched_stolen_unit", "peer_cpu:u32 dom:u32 unit:u32"),
    _timed(0x22005, "csched_picked_cpu", "dom:u32 unit:u32 cpu:u32"),
    _timed(0x22006, "csched_tickle", "cpu:u32"),
    _timed(0x22007, "csched_boost_start", "dom:u32 unit:u32"),
    _timed(0x22008, "csched_boost_end", "dom:u32 unit:u32"),
    _timed(0x22009, "csched_schedule", "cpu:u16 tasklet:u8 idle:u8"),
    _timed(0x2200A, "csched_ratelimit", "unit:u16 dom:u16 runtime:u32/ns"),
    _timed(0x2200B, "csched_steal_check", "peer_cpu:u32 check:u32"),
)

CSCHED2 = table(
    _timed(0x22201, "csched2_tick"),
    _timed(0x22202, "csched2_runq_pos", "unit:u16 dom:u16 pos:u32"),
    _timed(0x22203, "csched2_credit_burn",
           "unit:u16 dom:u16 credit:s32 budget:s32/budget delta:s32"),
    _timed(0x22204, "csched2_credit_add"),
    _timed(0x22205, "csched2_tickle_check", "unit:u16 dom:u16 credit:s32 score:s32"),
    _timed(0x22206, "csched2_tickle", "cpu:u16 _:u16"),
    _timed(0x22207, "csched2_credit_reset", "unit:u16 dom:u16 credit_start:s32 credit_end:s32"),
    _timed(0x22208, "csched2_sched_tasklet"),
    _timed(0x22209, "csched2_update_load"),
    _timed(0x2220A, "csched2_runq_assign", "unit:u16 dom:u16 rqi:s16/opt _:u16"),
    _timed(0x2220B, "csched2_update_unit_load", "avgload:u64 unit:u16 dom:u16 shift:u32"),
    _timed(0x2220C, "csched2_update_runq_load",
           "rq_avgload:u64 b_avgload:u64 rq_load:u16 rq_id:u8 shift:u8 _:u32"),
    _timed(0x2220D, "csched2_tickle_new", "unit:u16 dom:u16 processor:u32 credit:s32"),
    _timed(0x2220E, "csched2_runq_max_weight", "rqi:s16/opt max_weight:u16"),
    _timed(0x2220F, "csched2_migrate", "unit:u16 dom:u16 rqi:s16/opt trqi:s16/opt"),
    _timed(0x22210, "csched2_load_check", "lrq_id:s16/opt orq_id:s16/opt load_delta:s32"),
    _timed(0x22211, "csched2_load_balance",
           "lb_avgload:u64 ob_avgload:u64 lrq_id:s16/opt orq_id:s16/opt _:u32"),
    _timed(0x22213, "csched2_picked_cpu",
           "b_avgload:u64 unit:u16 dom:u16 rq_id:s16/opt new_cpu:u16"),
    _timed(0x22214, "csched2_runq_candidate", "unit:u16 dom:u16 tickled_cpu:s32/opt credit:s32"),
    _timed(0x22215, "csched2_schedule",
           "cpu:u16 rq_id:s16/opt tasklet:u8 idle:u8 smt_idle:u8 tickled:u8"),
    _timed(0x22216, "csched2_ratelimit", "unit:u16 dom:u16 runtime:u32/ns"),
    _timed(0x22217, "csched2_runq_cand_check", "unit:u16 dom:u16"),
)  # fmt: skip

RTDS = table(
    _timed(0x22801, "rtds_tickle", "cpu:u16 _:u16"),
    _timed(0x22802, "rtds_runq_pick", "unit:u16 dom:u16 cur_deadline:u64/ns cur_budget:s64/ns"),
    # The shorter forms are those of before RTDS had priorities.
    _timed(0x22803, "rtds_budget_burn",
           "unit:u16 dom:u16 cur_budget:s64/ns delta:u32/ns priority_level:u32 has_extratime:u32",
           "unit:u16 dom:u16 cur_budget:s64/ns delta:u32/ns"),
    _timed(0x22804, "rtds_budget_replenish",
           "unit:u16 dom:u16 priority_level:u32 cur_deadline:u64/ns cur_budget:s64/ns",
           "unit:u16 dom:u16 cur_deadline:u64/ns cur_budget:s64/ns"),
    _timed(0x22805, "rtds_sched_tasklet"),
    _timed(0x22806, "rtds_schedule", "cpu:u16 tasklet:u8 tickled:u4 idle:u4"),
)  # fmt: skip

NULL = table(
    _timed(0x22A01, "null_picked_cpu", "unit:u16 dom:u16 new_cpu:u32"),
    _timed(0x22A02, "null_unit_assign", "unit:u16 dom:u16 cpu:u32"),
    _timed(0x22A03, "null_unit_deassign", "unit:u16 dom:u16 cpu:u32"),
    _timed(0x22A04, "null_migrate", "unit:u16 dom:u16 cpu:u16 new_cpu:u16"),
    # dom and unit are -1 where the CPU has no unit assigned.
    _timed(0x22A05, "null_schedule", "tasklet:u16 cpu:u16 unit:s16 dom:s16"),
    _timed(0x22A06, "null_tasklet"),
)

SCHED_CLASS = CSCHED + CSCHED2 + RTDS + NULL
