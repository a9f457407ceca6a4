"""The head of a summary: what the trace is, and what stands out in it."""

from __future__ import annotations

import json

import pytest

from tests.support.analysis import BLOCKED, RUNNABLE, RUNNING, change, vmentry, vmexit
from tests.support.segments import SegmentBuilder
from tests.support.xentrace import lost, window
from xtracectl.cli import main

_HLT = 12
_CPUID = 10


@pytest.fixture
def trace(tmp_path):
    """10 us at 1 GHz. d1v0 waits 1 us, then runs 6 us with 2 us of CPUID and 1 us of HLT; d2v0
    waits all but the last 3 us, which it runs."""
    path = tmp_path / "two.trace"
    path.write_bytes(
        window(
            0,
            change(1000, 1, 0, BLOCKED, RUNNABLE), change(1000, 2, 0, BLOCKED, RUNNABLE),
            change(2000, 1, 0, RUNNABLE, RUNNING),
            vmexit(3000, _CPUID), vmentry(5000), vmexit(6000, _HLT), vmentry(7000),
            change(8000, 1, 0, RUNNING, BLOCKED), change(8000, 2, 0, RUNNABLE, RUNNING),
            change(11000, 2, 0, RUNNING, BLOCKED),
        )
    )  # fmt: skip
    return path


def _run(capsys, *words):
    assert main(["summary", *map(str, words), "--cpu-hz=1G", "--vendor=intel"]) == 0
    return capsys.readouterr().out


def test_in_short(capsys, trace):
    """Shares are of 10 us; exits' of the 6 us that d1v0 ran."""
    text = _run(capsys, trace)
    head = " ".join(text.split("\n\nVM exits")[0].split())
    assert "10 records of 1 CPU; d1 (1 vCPU), d2 (1 vCPU); none lost" in head
    assert "cost most d1v0 CPUID: 2.0us in 1 exit, 33.3 % of its running time; " in head
    assert "d1v0 HLT: 1.0us in 1 exit, 16.7 % of its running time" in head
    assert "waited most d2v0 70.0 % runnable, 1 wait, mean 7.0us; d1v0 10.0 % runnable" in head
    assert "busiest running d1v0 60.0 %, d2v0 30.0 %; all CPUs 90.0 % busy" in head
    assert len(text.split("\n\nVM exits")[0].splitlines()) <= 14


def test_json(capsys, trace):
    overview = json.loads(_run(capsys, trace, "--json"))["reports"][0]["overview"]
    assert overview["records"] == 10
    assert (overview["lost"], overview["gaps"], overview["cpus"]) == (0, 0, 1)
    assert [(row["domain"], row["vcpus"]) for row in overview["vcpus"]] == [(1, 1), (2, 1)]
    found = [(row["name"], row["cycles"]["sum"]) for row in overview["dearest_exits"]]
    assert found == [("CPUID", "2000"), ("HLT", "1000")]
    found = [(row["domain"], row["waits"]["sum"]) for row in overview["waited_most"]]
    assert found == [(2, "7000"), (1, "1000")]
    assert [row["cycles"]["running"] for row in overview["busiest"]] == ["6000", "3000"]


def test_what_is_not_known_is_said(capsys, tmp_path):
    """No scheduler's records: nobody knows who ran."""
    path = tmp_path / "exits.trace"
    path.write_bytes(window(0, vmexit(1000, _CPUID), vmentry(2000)))
    head = " ".join(_run(capsys, path).split("\n\nVM exits")[0].split())
    assert "no domain named" in head
    assert "unknown vCPUs on cpu0 CPUID: 1.0us in 1 exit" in head
    assert "no record says who ran where: trace the events sched.min too" in head
    assert "% of its running time" not in head


def test_losses(capsys, tmp_path):
    path = tmp_path / "lost.trace"
    path.write_bytes(window(0, vmentry(1000), lost(5000, 17, 2000), vmentry(6000)))
    assert "17 lost in 1 gap" in _run(capsys, path)


def test_a_section_alone_has_no_overview(capsys, trace):
    text = _run(capsys, trace, "--section=exits")
    assert "In short" not in text
    assert "10 records" in text


def test_a_segment_says_by_whom(capsys, tmp_path):
    builder = SegmentBuilder()
    builder.block(0, vmexit(1000, _CPUID) + vmentry(2000)).seal()
    path = builder.write(tmp_path)
    head = _run(capsys, path).split("\n\n")[0]
    assert "sim 4.17, CPU by GenuineIntel, host testhost" in head


def test_an_empty_trace(capsys, tmp_path):
    (tmp_path / "empty.trace").write_bytes(b"")
    text = _run(capsys, tmp_path / "empty.trace")
    assert "0 records of 0 CPUs" in text
    assert "In short" not in text
