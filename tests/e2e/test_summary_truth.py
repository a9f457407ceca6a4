"""What `xtracectl info` and `summary` say of a simulated machine's records is what it did,
to the last digit; and so is what xenalyze says, as far as it says it."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.support import xenalyze
from tests.support.simulated import SimulatedTrace
from tests.support.xenalyze import Cycles
from tests.support.xtracectl import info, output

LOST_RECORDS = "1f001"


class Told:
    """A trace, its truth, and what xtracectl says of it."""

    def __init__(self, trace, path, *words):
        self.trace, self.truth, self.path = trace, trace.truth, path
        self.info = info(path)
        said = output("summary", "--json", "--top", "1000000", *words, path)
        (self.summary,) = json.loads(said)["reports"]


@pytest.fixture(scope="module", params=["vmx", "svm"])
def trace(request):
    made = SimulatedTrace(400, family=request.param)
    assert sum(cpu["dropped"] for cpu in made.truth["cpus"].values()) == 0
    return made


@pytest.fixture(scope="module", params=["xentrace", "segment"])
def told(request, trace, tmp_path_factory):
    place = tmp_path_factory.mktemp("sim")
    if request.param == "segment":
        return Told(trace, trace.write_segment(place))
    vendor = {"vmx": "intel", "svm": "amd"}[trace.options.family]
    path = trace.write_xentrace(place / "sim.trace")
    return Told(trace, path, "--vendor", vendor, "--cpu-hz", str(trace.hz))


def by_vcpu(rows):
    """Rows of a section, by vCPU."""
    found = {}
    for row in rows:
        found.setdefault((row["domain"], row["vcpu"]), []).append(row)
    return found


def nonzero(amounts):
    return {name: amount for name, amount in amounts.items() if amount}


def test_records_by_event(told):
    events = {event: sums["produced"] for event, sums in told.truth["events"].items()}
    assert told.info["per_event"] == events
    volume = told.summary["volume"]
    assert {event: sums["records"] for event, sums in volume["events"].items()} == events
    cpus = told.truth["cpus"]
    assert told.info["per_cpu"] == {cpu: counts["produced"] for cpu, counts in cpus.items()}
    assert {cpu: sums["bytes"] for cpu, sums in volume["cpus"].items()} == {
        cpu: counts["produced_bytes"] for cpu, counts in cpus.items()
    }
    assert nonzero(volume["wraps"]) == nonzero({cpu: c["wraps"] for cpu, c in cpus.items()})


def test_exits(told):
    """R33: by vCPU and reason, with what the ends of the trace cut apart."""
    rows = by_vcpu(told.summary["exits"]["rows"])
    for who, vcpu in told.trace.vcpus.items():
        found = {
            str(row["reason"]): {
                "count": row["cycles"]["number"], "cycles": int(row["cycles"]["sum"]),
                "span": int(row["cycles"]["sum"]) + int(row["off_cpu_runnable"])
                + int(row["off_cpu_blocked"]),
            }
            for row in rows.get(who, []) if row["cycles"]["number"]
        }  # fmt: skip
        assert found == vcpu["exits"]
        cut = [row["reason"] for row in rows.get(who, []) if row["cut_end"]]
        assert cut == [vcpu["open_exit"]] * (vcpu["open_exit"] is not None)


def test_runstates(told):
    """From the first to the last change of each vCPU, which is what the truth counts."""
    for row in told.summary["runstates"]["rows"]:
        vcpu = told.trace.vcpus[row["domain"], row["vcpu"]]
        spells = {name: int(spread["sum"]) for name, spread in row["spells"].items()}
        assert vcpu["runstates"] == {
            "running": spells["ran"], "runnable": spells["woken"] + spells["preempted"],
            "blocked": spells["slept"],
        }  # fmt: skip
        number = sum(spread["number"] for spread in row["spells"].values())
        assert number == vcpu["changes"] - 1
        assert sum(map(int, row["cycles"].values())) == int(told.summary["span"])


def test_percentages_add_up(told):
    """R33: those of each vCPU to 100, as far as they are rounded."""
    text = output("summary", "--section", "runstates", told.path)
    table = text.partition("vcpu  running")[2].splitlines()[1:]
    rows = [line.split()[1:-1] for line in table[: len(told.trace.vcpus)]]
    assert len(rows) == len(told.trace.vcpus)
    for shares in rows:
        assert len(shares) == 6
        assert sum(map(float, shares)) == pytest.approx(100, abs=0.3)


def test_hypercalls(told):
    rows = by_vcpu(told.summary["pv"]["hypercalls"])
    for who, vcpu in told.trace.vcpus.items():
        found = {"hypercall": {}, "hypercall_subcall": {}}
        for row in rows.get(who, []):
            found[row["event"]][row["value"]] = row["count"]
        assert found == {"hypercall": vcpu["hypercalls"], "hypercall_subcall": vcpu["subcalls"]}


def test_losses(tmp_path):
    """R13, R37: rings of one page, so that records are lost: those that are there and those
    that Xen says are lost are as many as the machine says."""
    trace = SimulatedTrace(200, pages=1, rate=60_000_000)
    told = Told(trace, trace.write_xentrace(tmp_path / "sim.trace"))
    cpus = trace.truth["cpus"]
    reported = {cpu: counts["reported"] for cpu, counts in cpus.items()}
    assert sum(reported.values()) > 1000
    assert told.info["lost"] == reported
    sums = Counter()
    for row in told.summary["losses"]["sums"]:
        sums[str(row["cpu"])] += row["records"]
    assert sums == reported
    kept = Counter(
        {event: sums["produced"] - sums["dropped"] for event, sums in trace.truth["events"].items()}
    )
    kept[LOST_RECORDS] = sum(counts["lost_records"] for counts in cpus.values())
    volume = told.summary["volume"]["events"]
    assert {event: sums["records"] for event, sums in volume.items()} == +kept


@pytest.mark.skipif(xenalyze.PROGRAM is None, reason="xenalyze is not installed")
def test_xenalyze(tmp_path):
    """Exits and hypercalls by number. An exit that is open at the end may be one more, since
    for xenalyze it ends when its vCPU becomes runnable. AMD's own event numbers are newer
    than this xenalyze, so the machine is Intel's."""
    trace = SimulatedTrace(400, family="vmx")
    path = trace.write_xentrace(tmp_path / "sim.trace")
    theirs = xenalyze.amounts(path, hz=trace.hz, svm=False)
    for (domain, number), vcpu in trace.vcpus.items():
        owner = f"d{domain}v{number}"
        exits = sum(counts["count"] for counts in vcpu["exits"].values())
        opened = vcpu["open_exit"] is not None
        assert exits <= exits_of(owner, theirs) <= exits + opened
        calls = Counter(vcpu["hypercalls"]) + Counter(vcpu["subcalls"])
        assert calls == {
            what.split()[-1]: amount for what, amount in theirs.items()
            if what.startswith(f"{owner} hypercall ")
        }  # fmt: skip


def exits_of(owner, theirs):
    """How many exits xenalyze has of a vCPU."""
    return sum(
        amount.number for what, amount in theirs.items()
        if isinstance(amount, Cycles) and what.startswith(f"{owner} exit ")
    )  # fmt: skip
