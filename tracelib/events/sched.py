"""Events of the scheduler's common part: xen/common/sched/core.c.

What is called a unit here is a scheduling unit, which is a vCPU unless core scheduling
puts several into one. Times are nanoseconds, cut to 32 bits by Xen (they wrap after 4.29 s).
"""

from __future__ import annotations

from functools import partial

from tracelib.events.layout import EventType, event, table
from tracelib.events.names import RUNSTATES

_timed = partial(event, tsc=True)


def _runstate_change(old: int, new: int) -> tuple[EventType, ...]:
    """The old state is in bits 8-11 of the event's number, the new one in bits 4-7."""
    layout = f"vcpu:u16 dom:u16 old={old}/runstate new={new}/runstate"
    return _timed(0x21001 | old << 8 | new << 4, "runstate_change", layout)


SCHED_MIN = table(
    *(_runstate_change(old, new) for old in range(len(RUNSTATES)) for new in range(len(RUNSTATES))),
    _timed(0x21002, "continue_running", "vcpu:u16 dom:u16"),
)

SCHED_VERBOSE = table(
    _timed(0x28001, "sched_dom_add", "dom:u32"),
    _timed(0x28002, "sched_dom_rem", "dom:u32"),
    _timed(0x28003, "sleep", "dom:u32 vcpu:u32"),
    _timed(0x28004, "wake", "dom:u32 vcpu:u32"),
    _timed(0x28005, "yield", "dom:u32 vcpu:u32"),
    _timed(0x28006, "block", "dom:u32 vcpu:u32"),
    _timed(0x28007, "shutdown", "dom:u32 vcpu:u32 reason:u32/shutdown"),
    _timed(0x28008, "sched_ctl"),
    _timed(0x28009, "adjdom", "dom:u32"),
    _timed(0x2800A, "switch", "prev_dom:u32 prev_unit:u32 next_dom:u32 next_unit:u32"),
    _timed(0x2800B, "s_timer_fn"),
    _timed(0x2800C, "t_timer_fn"),
    _timed(0x2800D, "dom_timer_fn"),
    _timed(0x2800E, "switch_infprev", "dom:u32 unit:u32 runtime:u32/ns"),
    _timed(0x2800F, "switch_infnext", "dom:u32 unit:u32 runnable_for:u32/ns slice:s32/slice"),
    _timed(0x28010, "shutdown_code", "dom:u32 vcpu:u32 reason:u32/shutdown"),
    _timed(0x28011, "switch_infcont", "dom:u32 unit:u32 runtime:u32/ns slice:s32/slice"),
)
