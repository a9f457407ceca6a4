"""`xtracectl diff`: what changed, normalised by what was seen."""

from __future__ import annotations

import json

import pytest

from tests.support.analysis import BLOCKED, RUNNABLE, RUNNING, change, vmentry, vmexit
from tests.support.xentrace import lost, window
from xtracectl.cli import main

CPUID, HLT = 10, 12
"""Intel's numbers."""


@pytest.fixture
def diff(capsys):
    """Run it; exit code, standard output, standard error."""

    def run(*words):
        code = main(["diff", *map(str, words), "--vendor", "intel"])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def trace(tmp_path, name: str, *, exits: int, cost: int, rounds: int = 10, more=()):
    """Rounds of 10,000 ticks: d1v0 waits for 1,000, runs for 6,000, exits so often at so much,
    sleeps."""
    records = []
    for number in range(rounds):
        now = 100_000 + 10_000 * number
        records += [
            change(now, 1, 0, BLOCKED, RUNNABLE),
            change(now + 1000, 1, 0, RUNNABLE, RUNNING),
        ]
        for exit_number in range(exits):
            at = now + 1100 + 300 * exit_number
            records += [vmexit(at, CPUID), vmentry(at + cost)]
        records.append(change(now + 7000, 1, 0, RUNNING, BLOCKED))
    records += [change(100_000 + 10_000 * rounds, 1, 0, BLOCKED, RUNNABLE), *more]
    path = tmp_path / name
    path.write_bytes(window(0, *records))
    return path


def compared(diff, *words):
    code, out, err = diff(*words, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["schema"] == 1
    return found


def row(found, section, what, owner="d1v0"):
    return next(x for x in found[section] if (x["owner"], x["what"]) == (owner, what))


def test_a_trace_and_itself(diff, tmp_path):
    path = trace(tmp_path, "a", exits=4, cost=50)
    found = compared(diff, path, path, "--cpu-hz=1G")
    for section in ("exits", "runstates", "pv", "volume"):
        for line in found[section]:
            for name, pair in line.items():
                if isinstance(pair, list):
                    assert pair[0] == pair[1], (section, name)


def test_more_and_dearer_exits(diff, tmp_path):
    """4 exits of 50 ns in 10 us, then 8 of 100: rates, means and time a second, exactly."""
    a = trace(tmp_path, "a", exits=4, cost=50)
    b = trace(tmp_path, "b", exits=8, cost=100)
    found = compared(diff, a, b, "--cpu-hz=1G")
    line = row(found, "exits", "CPUID")
    assert line["per_second"] == [400_000, 800_000]
    assert line["mean_ns"] == [50, 100]
    assert line["ns_per_second"] == pytest.approx([20_000_000, 80_000_000])
    assert not line["within_unseen"]
    waits = row(found, "runstates", "runnable")
    assert waits["share"] == [0.1, 0.1]
    assert waits["mean_wait_ns"] == [1000, 1000]


def test_the_length_does_not_matter(diff, tmp_path):
    """The same load for three times as long."""
    a = trace(tmp_path, "a", exits=4, cost=50, rounds=10)
    b = trace(tmp_path, "b", exits=4, cost=50, rounds=30)
    found = compared(diff, a, b, "--cpu-hz=1G")
    assert row(found, "exits", "CPUID")["per_second"] == pytest.approx([400_000, 400_000])
    assert row(found, "runstates", "running")["share"] == [0.6, 0.6]


def test_what_is_new_or_gone(diff, tmp_path):
    a = trace(tmp_path, "a", exits=0, cost=1)
    b = trace(tmp_path, "b", exits=2, cost=40)
    found = compared(diff, a, b, "--cpu-hz=1G")
    assert row(found, "exits", "CPUID")["per_second"] == [None, 200_000]
    _, out, _ = diff(a, b, "--cpu-hz=1G", "--section", "exits")
    assert "new" in out
    _, out, _ = diff(b, a, "--cpu-hz=1G", "--section", "exits")
    assert "gone" in out


def test_what_losses_may_explain_is_marked(diff, tmp_path):
    """R12: a fifth of the second trace was not seen, and the rest shows a tenth more."""
    a = trace(tmp_path, "a", exits=10, cost=50)
    end = 200_000
    gap = lost(end + 50_000, 9, end + 20_000, dom=1)
    b = trace(tmp_path, "b", exits=11, cost=50, more=[gap])
    found = compared(diff, a, b, "--cpu-hz=1G")
    assert found["unseen_share"][1] > 0.1
    assert found["lost_per_second"][1] > 0
    assert row(found, "exits", "CPUID")["within_unseen"]
    code, out, _ = diff(a, b, "--cpu-hz=1G", "--section", "exits")
    assert code == 0
    assert "%?" in out


def test_unknown_rates(diff, tmp_path):
    """R47: cycles, and no guess."""
    a = trace(tmp_path, "a", exits=4, cost=50)
    b = trace(tmp_path, "b", exits=4, cost=60)
    found = compared(diff, a, b)
    assert found["unit"] == "cycles"
    assert row(found, "exits", "CPUID")["mean_ns"] == [50, 60]


def test_text_fits_a_terminal_and_says_what_is_compared(diff, tmp_path):
    a = trace(tmp_path, "a", exits=4, cost=50)
    b = trace(tmp_path, "b", exits=8, cost=100)
    code, out, _ = diff(a, b, "--cpu-hz=1G", "--by", "domain")
    assert code == 0
    assert max(map(len, out.splitlines()[2:])) <= 80
    assert out.startswith(f"A: {a}: 0.000 s at 1000000000 Hz (--cpu-hz)")


def test_nothing_to_compare(diff, tmp_path):
    empty = tmp_path / "empty"
    empty.write_bytes(window(0, vmexit(5, HLT)))
    path = trace(tmp_path, "a", exits=4, cost=50)
    assert diff(empty, path, "--cpu-hz=1G")[0] == 2
    assert diff(path, tmp_path / "nothing")[0] == 6
    assert diff(path, path, "--top", "0")[0] == 2
