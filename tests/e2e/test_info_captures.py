"""`xtracectl info` on captures by a real Xen: what an independent reader counted."""

from __future__ import annotations

import pytest

from tests.support import captures
from tests.support.captures import SHARED, SHARED_NAMES, capture, expected
from tests.support.xtracectl import info, output, run

COUNTED = ("records", "per_event", "per_cpu", "lost", "first_tsc", "last_tsc")


def agrees(answer, name):
    assert {key: answer[key] for key in COUNTED} == {key: expected()[name][key] for key in COUNTED}
    assert answer["wraps"] == expected()[name]["wrap_records"]
    assert answer["problems"] == []
    assert answer["steps_back"] == 0
    assert answer["schema"] == 1
    assert answer["kind"] == "xentrace"


@pytest.mark.parametrize("name", captures.NAMES)
def test_counts(name, tmp_path):
    """R15: (a) a current file: not a record more or less."""
    agrees(info(captures.write(name, tmp_path)), name)


@pytest.mark.skipif(not SHARED_NAMES, reason="no folder shared/traces beside the checkout")
@pytest.mark.parametrize("name", SHARED_NAMES)
def test_counts_of_all_shared_captures(name):
    agrees(info(SHARED / name), name)


@pytest.mark.parametrize("name", ["idle.trace", "lost.trace"])
def test_standard_input(name):
    agrees(info("-", data=capture(name)), name)


def test_several_inputs_are_summed_up(tmp_path):
    names = ("idle.trace", "probe4.trace")
    answer = info(*(captures.write(name, tmp_path) for name in names))
    assert answer["records"] == sum(expected()[name]["records"] for name in names)
    assert answer["lost"] == {"0": 41}
    assert answer["first_tsc"] == expected()["idle.trace"]["first_tsc"]
    assert answer["last_tsc"] == expected()["probe4.trace"]["last_tsc"]
    for one, name in zip(answer["inputs"], names, strict=True):
        agrees(one, name)


def test_losses_and_unknown_rate(tmp_path):
    """R47: no rate in the file: cycles, and it says so; the span in seconds is null."""
    answer = info(captures.write("boot4.trace", tmp_path))
    assert answer["lost_by_cause"] == {"ring_full": 663791}
    assert answer["gaps"] == 4
    assert answer["losses_of_unknown_size"] == {}
    assert answer["tsc_hz"] is None
    assert answer["span_ns"] is None


@pytest.mark.parametrize("rate", ["2.4454G", "2445400000", "2445.4M"])
def test_rate_given(rate, tmp_path):
    """R47: the rate used and its source are in the answer."""
    answer = info(captures.write("boot4.trace", tmp_path), "--cpu-hz", rate)
    assert (answer["tsc_hz"], answer["tsc_source"]) == (2_445_400_000, "--cpu-hz")
    assert answer["span_ns"] // 10**6 == 69_691
    span = int(answer["last_tsc"]) - int(answer["first_tsc"])
    assert answer["span_ns"] == span * 10**9 // 2_445_400_000


@pytest.mark.parametrize("rate", ["0", "abc", "-5", "0.0G", "2.4X"])
def test_rubbish_rates_are_refused(rate, tmp_path):
    """R47"""
    done = run("info", f"--cpu-hz={rate}", captures.write("idle.trace", tmp_path))
    assert done.returncode == 2
    assert done.stdout == b""
    assert b"xtracectl: " in done.stderr


def test_text_fits_in_80_columns(tmp_path):
    path = captures.write("boot4.trace", tmp_path)
    text = output("info", path, "--cpu-hz", "2.4454G").replace(str(path), "boot4.trace")
    assert max(map(len, text.splitlines())) <= 80
    for part in ("22,913", "663,791 in 4 gaps (ring_full 663,791)", "1m 09s", "lost_records"):
        assert part in text
