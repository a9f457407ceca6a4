"""Rows of summary's tables, from hand-made traces, as people read them."""

from __future__ import annotations

import pytest

from tests.support.analysis import OFFLINE, RUNNABLE, RUNNING, change, vmentry, vmexit
from tests.support.xentrace import window
from tracelib.records import make_record
from xtracectl.cli import main

_IO = 30


@pytest.fixture
def text(capsys, tmp_path):
    """What summary says of records at 1 GHz."""

    def run(*records, words=()):
        path = tmp_path / "x.trace"
        path.write_bytes(window(0, change(1000, 1, 0, RUNNABLE, RUNNING), *records))
        assert main(["summary", str(path), "--cpu-hz=1G", "--vendor=intel", *words]) == 0
        return capsys.readouterr().out

    return run


def _row(text, start):
    (found,) = [line for line in text.splitlines() if line.strip().startswith(start)]
    return found.strip()[len(start) :].split()


def test_io(text):
    """300 ns on the CPU, 5000 ns off it, while the device model answered."""
    said = text(
        vmexit(2000, _IO), make_record(0x82016, 0x60, 1), change(2200, 1, 0, RUNNING, OFFLINE),
        change(6200, 1, 0, OFFLINE, RUNNABLE), change(7200, 1, 0, RUNNABLE, RUNNING),
        vmentry(7300),
    )  # fmt: skip
    assert _row(said, "ioport_read port=0x60") == ["1", "300ns", "300ns", "5.0us"]


def test_the_dearest_event_first(text):
    said = text(
        vmexit(2000, 10), make_record(0x8200E, *[0] * 6), vmentry(2100),
        vmexit(3000, 16), make_record(0x8201A, 7, 0), vmentry(3900),
    )  # fmt: skip
    assert said.index("  rdtsc ") < said.index("  cpuid leaf=")


def test_what_is_not_listed_is_summed(text):
    """Three ports of which one is listed: the other two cost 20 and 30 ns."""
    said = text(
        *(record for place, cost in enumerate((40, 30, 20)) for record in (
            vmexit(2000 + 1000 * place, _IO), make_record(0x82016, 0x60 + place, 1),
            vmentry(2000 + 1000 * place + cost),
        )), words=["--top=1"],
    )  # fmt: skip
    assert _row(said, "ioport_read port=0x60") == ["1", "40ns", "40ns", "0"]
    assert _row(said, "ioport_read: 2 values more") == ["2", "50ns", "25ns", "0"]


def test_interrupts(text):
    """Two in 2 us; 500 and 40 cycles from the handler's beginning to its end."""
    said = text(
        make_record(0x802008, 30, 2000, 2500, tsc=2600),
        make_record(0x802008, 30, 2900, 2940, tsc=3000),
    )
    assert _row(said, "d1v0      irq_handled irq=30") == ["2", "1000k", "540ns", "270ns"]


def test_hypercalls_of_pv_guests_have_no_time(text):
    said = text(make_record(0x20100D, 29, tsc=2000), vmentry(3000))
    assert "PV hypercalls have no record of their end" in said
    assert len(_row(said, "d1v0      hypercall op=sched_op")) == 2


def test_nobody_knows_who_ran(capsys, tmp_path):
    path = tmp_path / "x.trace"
    path.write_bytes(window(0, make_record(0x20100D, 29, tsc=2000)))
    assert main(["summary", str(path), "--section=pv"]) == 0
    text = capsys.readouterr().out
    assert "cpu0 (?)" in text
    assert "(?): nobody knows" in text


@pytest.mark.parametrize("start", ["%run:", "runnable:", "switch:", "cost, mean, off:"])
def test_columns_are_explained(text, start):
    said = text(vmexit(2000, 10), make_record(0x8200E, *[0] * 6), vmentry(2100))
    assert any(line.strip().startswith(start) for line in said.splitlines())
