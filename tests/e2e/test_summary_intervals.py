"""`xtracectl summary --interval`: what lines say, and that they add up to the whole."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from decimal import Decimal

import pytest

from tests.support import captures
from tests.support.analysis import BLOCKED, RUNNABLE, RUNNING, change, vmentry, vmexit
from tests.support.xentrace import lost, window
from tracelib.records import make_record
from xtracectl.cli import main

HZ = f"--cpu-hz={captures.TSC_HZ}"
STATES = ("running", "runnable", "blocked", "offline", "lost", "unknown")


@pytest.fixture
def summary(capsys):
    """Run it; the exit code, standard output and standard error."""

    def run(*words):
        code = main(["summary", *map(str, words)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def table(out):
    return list(csv.DictReader(io.StringIO(out)))


def objects(out):
    return [json.loads(line) for line in out.splitlines()]


def small(tmp_path, *records):
    path = tmp_path / "small.trace"
    path.write_bytes(window(0, *records))
    return path


def machine(tmp_path):
    """At 1 GHz: it runs for 3000 ns, exits at 2900 for 200 ns, and sleeps; then a loss."""
    return small(
        tmp_path, change(1000, 1, 0, RUNNABLE, RUNNING), make_record(0x20100D, 32, tsc=1500),
        vmexit(2900, 12), vmentry(3100), change(4000, 1, 0, RUNNING, BLOCKED),
        change(4500, 1, 0, BLOCKED, RUNNING), lost(6500, 7, 5500, dom=1), vmentry(7000),
    )  # fmt: skip


def test_lines(summary, tmp_path):
    """Two intervals of 2 us and one of 2 us that has a loss in it: every number by hand."""
    code, out, err = summary(machine(tmp_path), "--interval=2000ns", "--cpu-hz=1G",
                             "--vendor=intel")  # fmt: skip
    assert (code, err) == (0, "")
    rows = [row for row in table(out) if row["owner"] == "d1v0"]
    assert [(row["start"], row["end"]) for row in rows] == [
        ("0.000000000", "0.000002000"), ("0.000002000", "0.000004000"),
        ("0.000004000", "0.000006000"),
    ]  # fmt: skip
    assert [[Decimal(row[name]) * 10**9 for name in STATES] for row in rows] == [
        [2000, 0, 0, 0, 0, 0], [1500, 0, 500, 0, 0, 0], [1000, 0, 0, 0, 1000, 0],
    ]
    assert [row["exits"] for row in rows] == ["1", "0", "0"]
    assert [row["exit_cost"] for row in rows] == ["0.000000000", "0.000000200", "0.000000000"]
    assert [row["top_exit"] for row in rows] == ["", "HLT", ""]
    assert [row["hypercalls"] for row in rows] == ["1", "0", "0"]
    assert {row["records"] for row in rows} == {""}
    whole = [row for row in table(out) if row["owner"] == "all"]
    # Where windows begin, CPU_CHANGE is no record.
    assert [row["records"] for row in whole] == ["3", "3", "2"]
    assert [(row["gaps"], row["lost_records"]) for row in whole] == [
        ("0", "0"), ("0", "0"), ("1", "7"),
    ]  # fmt: skip


@pytest.mark.parametrize("by", ["vcpu", "domain", "cpu"])
@pytest.mark.parametrize("name", ["destroy.trace", "keepon.trace", "boot4.trace"])
def test_they_add_up(summary, tmp_path, name, by):
    """Times, exits and their cost, hypercalls, records and losses: to what the summary of the
    whole says, owner by owner, to the last cycle."""
    path = captures.write(name, tmp_path)
    _, out, _ = summary(path, HZ, "--json", f"--by={by}")
    (whole,) = json.loads(out)["reports"]
    _, out, _ = summary(path, HZ, "--json", f"--by={by}", "--interval=700ms", "--top=1000")
    lines = objects(out)
    assert len({line["first_tsc"] for line in lines}) > 3
    cycles: Counter = Counter()
    exits: Counter = Counter()
    met: dict[str, int] = {}
    for line in lines:
        owner = line["domain"], line["vcpu"], line["cpu"]
        if line["owner"] == "all":
            continue
        met.setdefault(line["owner"], int(line["first_tsc"]) - int(whole["first_tsc"]))
        for state, number in line["cycles"].items():
            cycles[owner, state] += int(number)
        exits[owner] += line["exits"]
        exits[owner, "cost"] += int(line["exit_cycles"])
    expected: Counter = Counter()
    for row in whole["runstates"]["cpus" if by == "cpu" else "rows"]:
        owner = row.get("domain"), row.get("vcpu"), row.get("cpu")
        times = row if by == "cpu" else row["cycles"]
        names = ("busy", "idle", "switching", "lost", "unknown") if by == "cpu" else STATES
        for state in names:
            expected[owner, state] = int(times[state])
        if by == "vcpu":
            # Before it turned up it has no lines.
            dom, vcpu, _ = owner
            expected[owner, "unknown"] -= met[f"d{dom}v{vcpu}"]
    if by != "domain":
        assert +cycles == +expected
    told: Counter = Counter()
    for row in whole["exits"]["rows"]:
        owner = row["domain"], row["vcpu"], row["cpu"]
        told[owner] += row["count"]
        told[owner, "cost"] += int(row["cycles"]["sum"])
    assert +exits == +told
    every = [line for line in lines if line["owner"] == "all"]
    assert sum(line["records"] for line in every) == whole["volume"]["records"]
    assert sum(line["bytes"] for line in every) == whole["volume"]["bytes"]
    assert sum(line["lost_records"] for line in every) == whole["losses"]["records"]
    calls = [row for row in whole["pv"]["hypercalls"] if row["event"] == "hypercall"]
    calls += [row for row in whole["exits"]["about"] if row["event"] == "vmmcall"]
    assert sum(line["hypercalls"] for line in every) == sum(row["count"] for row in calls)


def test_csv_adds_up_to_the_nanosecond(summary, tmp_path):
    """Each owner's seconds are cut so that their sum is the sum's own."""
    path = captures.write("destroy.trace", tmp_path)
    _, out, _ = summary(path, HZ, "--interval=333ms")
    _, exact, _ = summary(path, HZ, "--interval=333ms", "--json")
    cycles: Counter = Counter()
    for line in objects(exact):
        cycles[line["owner"]] += int(line["cycles"]["running"])
    seconds: Counter = Counter()
    for row in table(out):
        seconds[row["owner"]] += Decimal(row["running"])
    assert len(cycles) > 3
    for owner, total in seconds.items():
        assert total * 10**9 == cycles[owner] * 10**9 // captures.TSC_HZ


def test_a_domain_alone(summary, tmp_path):
    path = captures.write("destroy.trace", tmp_path)
    _, out, _ = summary(path, HZ, "--interval=1s", "--domain=2", "--json")
    assert {line["owner"][:2] for line in objects(out)} == {"al", "d2"}


def test_a_damaged_file(summary, tmp_path):
    """R21: what is intact has its lines; the rest is named; exit code 1."""
    path = machine(tmp_path)
    path.write_bytes(path.read_bytes()[:-3])
    code, out, err = summary(path, "--interval=2000ns", "--cpu-hz=1G", "--json")
    assert code == 1
    assert "small.trace" in err
    assert "guessed" in err
    assert objects(out)[0]["family_guessed"] is True


@pytest.mark.parametrize("words", [
    ("--interval=1s",),  # the clock rate is not known
    ("--interval=0", "--cpu-hz=1G"), ("--interval=soon", "--cpu-hz=1G"),
    ("--interval=1s", "--cpu-hz=1G", "--section=exits"), ("--interval=1s", "--cpu-hz=1G", "x"),
])  # fmt: skip
def test_mistakes(summary, tmp_path, words):
    path = small(tmp_path, vmentry(1000))
    code, _, err = summary(path, *words)
    assert code == 2
    assert "xtracectl:" in err
