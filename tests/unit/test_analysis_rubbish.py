"""Records that nobody knows, records in the wrong place, and fields full of rubbish: the
analysis of the rest is as it would be without them."""

from __future__ import annotations

import pytest

from tests.support.analysis import (
    RUNNABLE,
    RUNNING,
    MemoryReader,
    analyze,
    change,
    vmentry,
    vmexit,
)
from tracelib.analysis.activity import activity
from tracelib.analysis.analyze import Analyzer
from tracelib.analysis.exits import exits
from tracelib.analysis.forms import Forms
from tracelib.analysis.runstates import runstates
from tracelib.analysis.volume import volume
from tracelib.clock import Clock, Rate
from tracelib.records import make_record
from tracelib.units import Tsc

IDLE = 0x7FFF

START = change(1000, 1, 0, RUNNABLE, RUNNING)
EXIT, ENTRY = vmexit(2000, 30), vmentry(2400)

UNKNOWN = [0x0FFFFFFF, *(1 << bit | 0xF001 for bit in (24, 25, 26)), 0x0800F000, 0x0001F0FF]


def within_an_exit(*records):
    return analyze({0: [START, EXIT, *records, ENTRY, vmentry(5000)]})


@pytest.mark.parametrize("words", [0, 1, 7])
@pytest.mark.parametrize("event", UNKNOWN)
def test_unknown_events(event, words):
    """R34: counted by their number, skipped by their length; what is around them stays."""
    stray = make_record(event, *range(words), tsc=2100)
    found, clean = within_an_exit(stray, stray), within_an_exit()
    assert volume(found).events[event].records == 2
    assert volume(found).events[event].bytes == 2 * len(stray)
    assert exits(found, by="vcpu").rows == exits(clean, by="vcpu").rows
    assert runstates(found, by="vcpu").rows == runstates(clean, by="vcpu").rows


def test_guests_events_on_an_idle_vcpu():
    """R34: an exit, a handler and an entry while the idle vCPU runs: nonsense, and no guest's."""
    nonsense = [vmexit(3100, 30), make_record(0x82013, 0), vmentry(3200)]
    guest = [START, EXIT, ENTRY, change(3000, 1, 0, RUNNING, RUNNABLE)]
    idle = [change(3000, IDLE, 0, RUNNABLE, RUNNING), *nonsense, vmentry(5000)]
    section = exits(analyze({0: [*guest, *idle]}), by="vcpu")
    costs = {row.owner.name: (row.cost.number, row.cost.sum) for row in section.rows}
    assert costs == {"d1v0": (1, 400), "idlev0": (1, 100)}


def memory(analysis):
    return [(row.event, row.value, row.count) for row in activity(analysis, by="vcpu").memory]


def analysed(version, *records):
    reader = MemoryReader({0: [START, *records, vmentry(5000)]})
    forms = Forms(family=None, version=version)
    analyzer = Analyzer(reader, Clock(Tsc(0), Rate(10**9, "test"), ()), forms)
    analyzer.run()
    return analyzer.analysis


@pytest.mark.parametrize(
    ("event", "clean", "rubbish"),
    [
        (0x10F005, (1, 0, 0x0009_0005, 0), (1, 0, 0x0009_0005, 0xDEADBEEF)),
        (0x10F010, (1, 0, 2, 0, 0x0009_0005, 0), (1, 0, 2, 0, 0x0009_0005, 0xDEADBEEF)),
        (0x10F012, (1, 0, 5, 0), (1, 0, 0xDEAD_0005, 0xDEADBEEF)),
    ],
)  # fmt: skip
def test_rubbish_behind_a_domain(event, clean, rubbish):
    """R80: memory records before Xen 4.16 have the hypervisor's stack in their upper halves."""
    tidy, messy = (analysed((4, 15), make_record(event, *words)) for words in (clean, rubbish))
    assert memory(tidy) == memory(messy)
    ((_, domain, count),) = memory(messy)
    assert (domain, count) == (5, 1)


@pytest.mark.parametrize(
    ("event", "clean", "rubbish"),
    [
        (0x2220A, (0x0007_0001, 2), (0x0007_0001, 0xDEAD_0002)),
        (0x22206, (3,), (0xDEAD_0003,)),
        # A shadow record whose emulation count is rubbish on 2- and 4-level guests.
        (0x40F008, (1, 2, 3, 0), (1, 2, 3, 0xE0000000)),
    ],
)  # fmt: skip
def test_rubbish_that_nothing_is_made_of(event, clean, rubbish):
    """R80: Credit2 and shadow records are counted, whatever their unused bits say."""
    tidy, messy = (within_an_exit(make_record(event, *words)) for words in (clean, rubbish))
    assert volume(messy).events == volume(tidy).events
    assert exits(messy, by="vcpu").rows == exits(tidy, by="vcpu").rows
    assert exits(messy, by="vcpu").handlers == exits(tidy, by="vcpu").handlers
    assert runstates(messy, by="vcpu").rows == runstates(tidy, by="vcpu").rows
