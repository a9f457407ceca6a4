"""`xtracectl summary` from its arguments to its output, on captures, segments and rubbish."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections import Counter

import pytest

from tests.support import captures
from tests.support.analysis import BLOCKED, RUNNABLE, RUNNING, change, vmentry, vmexit
from tests.support.segments import TSC_HZ, SegmentBuilder
from tests.support.xentrace import lost, window
from tests.xen import xenalyze
from tracelib.records import make_record
from xtracectl.cli import main

SECTIONS = ("exits", "runstates", "pv", "volume", "losses")


@pytest.fixture(scope="module")
def destroy(tmp_path_factory):
    return captures.write("destroy.trace", tmp_path_factory.mktemp("captures"))


@pytest.fixture
def summary(capsys):
    """Run it; the exit code, standard output and standard error."""

    def run(*words):
        code = main(["summary", *map(str, words)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def report(out):
    found = json.loads(out)
    assert found["schema"] == 1
    (only,) = found["reports"]
    return only


def small(tmp_path, *records, name="small.trace"):
    path = tmp_path / name
    path.write_bytes(window(0, *records))
    return path


def test_text_fits_a_terminal(summary, destroy):
    """All sections of a real capture in 80 columns, each saying what it could not see."""
    code, out, err = summary(destroy, f"--cpu-hz={captures.TSC_HZ}")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    for title in ("VM exits", "Runstates", "Hypercalls", "Volume", "Losses"):
        assert any(line.startswith(title) for line in out.splitlines())
    assert out.count("not seen:") == 4  # volume says it in its own words
    assert "reasons are AMD's: guessed" in out


def test_one_row(summary, tmp_path):
    """Hand-made: 1000 ns of cost, 4000 ns off the CPU, in 10 us at 1 GHz."""
    path = small(
        tmp_path, change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(3000, 12),
        change(3600, 1, 0, RUNNING, BLOCKED), change(7600, 1, 0, BLOCKED, RUNNING),
        vmentry(8000), vmentry(11000),
    )  # fmt: skip
    code, out, _ = summary(path, "--section=exits", "--cpu-hz=1G", "--vendor=intel")
    assert code == 0
    (row,) = [line for line in out.splitlines() if line.startswith("HLT")]
    assert row.split() == [
        "HLT", "1", "100k", "16.7", "1.0us", "1.0us", "1.0us", "1.0us", "1.0us", "4.0us",
    ]


def test_without_a_rate_times_are_cycles(summary, tmp_path):
    """R47: nobody said how fast the clock is: no seconds anywhere."""
    path = small(tmp_path, change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(3000, 12), vmentry(8000))
    _, out, _ = summary(path)
    assert "the clock rate is not known" in out
    (row,) = [line for line in out.splitlines() if line.startswith("HLT")]
    assert row.split()[4] == "5.0kc"
    code, _, err = summary(path, "--cpu-hz=0")
    assert code == 2
    assert "0" in err


def test_json_is_exact(summary, tmp_path):
    """R48: 64-bit values survive: cycles are decimal strings."""
    big = (1 << 62) + 1
    path = small(tmp_path, change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(2000, 12), vmentry(big))
    code, out, _ = summary(path, "--json")
    assert code == 0
    found = report(out)
    assert found["last_tsc"] == str(big)
    (row,) = found["exits"]["rows"]
    assert row["cycles"]["sum"] == row["cycles"]["max"] == str(big - 2000)
    assert found["runstates"]["rows"][0]["cycles"]["running"] == str(big - 1000)
    assert set(SECTIONS) <= set(found)


def test_sections_alone(summary, destroy):
    code, out, _ = summary(destroy, "--json", "--section=losses", "--section=exits")
    assert code == 0
    assert [name for name in SECTIONS if name in report(out)] == ["exits", "losses"]


def test_a_domain_alone(summary, destroy):
    _, out, _ = summary(destroy, "--json", "--domain=d2")
    found = report(out)
    for section in ("exits", "runstates"):
        assert {row["domain"] for row in found[section]["rows"]} == {2}


@pytest.mark.parametrize("by", ["domain", "vcpu", "cpu"])
def test_by(summary, destroy, by):
    """However they are grouped, exits are as many and cost as much."""
    _, out, _ = summary(destroy, "--json", f"--by={by}")
    rows = report(out)["exits"]["rows"]
    told = captures.expected()["destroy.trace"]
    exits = sum(told["per_event"].get(event, 0) for event in ("81002", "81102"))
    assert sum(row["count"] for row in rows) == exits
    _, whole, _ = summary(destroy, "--json")
    costs = [
        sum(int(row["cycles"]["sum"]) for row in found)
        for found in (rows, report(whole)["exits"]["rows"])
    ]
    assert costs[0] == costs[1]


def test_a_part_of_the_time(summary, destroy):
    """The parts before and after a moment have the whole's records."""
    hz = f"--cpu-hz={captures.TSC_HZ}"
    totals = []
    for words in ((), ("--until=2s",), ("--since=2s",)):
        _, out, _ = summary(destroy, "--json", hz, *words)
        totals.append(report(out)["volume"]["records"])
    assert totals[0] == totals[1] + totals[2]
    assert 0 < totals[1] < totals[0]


def test_a_segment_says_all_by_itself(summary, tmp_path):
    """R32, R47: family and rate come from the metadata; losses from the records."""
    builder = SegmentBuilder()
    builder.block(0, change(1000, 1, 0, RUNNABLE, RUNNING) + vmexit(2000, 48) + vmentry(4000))
    builder.block(0, lost(9000, 5, 5000, dom=1) + vmentry(9500)).seal()
    code, out, _ = summary(builder.write(tmp_path), "--json")
    assert code == 0
    found = report(out)
    assert (found["tsc_hz"], found["exits"]["family"]) == (TSC_HZ, "vmx")
    assert found["exits"]["family_guessed"] is False
    assert [row["name"] for row in found["exits"]["rows"]] == ["EPT_VIOLATION"]
    assert found["losses"]["records"] == 5


