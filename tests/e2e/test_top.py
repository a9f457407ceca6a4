"""`xtracectl top`: of a file interval by interval, of a running service live."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from itertools import pairwise

import pytest

from tests.support import captures
from tests.support.analysis import BLOCKED, RUNNABLE, RUNNING, change, vmentry, vmexit
from tests.support.service import PATIENCE, ServiceProcess
from tests.support.xentrace import lost, window
from tests.support.xtracectl import COMMAND, output, run
from tracelib.records import make_record
from xtracectl.exits import Exit

HZ = f"--cpu-hz={captures.TSC_HZ}"
SETTINGS = {"store.keep_free": "0", "segment.max_bytes": "1M", "store.max_bytes": "1G",
            "writer.buffer_bytes": "256K", "sim.rate": "2M"}  # fmt: skip


def samples(text):
    return [json.loads(line) for line in text.splitlines()]


def added(found):
    """What top says of each vCPU, over all samples."""
    total: dict[str, Counter] = {}
    for sample in found:
        for load in sample["vcpus"]:
            sums = total.setdefault(load["name"], Counter())
            sums.update({state: int(cycles) for state, cycles in load["cycles"].items()})
            sums.update({
                name: int(load[name]) for name in
                ("exits", "exits_paired", "exit_cycles", "runs", "waits", "wait_cycles",
                 "hypercalls")
            })  # fmt: skip
    return total


def summed_up(*words):
    """The same by `summary`, as far as it says it by vCPU."""
    whole = json.loads(output("summary", "--json", *words))["reports"][0]
    total: dict[str, Counter] = {}
    for row in whole["runstates"]["rows"]:
        spells = row["spells"]
        waits = spells["woken"], spells["preempted"]
        total[f"d{row['domain']}v{row['vcpu']}"] = Counter({
            **{state: int(cycles) for state, cycles in row["cycles"].items()},
            "runs": spells["ran"]["number"], "waits": sum(wait["number"] for wait in waits),
            "wait_cycles": sum(int(wait["sum"]) for wait in waits),
        })  # fmt: skip
    for row in whole["exits"]["rows"]:
        if row["domain"] is not None:
            total[f"d{row['domain']}v{row['vcpu']}"].update({
                "exits": row["count"], "exits_paired": row["paired"],
                "exit_cycles": int(row["cycles"]["sum"]),
            })  # fmt: skip
    return total


def differences(total, expected):
    """Where two say different things of what both know. What a vCPU did before it turned up
    and after it was gone has no sample."""
    known = {"running", "runnable", "blocked", "lost", "runs", "waits", "wait_cycles", "exits",
             "exits_paired", "exit_cycles"}  # fmt: skip
    return {
        (name, key): (total[name][key], row[key])
        for name, row in expected.items() for key in known if total[name][key] != row[key]
    }


# From a file


def machine(tmp_path):
    """At 1 MHz: d1v0 waits 1 ms, runs, exits for 0.2 ms, and sleeps 0.5; then a loss."""
    path = tmp_path / "small.trace"
    path.write_bytes(window(
        0, change(1000, 1, 0, BLOCKED, RUNNABLE), change(2000, 1, 0, RUNNABLE, RUNNING),
        make_record(0x20100D, 32, tsc=2500), vmexit(2900, 12), vmentry(3100),
        change(4000, 1, 0, RUNNING, BLOCKED), change(4500, 1, 0, BLOCKED, RUNNING),
        lost(101_000, 7, 100_500, dom=1), vmentry(301_000),
    ))  # fmt: skip
    return path


def test_one_interval_by_hand(tmp_path):
    """At 1 MHz, 100 ms of which the last half millisecond is lost; rates are per second."""
    text = output("top", machine(tmp_path), "-d100ms", "--cpu-hz=1M", "--vendor=intel", "-n1")
    assert text.splitlines()[0].startswith("top: 0.00 to 0.10 s; ")
    assert text.splitlines()[4:] == [
        "NAME     VCPU *CPU% WAIT%  BLK%    ?% MWAIT EXEC/s EXIT/s  EX% CALL/s  TOP EXITS/s",
        "d1          1  98.0   1.0   0.5   0.5 1.0ms     10     10  0.2     10  HLT 10", "",
    ]  # fmt: skip


def test_intervals_of_a_file(tmp_path):
    """To its end; the loss is counted in the interval in which it ends, its time where it was."""
    text = output("top", machine(tmp_path), "-d100ms", "--cpu-hz=1M", "--by=cpu")
    tables = text.strip().split("\n\n")
    assert [table.splitlines()[0][:23] for table in tables] == [
        "top: 0.00 to 0.10 s; " + str(tmp_path)[:2], "top: 0.10 to 0.20 s; " + str(tmp_path)[:2],
        "top: 0.20 to 0.30 s; " + str(tmp_path)[:2],
    ]
    assert "1 GAP: 7 missing" in tables[1]
    assert "none lost" in tables[2]
    assert tables[1].splitlines()[-1].split() == [
        "cpu0", "100.0", "0.0", "0.0", "0.0", "10", "70", "1",
    ]


@pytest.mark.parametrize("name", ["all4.trace", "sched.trace", "lost.trace", "destroy.trace"])
def test_samples_add_up_to_the_summary(tmp_path, name):
    """To the last cycle: times, runs, waits, exits and their cost, hypercalls, losses."""
    path = captures.write(name, tmp_path)
    found = samples(output("top", "--json", path, HZ, "-d", "150ms"))
    assert len(found) > 1
    assert added(found).keys() >= summed_up(path, HZ).keys()
    assert differences(added(found), summed_up(path, HZ)) == {}


def test_the_first_of_several(tmp_path):
    assert len(samples(output("top", "--json", machine(tmp_path), "--cpu-hz=1M", "-d100ms",
                              "-n", "2"))) == 2  # fmt: skip


def test_only_a_domain(tmp_path):
    """Its rows only; the head is of all."""
    (found,) = samples(output("top", "--json", machine(tmp_path), "--cpu-hz=1M", "-d1h",
                              "--domain", "7"))  # fmt: skip
    assert (found["vcpus"], found["domains"], found["all"]["exits"]) == ([], [], 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "it needs the clock's"),
        (["--cpu-hz=1M", "-d", "1ms"], "a delay is"),
        (["--cpu-hz=1M", "-n", "0"], "not positive"),
        (["--cpu-hz=1M", "--by", "cpu", "--sort", "exits"], "no column 'exits'"),
    ],
)
def test_what_is_refused(tmp_path, words, said):
    done = run("top", machine(tmp_path), *words)
    assert (done.returncode, done.stdout) == (Exit.USAGE, b"")
    assert said in done.stderr.decode()
    assert b"hint:" in done.stderr or "delay" in said or "positive" in said


# Live


@pytest.fixture
def service(tmp_path):
    with ServiceProcess(
        tmp_path / "store", tmp_path / "socket", settings=SETTINGS
    ).wait_ready() as process:
        yield process


def places(service):
    return "--socket", service.socket, "--store", service.store


class Watching:
    """`top --json` of a service, as a process of its own."""

    def __init__(self, service, *words):
        self.process = subprocess.Popen(
            [*COMMAND, "top", "--json", "-d", "200ms", *map(str, (*places(service), *words))],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate(timeout=PATIENCE)

    def next(self):
        return json.loads(self.process.stdout.readline())

    def said(self):
        return self.process.stderr.readline().decode()

    def stop(self):
        """As somebody who has seen enough does; the exit code."""
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode


def test_a_flush_says_up_to_when(service):
    """The clock as it was before the rings were drained, and so later with each flush."""
    first, second = service.ask("flush"), service.ask("flush")
    assert 0 < first["tsc"] < second["tsc"]
    assert first["state"] == "collecting"
    service.ask("pause")
    assert service.ask("flush")["state"] == "paused"


def test_two_tables(service):
    """Plain text where there is no terminal: who is there, and what they do."""
    text = output("top", "-n2", "-d200ms", *places(service))
    tables = text.strip().split("\n\n")
    assert len(tables) == 2
    for table in tables:
        lines = table.splitlines()
        assert lines[0].startswith("top: ")
        assert "none lost" in lines[2]
        assert sorted(line.split()[0] for line in lines[5:]) == ["d0", "d1", "d2", "d3"]


def test_live_is_what_a_summary_says_later(service):
    """Across rotations: the sum of all samples is the summary of their time. Only at its two
    ends may the simulated hypervisor have been late with records."""
    found = samples(output("top", "--json", "-n6", "-d300ms", *places(service)))
    assert service.wait_log("segment_sealed")
    service.stop()
    assert len(found) == 6
    for before, after in pairwise(found):
        assert after["first_tsc"] == before["last_tsc"]
    since, until = f"tsc:{found[0]['first_tsc']}", f"tsc:{found[-1]['last_tsc']}"
    expected = summed_up(service.store, "--since", since, "--until", until)
    assert len(expected) > 10
    span = int(found[-1]["last_tsc"]) - int(found[0]["first_tsc"])
    total = added(found)
    for name, row in expected.items():
        for state in ("running", "runnable", "blocked"):
            assert abs(total[name][state] - row[state]) < span / 20, (name, state)
        assert total[name]["exits"] == pytest.approx(row["exits"], rel=0.1, abs=50)
        assert total[name]["runs"] == pytest.approx(row["runs"], rel=0.1, abs=10)


def test_each_sample_accounts_for_all_time(service):
    """Every vCPU's states, and every CPU's, add up to the sample."""
    for sample in samples(output("top", "--json", "-n3", "-d200ms", *places(service))):
        span = int(sample["last_tsc"]) - int(sample["first_tsc"])
        for load in [*sample["vcpus"], *sample["cpus"]]:
            if load.get("domain", 0) is not None:
                assert sum(map(int, load["cycles"].values())) == span, load["name"]


def test_not_running(tmp_path):
    done = run("top", "--socket", tmp_path / "none", "--store", tmp_path)
    assert done.returncode == Exit.NOT_RUNNING
    assert b"not running" in done.stderr
    assert b"hint:" in done.stderr


def test_a_service_that_comes_back(service):
    """It is said that it is gone; samples go on with the next one, of another hypervisor."""
    with Watching(service) as top:
        first = top.next()
        service.kill()
        assert "waiting for it" in top.said()
        service.restart()
        while True:
            sample = top.next()
            if sample["notes"]:
                break
            assert sample["vcpus"]
        assert sample["notes"] == ["counted afresh: the hypervisor was booted"]
        assert {load["name"] for load in sample["domains"]} >= {"d0", "d1"}
        assert first["notes"] == []
        assert top.stop() == Exit.OK


def test_a_pause(service):
    """Nothing is shown while nothing is traced; what follows says that nobody saw it."""
    with Watching(service) as top:
        before = top.next()
        service.ask("pause")
        assert "paused" in top.said()
        service.ask("resume")
        after = top.next()
        while int(after["last_tsc"]) == int(before["last_tsc"]) or not any(
            cpu["gaps"] for cpu in after["cpus"]
        ):
            after = top.next()
        assert all(int(cpu["cycles"]["lost"]) > 0 for cpu in after["cpus"])
        assert all(
            int(cycles) >= 0 for cpu in after["cpus"] for cycles in cpu["cycles"].values()
        )
        assert top.stop() == Exit.OK
