"""`xtracectl summary --section where`: code addresses, what happened there, what it cost."""

from __future__ import annotations

import json

import pytest

from tests.support import captures
from tests.support.analysis import BLOCKED, RUNNABLE, RUNNING, change, vmentry
from tests.support.xentrace import lost, window
from tracelib.analysis import whereabouts
from tracelib.records import make_record
from xtracectl.cli import main

KERNEL = 0xFFFFFFFF81000010


def vmexit_at(tsc, reason, address):
    return make_record(0x81102, reason, address & 0xFFFFFFFF, address >> 32, tsc=tsc)


@pytest.fixture
def trace(tmp_path):
    """d1v0 halts twice at one place, once across a loss; d2v0 is a PV guest."""
    path = tmp_path / "x.trace"
    path.write_bytes(window(
        0, change(1000, 1, 0, RUNNABLE, RUNNING),
        vmexit_at(2000, 12, KERNEL), vmentry(2300), vmexit_at(3000, 12, KERNEL), vmentry(3500),
        vmexit_at(4000, 10, 0x4000), vmentry(4100),
        vmexit_at(5000, 12, KERNEL), lost(6000, 9, 5500, dom=1, vcpu=0), vmentry(6100),
        change(7000, 1, 0, RUNNING, BLOCKED), change(7000, 2, 0, RUNNABLE, RUNNING),
        make_record(0x201104, 0x81000010, 0xFFFFFFFF, 0x5000, 0, 2, tsc=7100),
        make_record(0x201006, 0xC0100004, tsc=7200), make_record(0x201006, 0xC0100004, tsc=7300),
    ))  # fmt: skip
    return path


def where(capsys, *words):
    code = main(["summary", "--json", "--section=where", "--vendor=intel", *map(str, words)])
    assert code == 0
    (report,) = json.loads(capsys.readouterr()[0])["reports"]
    return report["where"]


def rows(found, *members):
    return [tuple(row[member] for member in members) for row in found["rows"]]


def test_rows(capsys, trace):
    """Counts and cycles; what the loss has cut is not there."""
    found = where(capsys, trace)
    assert rows(found, "domain", "vcpu", "what", "address", "count", "costed", "cycles") == [
        (1, 0, "HLT", hex(KERNEL), 2, 2, "800"),
        (1, 0, "CPUID", "0x4000", 1, 1, "100"),
        (2, 0, "emulate_privop", "0xc0100004", 2, 0, "0"),
        (2, 0, "page_fault", hex(KERNEL), 1, 0, "0"),
    ]
    assert found["not_listed"] == 0


def test_of_whom(capsys, trace):
    assert {row["domain"] for row in where(capsys, trace, "--domain=2")["rows"]} == {2}
    by_cpu = where(capsys, trace, "--by=cpu")
    assert rows(by_cpu, "domain", "cpu", "what", "count")[0] == (None, 0, "HLT", 2)
    assert rows(where(capsys, trace, "--by=domain"), "vcpu", "count")[0] == (None, 2)


def test_names(capsys, trace, tmp_path):
    """With a list of symbols the section comes by itself; each domain has its own names."""
    kernel, other = tmp_path / "kernel", tmp_path / "other"
    kernel.write_text("ffffffff81000000 T startup\n")
    other.write_text("ffffffff81000000 T elsewhere\n")
    words = (f"--symbols={kernel}", f"--symbols=d2={other}")
    assert rows(where(capsys, trace, *words), "domain", "symbol") == [
        (1, "startup+0x10"), (1, None), (2, None), (2, "elsewhere+0x10"),
    ]
    assert main(["summary", str(trace), "--cpu-hz=1G", "--vendor=intel", *words]) == 0
    text = capsys.readouterr()[0]
    assert "VM exits" in text
    (line,) = [line for line in text.splitlines() if line.startswith("startup+0x10")]
    assert line.split() == ["startup+0x10", "HLT", "2", "800ns", "400ns"]
    assert max(map(len, text.splitlines())) <= 80


def test_only_if_asked_for(capsys, trace):
    assert main(["summary", "--json", str(trace)]) == 0
    (report,) = json.loads(capsys.readouterr()[0])["reports"]
    assert "where" not in report


def test_bounded(capsys, trace, monkeypatch):
    """What finds no room is counted."""
    monkeypatch.setattr(whereabouts, "MAX_PLACES", 2)
    found = where(capsys, trace)
    assert sum(row["count"] for row in found["rows"]) + found["not_listed"] == 6
    assert found["not_listed"] == 3


def test_as_many_as_the_exits(capsys, tmp_path):
    """Of a real capture, costs and numbers by reason are those of the section exits."""
    path = captures.write("destroy.trace", tmp_path)
    assert main(["summary", "--json", "--section=where", "--section=exits", str(path)]) == 0
    (report,) = json.loads(capsys.readouterr()[0])["reports"]
    sums: dict = {}
    for row in report["where"]["rows"]:
        if row["costed"]:
            total = sums.setdefault((row["domain"], row["vcpu"], row["what"]), [0, 0])
            total[0] += row["costed"]
            total[1] += int(row["cycles"])
    assert sums == {
        (row["domain"], row["vcpu"], row["name"]): [row["paired"], int(row["cycles"]["sum"])]
        for row in report["exits"]["rows"] if row["paired"]
    }