def test_a_store_of_two_boots(summary, tmp_path):
    """Time stamps of different boots have nothing in common: a report for each."""
    for sequence, boot in ((1, "a"), (2, "b")):
        builder = SegmentBuilder(sequence, boot_id=boot)
        builder.block(0, change(1000, sequence, 0, RUNNABLE, RUNNING) + vmentry(4000)).seal()
        builder.write(tmp_path)
    code, out, _ = summary(tmp_path, "--json")
    assert code == 0
    reports = json.loads(out)["reports"]
    assert [one["boot"] for one in reports] == [1, 2]
    assert [one["runstates"]["rows"][0]["domain"] for one in reports] == [1, 2]


def test_a_cut_file(summary, tmp_path):
    """R21: everything before the cut is summed up; the rest is named; exit code 1."""
    data = window(0, change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(2000, 30), vmentry(2500),
                  vmexit(3000, 30))  # fmt: skip
    path = tmp_path / "cut.trace"
    path.write_bytes(data[:-5])
    code, out, _ = summary(path, "--cpu-hz=1G")
    assert code == 1
    assert "could not be read" in out
    assert "1 exit (" in out


@pytest.mark.parametrize("words", [("--top=0",), ("--by=core",), ("--vendor=cyrix",),
                                   ("--section=all",), ("--domain=x",)])  # fmt: skip
def test_mistakes(summary, tmp_path, words):
    path = small(tmp_path, vmentry(1000))
    code, out, err = summary(path, *words)
    assert (code, out) == (2, "")
    assert "hint:" in err or "positive" in err


def test_the_version_decides_about_layouts(summary, tmp_path):
    """Until Xen 4.16 the domain had 16 bits, with the order above it and rubbish behind; since
    then 32 (xen/common/memory.c). What is only assumed is named."""
    row = make_record(0x10F005, 0x1000, 0, 9 << 16 | 3, 0xDEAD)
    path = small(tmp_path, vmentry(1000), row)
    for words, dom, assumed in (
        (["--xen-version=4.14"], 3, []),
        (["--xen-version=4.16.2"], 9 << 16 | 3, []),
        ([], 9 << 16 | 3, ["decrease_reservation"]),
    ):  # fmt: skip
        _, out, _ = summary(path, "--json", *words)
        found = report(out)
        (memory,) = found["pv"]["memory"]
        assert memory["value"] == str(dom)
        assert found["layouts_assumed"] == assumed
    code, _, err = summary(path, "--xen-version=new")
    assert code == 2
    assert "hint" in err


def test_several_inputs(summary, tmp_path):
    """One that is not there is named, and the others are summed up."""
    path = small(tmp_path, vmentry(1000))
    code, out, err = summary(path, tmp_path / "none", path)
    assert code == 6
    assert out.count("small.trace: xentrace") == 2
    assert "none" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_what_there_is(tmp_path, number):
    """The report is of what was read until then, says so, and is whole; the exit code says
    which signal it was, as a shell does."""
    start = window(0, change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(2000, 30), vmentry(2500))
    script = (
        "import os, sys, time\n"
        "from tracelib.analysis import analyze\n"
        "from xtracectl.cli import main\n"
        "feed = analyze.Analyzer._feed\n"
        "def first_then_wait(self, cpu, progress):\n"
        "    if self._engine.last:\n"
        "        os.write(2, b'ready')\n"
        "        while True:\n"
        "            time.sleep(0.01)\n"
        "    feed(self, cpu, progress)\n"
        "analyze.Analyzer._feed = first_then_wait\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    path = tmp_path / "x.trace"
    # Too long to be read together with the first.
    entries = (vmentry(4500 + number) for number in range(6000))
    path.write_bytes(start + window(0, vmexit(4000, 30), *entries))
    with subprocess.Popen(
        [sys.executable, "-c", script, "summary", str(path), "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.read(5) == b"ready"
        process.send_signal(number)
        out = process.stdout.read()
    assert process.returncode == 128 + number
    found = report(out)
    assert found["interrupted"] is True
    assert found["exits"]["rows"][0]["paired"] == 1


UNCOMPILED = """
import importlib.machinery as machinery
import sys
# Sources before extension modules, wherever a module has both.
hook = machinery.FileFinder.path_hook(
    (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
    (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
)
sys.path_hooks[:] = [hook]
sys.path_importer_cache.clear()
from tracelib.analysis import engine
assert not engine.COMPILED
from xtracectl.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("name", ["destroy.trace", "keepon.trace", "boot4.trace"])
def test_uncompiled_it_says_the_same(summary, tmp_path, name):
    path = captures.write(name, tmp_path)
    words = [str(path), "--json", f"--cpu-hz={captures.TSC_HZ}"]
    _, out, _ = summary(*words)
    plain = subprocess.run(
        [sys.executable, "-c", UNCOMPILED, "summary", *words], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert json.loads(plain.stdout) == json.loads(out)


@pytest.mark.skipif(shutil.which("xenalyze") is None, reason="xenalyze is not installed")
def test_xenalyze_counts_the_same_exits(summary, destroy):
    """With the options that it needs, xenalyze sees the same exits by reason."""
    _, out, _ = summary(destroy, "--json")
    ours: Counter = Counter()
    for row in report(out)["exits"]["rows"]:
        ours[row["name"]] += row["count"]
    assert ours == xenalyze.exits(destroy, captures.TSC_HZ)
