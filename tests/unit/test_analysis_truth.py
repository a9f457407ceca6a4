"""The simulated hypervisor says what it did; the analysis of its records says the same, to
the last digit."""

import pytest

from tests.support.analysis import run
from tests.support.simulated import SimulatedTrace
from tracelib.analysis.activity import activity
from tracelib.analysis.exits import exits
from tracelib.analysis.runstates import runstates
from tracelib.analysis.volume import volume
from tracelib.reading import open as open_trace


class Simulated:
    """A machine run for a while, its records in an xentrace file analysed, and its truth."""

    def __init__(self, path, milliseconds=400, **options):
        trace = SimulatedTrace(milliseconds, **options)
        self.hz, self.truth, self.vcpus = trace.hz, trace.truth, trace.vcpus
        assert all(cpu["dropped"] == 0 for cpu in self.truth["cpus"].values())
        reader = open_trace(trace.write_xentrace(path))
        self.analysis = run(reader, hz=self.hz)
        reader.close()


@pytest.fixture(scope="module", params=["vmx", "svm"])
def simulated(request, tmp_path_factory):
    return Simulated(tmp_path_factory.mktemp("sim") / "x.trace", family=request.param)


def key(owner):
    return owner.domain, owner.vcpu


def test_exits(simulated):
    """Counts, cycles on a CPU and in all, by vCPU and reason."""
    section = exits(simulated.analysis, by="vcpu")
    found: dict = {who: {} for who in simulated.vcpus}
    opened: dict = dict.fromkeys(simulated.vcpus)
    for row in section.rows:
        if row.cost.number:
            off = row.off_runnable + row.off_blocked
            found[key(row.owner)][str(row.cause.reason)] = {
                "count": row.cost.number, "cycles": row.cost.sum, "span": row.cost.sum + off,
            }
        assert row.cut_loss == row.cut_unseen == 0
        if row.cut_end:
            opened[key(row.owner)] = row.cause.reason
    assert found == {who: vcpu["exits"] for who, vcpu in simulated.vcpus.items()}
    assert opened == {who: vcpu["open_exit"] for who, vcpu in simulated.vcpus.items()}
    assert sum(row.cost.number for row in section.rows) > 1000


def test_runstates(simulated):
    """The truth counts from the first to the last change of each vCPU: whole spells. What
    ours has more is the last one, which the end of the trace cut."""
    moves = 0
    for row in runstates(simulated.analysis, by="vcpu").rows:
        told = simulated.vcpus[key(row.owner)]["runstates"]
        ran, woken, preempted, slept = (spread.sum for spread in row.spells)
        assert (ran, slept) == (told["running"], told["blocked"])
        assert woken + preempted == told["runnable"]
        assert row.contradictions == 0
        whole = sum(spread.number for spread in row.spells)
        assert whole == simulated.vcpus[key(row.owner)]["changes"] - 1
        tails = [row.times[0] - ran, row.times[1] - woken - preempted, row.times[2] - slept]
        assert sorted(tails)[:2] == [0, 0]
        moves += row.moves
    assert moves > 0


def test_hypercalls(simulated):
    section = activity(simulated.analysis, by="vcpu")
    found: dict = {who: {"hypercalls": {}, "subcalls": {}} for who in simulated.vcpus}
    for row in section.calls:
        kind = "subcalls" if row.event == "hypercall_subcall" else "hypercalls"
        found[key(row.owner)][kind][str(row.value)] = row.count
    for who, vcpu in simulated.vcpus.items():
        assert found[who]["hypercalls"] == vcpu["hypercalls"]
        assert found[who]["subcalls"] == vcpu["subcalls"]


def test_volume(simulated):
    """Every record that was produced, and its bytes without the fillers."""
    section = volume(simulated.analysis)
    told = {int(event, 16): counts["produced"] for event, counts in
            simulated.truth["events"].items()}  # fmt: skip
    assert {event: amount.records for event, amount in section.events.items()} == told
    produced = sum(cpu["produced_bytes"] for cpu in simulated.truth["cpus"].values())
    assert section.total.bytes == produced
    assert sum(section.wraps.values()) == sum(
        cpu["wraps"] for cpu in simulated.truth["cpus"].values()
    )
    binned = sum(amount.records for piece in section.bins for amount in piece.amounts.values())
    assert binned == section.total.records


def test_handlers_belong_to_exits(simulated):
    """Every handler's record that has an exit shares its cost."""
    section = exits(simulated.analysis, by="vcpu")
    costs = {key(row.owner): 0 for row in section.rows}
    for row in section.rows:
        costs[key(row.owner)] += row.cost.sum
    by_event: dict = {}
    for row in section.handlers:
        entry = by_event.setdefault((key(row.owner), row.event), [0, 0])
        entry[0] += row.count
        entry[1] += row.costed
    assert by_event
    for (who, event), (count, costed) in by_event.items():
        assert count - 1 <= costed <= count, (who, event)


def test_clocks_that_are_apart(tmp_path):
    """R18: each CPU's clock is 30 us ahead of the one before: disagreements of about that
    size are counted, and all exits are still seen."""
    simulated = Simulated(tmp_path / "x.trace", skew=72_000, milliseconds=200)
    section = runstates(simulated.analysis, by="vcpu")
    for step in section.steps:
        assert step.ahead > step.behind
        assert step.most <= 2 * 72_000
    found: dict = {}
    for row in exits(simulated.analysis, by="vcpu").rows:
        found[key(row.owner)] = found.get(key(row.owner), 0) + row.seen
    for who, vcpu in simulated.vcpus.items():
        seen = sum(reason["count"] for reason in vcpu["exits"].values())
        assert found.get(who, 0) == seen + (vcpu["open_exit"] is not None)
