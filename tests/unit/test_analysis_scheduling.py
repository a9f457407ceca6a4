"""What schedulers recorded of their decisions: counts, and on whose behalf."""

from __future__ import annotations

import pytest

from tests.support.analysis import RUNNABLE, RUNNING, analyze, change
from tracelib.analysis.runstates import runstates
from tracelib.records import make_record

_D1V2 = 1 << 16 | 2
_IDLE = 0x7FFF


def _found(records, *, by="vcpu", domain=None):
    analysis = analyze({0: [change(1000, 7, 0, RUNNABLE, RUNNING), *records]}, by_cpu=by == "cpu")
    section = runstates(analysis, by=by, domain=domain).scheduling
    return section.schedulers, {
        decision.event: (decision.count, dict(decision.domains)) for decision in section.decisions
    }


@pytest.mark.parametrize("by", ["vcpu", "domain", "cpu"])
def test_whom_records_are_about(by):
    """That is who they name, not who ran when they were written (xen/common/sched/core.c has
    domain and vCPU in a word each, credit2.c both in one)."""
    names, found = _found([
        make_record(0x28004, 1, 2, tsc=2000), make_record(0x28004, 3, 0, tsc=2001),
        make_record(0x28004, 1, 0, tsc=2002),
        make_record(0x2220F, _D1V2, 0x00010000, tsc=2003),
        make_record(0x22209, tsc=2004),
        make_record(0x2800E, _IDLE, 0, 500, tsc=2005),
    ], by=by)  # fmt: skip
    assert names == ["credit2"]
    assert found == {
        "wake": (3, {1: 2, 3: 1}), "csched2_migrate": (1, {1: 1}),
        "csched2_update_load": (1, {}), "switch_infprev": (1, {_IDLE: 1}),
    }  # fmt: skip


def test_each_scheduler():
    """Two of them: cpupools have each their own."""
    names, found = _found([
        make_record(0x22004, 5, 1, 0, tsc=2000),  # credit: stolen from CPU 5
        make_record(0x22803, _D1V2, 0, 0, 100, tsc=2001),  # RTDS, as before it had priorities
        make_record(0x22A02, _D1V2, 3, tsc=2002),  # null
        make_record(0x22A05, 0, 0xFFFFFFFF, tsc=2003),  # null: a CPU without a unit
    ])  # fmt: skip
    assert names == ["credit", "null", "rtds"]
    assert found == {
        "csched_stolen_unit": (1, {1: 1}), "rtds_budget_burn": (1, {1: 1}),
        "null_unit_assign": (1, {1: 1}), "null_schedule": (1, {}),
    }  # fmt: skip


def test_a_domain_alone():
    records = [make_record(0x28004, domain, 0, tsc=2000) for domain in (1, 2, 2)]
    assert _found([*records, make_record(0x22209, tsc=2001)], domain=2) == (
        [], {"wake": (2, {2: 2})},
    )  # fmt: skip


def test_an_odd_record_names_nobody():
    """Longer than any that Xen writes: counted, and not taken apart."""
    assert _found([make_record(0x2220F, *[_D1V2] * 6, tsc=2000)])[1] == {
        "csched2_migrate": (1, {})
    }
