"""`xtracectl distribution`: bars, data and pictures, from arguments to output."""

from __future__ import annotations

import csv
import importlib.util
import json
from collections import defaultdict

import pytest

from tests.support import captures
from tests.support.analysis import BLOCKED, RUNNABLE, RUNNING, change, vmentry, vmexit
from tests.support.xentrace import window
from tracelib.analysis.distributions import WHATS
from tracelib.records import make_record
from xtracectl.cli import main
from xtracectl.commands import distribution as command


@pytest.fixture
def distribution(capsys):
    """Run it; the exit code, standard output and standard error."""

    def run(*words):
        code = main(["distribution", *map(str, words)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="module")
def destroy(tmp_path_factory):
    return captures.write("destroy.trace", tmp_path_factory.mktemp("captures"))


@pytest.fixture
def small(tmp_path):
    """Two exits of HLT, one of I/O at 0x3f8, at 1 GHz."""
    path = tmp_path / "small.trace"
    path.write_bytes(window(
        0, change(1000, 1, 0, RUNNABLE, RUNNING), vmexit(2000, 12), vmentry(2700),
        vmexit(3000, 30), make_record(0x82216, 0x3F8, 65), change(3100, 1, 0, RUNNING, BLOCKED),
        change(8100, 1, 0, BLOCKED, RUNNING), vmentry(8200),
        make_record(0x81102, 12, 0x81000010, 0xFFFFFFFF, tsc=9000), vmentry(10500),
    ))  # fmt: skip
    return path


OPTIONS = ("--cpu-hz=1G", "--vendor=intel")


def test_the_command_knows_what_there_is():
    assert tuple(WHATS) == command.WHATS


def test_bars(distribution, small):
    """700 ns and 1500 ns of HLT; 200 ns of I/O on the CPU."""
    code, out, err = distribution("exit", small, *OPTIONS)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert "  3 points; not seen: 0.0 % of the vCPUs' time" in lines
    at = lines.index("HLT")
    assert lines[at + 1].split() == [
        "2", "times", "sum", "2.2us", "mean", "1.1us", "p50", "696ns", "p95", "1.5us",
        "p99", "1.5us", "max", "1.5us",
    ]
    assert [line.split()[:3] for line in lines[at + 2 : at + 4]] == [
        ["from", "500ns", "1"], ["from", "1.0us", "1"],
    ]
    assert lines.index("IO_INSTRUCTION") > at
    assert max(map(len, lines)) <= 80


def test_csv_is_exact(distribution, small):
    code, out, _ = distribution("exit", small, *OPTIONS, "--format=csv", "--only=hlt")
    assert code == 0
    assert out.splitlines() == [
        "time,tsc,vcpu,cpu,what,cycles,ns,address,symbol",
        "0.000001000,2000,d1v0,0,HLT,700,700,0x1000,",
        "0.000008000,9000,d1v0,0,HLT,1500,1500,0xffffffff81000010,",
    ]


def test_json_without_a_rate(distribution, small):
    """R47, R48: no seconds where nobody knows; numbers of 64 bits are strings."""
    code, out, _ = distribution("io", small, "--format=json")
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [{
        "time": None, "tsc": "3000", "vcpu": "d1v0", "cpu": 0,
        "what": "ioport_write port=0x3f8", "cycles": "5200", "ns": None, "address": "0x1000",
        "symbol": None,
    }]  # fmt: skip


def test_where_with_names(distribution, small, tmp_path):
    """The same by address, with a list of symbols."""
    names = tmp_path / "System.map"
    names.write_text("ffffffff81000000 T startup\n")
    code, out, _ = distribution(
        "exit", small, *OPTIONS, "--by=address", f"--symbols=d1={names}", "--only=HLT"
    )
    assert code == 0
    assert "d1 0xffffffff81000010 startup+0x10" in out.splitlines()
    assert "d1 0x1000" in out.splitlines()
    _, out, _ = distribution("exit", small, "--format=csv", f"--symbols={names}")
    assert out.splitlines()[-1].endswith(",0xffffffff81000010,startup+0x10")


def test_as_many_as_summary(distribution, destroy, capsys):
    """Of a real capture, each vCPU's and reason's points are the summary's, to the cycle."""
    hz = f"--cpu-hz={captures.TSC_HZ}"
    _, out, _ = distribution("exit", destroy, hz, "--format=csv")
    sums: defaultdict = defaultdict(lambda: [0, 0])
    for row in csv.DictReader(out.splitlines()):
        total = sums[row["vcpu"], row["what"]]
        total[0] += 1
        total[1] += int(row["cycles"])
    assert main(["summary", str(destroy), "--json", "--section=exits"]) == 0
    (report,) = json.loads(capsys.readouterr()[0])["reports"]
    expected = {
        (f"d{row['domain']}v{row['vcpu']}", row["name"]): [
            row["paired"], int(row["cycles"]["sum"])
        ]
        for row in report["exits"]["rows"] if row["paired"]
    }
    assert dict(sums) == expected


def test_a_part_of_the_time(distribution, destroy):
    """Before and after a moment there are no more than in the whole, and all lie there."""
    hz = f"--cpu-hz={captures.TSC_HZ}"
    found = {}
    for words in ((), ("--until=2s",), ("--since=2s",)):
        _, out, _ = distribution("exit", destroy, hz, "--format=csv", *words)
        found[words] = [float(row["time"]) for row in csv.DictReader(out.splitlines())]
    assert found["--until=2s",]
    assert max(found["--until=2s",]) < 2
    assert min(found["--since=2s",]) >= 2
    parts = len(found["--until=2s",]) + len(found["--since=2s",])
    # What is open at the cut is in neither: at most one on each of two CPUs.
    assert len(found[()]) - 2 <= parts <= len(found[()])


@pytest.mark.parametrize("what", WHATS)
def test_each_of_them(distribution, destroy, what):
    code, out, _ = distribution(what, destroy, f"--cpu-hz={captures.TSC_HZ}")
    assert code == 0
    assert " points; not seen: " in out or " point; not seen: " in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture(distribution, destroy, tmp_path, suffix):
    """What is drawn says of how many points; the same input gives the same picture."""
    path = tmp_path / f"x.{suffix}"
    pictures = []
    for _ in range(2):
        code, _, err = distribution(
            "exit", destroy, f"--plot={path}", f"--cpu-hz={captures.TSC_HZ}"
        )
        assert (code, err) == (0, "")
        pictures.append(path.read_bytes())
    assert pictures[0] == pictures[1]
    if suffix == "svg":
        assert b"all of 7,098 points" in pictures[0]
        assert b"HLT" in pictures[0]
    else:
        assert pictures[0].startswith(b"\x89PNG")


@pytest.mark.parametrize("what", ["wake", "cr3", "exit"])
def test_a_picture_of_nothing(distribution, tmp_path, what):
    trace = tmp_path / "x.trace"
    trace.write_bytes(window(0, make_record(0x21011, 1, tsc=5000)))
    assert distribution(what, trace, f"--plot={tmp_path / 'x.svg'}")[0] == 0
    assert (tmp_path / "x.svg").exists()


def test_without_the_library(distribution, small, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    code, out, err = distribution("exit", small, f"--plot={tmp_path / 'x.svg'}")
    assert (code, out) == (2, "")
    assert "needs matplotlib" in err
    assert "xtraced[plot]" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("sleep",), "invalid choice: 'sleep'"),
        (("exit", "--plot=x.jpg"), "a .png or an .svg"),
        (("exit", "a", "b", "--plot=x.svg"), "one input"),
        (("exit", "--top=0"), "not positive"),
        (("exit", "--symbols="), "an empty path"),
        (("exit", "--symbols=/dev/null"), "no names of code"),
    ],
)
def test_mistakes(distribution, words, message):
    code, out, err = distribution(*words)
    assert (code, out) == (2, "")
    assert message in err
