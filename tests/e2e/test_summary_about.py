"""What exits were about, and what the scheduler recorded, of a simulated machine: to the last
digit what it did."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.support.simulated import SimulatedTrace
from tests.support.xtracectl import output
from tracelib.events.catalogue import event_name

REASONS = {
    "cpuid": 10, "hlt": 12, "rdtsc": 16, "vmmcall": 18, "cr_write": 28, "ioport": 30,
    "msr_read": 31, "msr_write": 32,
}  # fmt: skip
"""Handlers that the machine calls once in each exit of one reason, and in no other (Intel's
numbers: SDM, appendix C)."""


@pytest.fixture(scope="module")
def trace():
    return SimulatedTrace(400, family="vmx")


@pytest.fixture(scope="module")
def summary(trace, tmp_path_factory):
    path = trace.write_segment(tmp_path_factory.mktemp("sim"))
    (report,) = json.loads(output("summary", "--json", path))["reports"]
    return report


def _named(trace):
    """Records of each event by its name."""
    found = Counter()
    for event, sums in trace.truth["events"].items():
        found[event_name(int(event, 16))] += sums["produced"]
    return found


def test_counts(trace, summary):
    found = Counter()
    for row in summary["exits"]["about"]:
        found[row["event"]] += row["count"]
    assert {event: _named(trace)[event] for event in found} == found
    assert len(found) > 10


def test_costs(trace, summary):
    """Time in the hypervisor, and beside it the time off the CPU, which is how long the
    device model took."""
    found: dict = {}
    for row in summary["exits"]["about"]:
        event = "ioport" if row["event"].startswith("ioport_") else row["event"]
        sums = found.setdefault((row["domain"], row["vcpu"], event), [0, 0, 0])
        sums[0] += row["costed"]
        sums[1] += int(row["cycles"])
        sums[2] += int(row["cycles"]) + int(row["off_cpu"])
    guests = {who: vcpu for who, vcpu in trace.vcpus.items() if vcpu["kind"] == "hvm"}
    assert guests
    for (domain, vcpu), truth in guests.items():
        for event, reason in REASONS.items():
            exits = truth["exits"][str(reason)]
            assert found[domain, vcpu, event] == [exits["count"], exits["cycles"], exits["span"]]


def test_scheduler(trace, summary):
    assert summary["runstates"]["schedulers"] == ["credit2"]
    decisions = summary["runstates"]["scheduling"]
    named = _named(trace)
    assert {one["event"]: one["count"] for one in decisions} == {
        event: number for event, number in named.items()
        if event.startswith(("csched2_", "switch")) or event in {"wake", "block"}
    }  # fmt: skip
    of = {one["event"]: one["domains"] for one in decisions}
    wakes = {row["domain"]: 0 for row in summary["runstates"]["rows"]}
    for row in summary["runstates"]["rows"]:
        wakes[row["domain"]] += row["spells"]["woken"]["number"]
    # The last wake-ups may wait for their CPU when the trace ends.
    for domain, number in wakes.items():
        assert number <= of["wake"][str(domain)] <= number + 6
