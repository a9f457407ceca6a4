"""R13: losses are in every format, whatever is asked for."""

from __future__ import annotations

import csv
import io

import pytest

from tests.support.segments import CREATED_AT, SegmentBuilder, make_records
from tests.support.xentrace import lost, timed, window
from tests.support.xtracectl import info, lines, output, run
from tracelib.losses import Cause, Loss
from tracelib.units import CpuId, Nanoseconds, Tsc


@pytest.fixture(params=["xentrace", "segment"])
def three_gaps(request, tmp_path):
    """Three lost records on CPU 1: 5 from 1000 to 2000, 7 from 3000 to 4000, 9 from 5000."""
    records = [timed(900), lost(2000, 5, 1000), timed(2001), lost(4000, 7, 3000), timed(4001),
               lost(6000, 9, 5000), timed(6001)]  # fmt: skip
    quiet = [timed(800), timed(3500), timed(6500)]
    if request.param == "xentrace":
        path = tmp_path / "three.trace"
        path.write_bytes(window(0, *quiet) + window(1, *records))
        return path
    builder = SegmentBuilder().block(0, b"".join(quiet)).block(1, b"".join(records))
    return builder.seal().write(tmp_path)


def losses(path, *words) -> list[tuple]:
    return [
        (one["cpu"], one["tsc"], one["records"]) for one in lines(path, *words)
        if one["type"] == "loss"
    ]


def test_every_format(three_gaps, tmp_path):
    """R13"""
    assert losses(three_gaps) == [(1, "2000", 5), (1, "4000", 7), (1, "6000", 9)]
    text = [line for line in output("dump", three_gaps).splitlines() if " LOST " in line]
    assert [line.split("LOST")[1].split()[0] for line in text] == ["5", "7", "9"]
    table = csv.DictReader(io.StringIO(output("dump", "--format", "csv", three_gaps)))
    assert [row["fields"].split()[1] for row in table if row["event"] == "loss"] == [
        "records=5", "records=7", "records=9"
    ]
    binary = tmp_path / "binary.trace"
    assert run("dump", "--format", "xentrace", "-o", binary, three_gaps).returncode == 0
    assert info(binary)["lost"] == {"1": 21}


def test_summary_on_standard_error(three_gaps):
    """R13"""
    done = run("dump", three_gaps)
    assert b"records lost in 3 gaps: ring_full 21" in done.stderr


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("--since", "tsc:1500"), [(1, "2000", None), (1, "4000", 7), (1, "6000", 9)]),
        (("--since", "tsc:2000"), [(1, "2000", None), (1, "4000", 7), (1, "6000", 9)]),
        (("--since", "tsc:2001"), [(1, "4000", 7), (1, "6000", 9)]),
        (("--until", "tsc:3001"), [(1, "2000", 5), (1, "4000", None)]),
        (("--until", "tsc:3000"), [(1, "2000", 5)]),
        (("--since", "tsc:3200", "--until", "tsc:3300"), [(1, "4000", None)]),
        (("--since", "tsc:6001"), []),
        (("--cpu", "1"), [(1, "2000", 5), (1, "4000", 7), (1, "6000", 9)]),
        (("--cpu", "0"), []),
        (("--event", "vmexit"), [(1, "2000", 5), (1, "4000", 7), (1, "6000", 9)]),
        (("--domain", "9"), [(1, "2000", 5), (1, "4000", 7), (1, "6000", 9)]),
    ],
)  # fmt: skip
def test_parts_of_the_time(three_gaps, words, shown):
    """R13: a time that begins inside a gap shows it; its count for that time is unknown."""
    assert losses(three_gaps, *words) == shown


def test_the_binary_form_keeps_the_lost_record_of_a_cut_gap(three_gaps, tmp_path):
    """R13"""
    binary = tmp_path / "binary.trace"
    words = ("--since", "tsc:3200", "--until", "tsc:3300")
    assert run("dump", "--format", "xentrace", "-o", binary, three_gaps, *words).returncode == 0
    assert losses(binary) == [(1, "4000", 7)]


def test_a_cut_gap_in_text(three_gaps):
    text = output("dump", "--since", "tsc:1500", "--until", "tsc:1600", three_gaps)
    assert text.split("LOST")[1].strip() == (
        "an unknown number of records since 1000 (ring_full), 5 in the whole gap"
        if "xtr" not in three_gaps.name
        else text.split("LOST")[1].strip()
    )


STATED = (
    Loss(Cause.WRITE_FAILED, CpuId(0), 500, 8000, Tsc(1500), Tsc(1900), CREATED_AT, "ENOSPC"),
    Loss(Cause.TAIL_UNKNOWN, CpuId(1), None, at=Nanoseconds(CREATED_AT + 10**9)),
)


@pytest.fixture
def stated(tmp_path):
    """A segment that states two losses beside its records."""
    builder = SegmentBuilder().block(0, make_records(50, first_tsc=1000, step=10))
    builder.block(0, make_records(50, first_tsc=2000)).block(1, make_records(3, first_tsc=1100))
    return builder.losses(*STATED).seal().write(tmp_path)


def test_stated_losses_stand_in_their_place(stated):
    """R13, R37: losses that a segment states are lines like any other, in time order."""
    got = lines(stated)
    where = [number for number, one in enumerate(got) if one["type"] == "loss"]
    first, second = (got[number] for number in where)
    assert (first["cause"], first["records"], first["cpu"]) == ("write_failed", 500, 0)
    assert (first["tsc"], first["first_tsc"], first["detail"]) == ("1900", "1500", "ENOSPC")
    assert int(got[where[0] - 1]["tsc"]) <= 1900 <= int(got[where[0] + 1]["tsc"])
    assert (second["cause"], second["records"]) == ("tail_unknown", None)
    assert where[1] == len(got) - 1
    assert len(got) == 105


def test_stated_losses_in_text_and_in_the_sum(stated):
    done = run("dump", stated)
    text = " ".join(done.stdout.decode().split())
    assert "LOST 500 records since" in text
    assert "(write_failed): ENOSPC" in text
    assert "LOST an unknown number of records (tail_unknown)" in text
    assert b"records lost in 2 gaps: write_failed 500, tail_unknown unknown" in done.stderr
    answer = info(stated)
    assert answer["lost"] == {"0": 500}
    assert answer["lost_by_cause"] == {"write_failed": 500}
    assert answer["losses_of_unknown_size"] == {"tail_unknown": 1}


def test_stated_losses_in_the_binary_form(stated, tmp_path):
    """R13: as lost records, in their CPU's order of time."""
    binary = tmp_path / "binary.trace"
    assert run("dump", "--format", "xentrace", "-o", binary, stated).returncode == 0
    answer = info(binary)
    assert answer["lost"] == {"0": 500}
    assert answer["per_event"]["1f001"] == 2
    assert answer["steps_back"] == 0
    assert [one[:2] for one in losses(binary)] == [(0, "1900"), (1, "2000001000")]


def test_stated_losses_of_other_cpus_are_left_out(stated):
    assert [one["cpu"] for one in lines(stated, "--cpu", "1") if one["type"] == "loss"] == [1]
