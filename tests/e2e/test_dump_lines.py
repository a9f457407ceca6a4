"""`dump`: what a line begins with (--time), and lines by a user's rules (--formats)."""

from __future__ import annotations

import json

import pytest

from tests.support.segments import TSC_HZ, SegmentBuilder
from tests.support.xentrace import lost, timed, window
from tests.support.xtracectl import output, run
from tracelib.losses import Cause, Loss
from tracelib.records import make_record
from tracelib.units import CpuId, Tsc


@pytest.fixture
def store(tmp_path):
    """A store whose anchor has TSC 1000 at 22:00:00 UTC; 61.000000001 s later a wake-up."""
    late = 1000 + 61 * TSC_HZ + 2
    records = (
        timed(1000) + make_record(0x82012, 5) + lost(2000, 7, 1500)
        + make_record(0x21201, 1 << 16 | 3, tsc=late)
    )
    SegmentBuilder().block(0, records).losses(
        Loss(Cause.CRASH, CpuId(0), 4, first_tsc=Tsc(3000), last_tsc=Tsc(4000))
    ).seal().write(tmp_path)
    return tmp_path


def test_the_time_of_day(store):
    """To the nanosecond, in UTC, also where a gap began."""
    lines = output("dump", store, "--time", "wall").splitlines()
    assert [line.split()[0].rstrip("~") for line in lines] == [
        "2026-11-30T22:00:00.000000000Z", "2026-11-30T22:00:00.000000000Z",
        "2026-11-30T22:00:00.000000500Z", "2026-11-30T22:00:00.000001500Z",
        "2026-11-30T22:01:01.000000001Z",
    ]
    assert "7 records since 2026-11-30T22:00:00.000000250Z (ring_full)" in lines[2]
    assert "4 records since 2026-11-30T22:00:00.000001000Z (crash)" in lines[3]


def test_raw_time_stamps(store):
    lines = output("dump", store, "--time", "tsc").splitlines()
    assert [int(line.split()[0].rstrip("~")) for line in lines] == [
        1000, 1000, 2000, 4000, 1000 + 61 * TSC_HZ + 2,
    ]
    assert "7 records since 1500 (ring_full)" in lines[2]


def test_the_default_is_what_it_was(store):
    assert output("dump", store, "--time", "elapsed") == output("dump", store)


def test_a_file_that_does_not_know_the_time_of_day(tmp_path):
    path = tmp_path / "x.trace"
    path.write_bytes(window(0, timed(5)))
    done = run("dump", path, "--time", "wall")
    assert done.returncode == 2
    assert b"no clock anchors: wall-clock times are unknown in it" in done.stderr
    assert done.stdout == b""


def test_seconds_without_a_rate(tmp_path):
    """R47: who asks for seconds does not get cycles."""
    path = tmp_path / "x.trace"
    path.write_bytes(window(0, timed(5), timed(8)))
    done = run("dump", path, "--time", "elapsed")
    assert done.returncode == 2
    assert b"need the clock rate" in done.stderr
    assert b"--cpu-hz 2.4G" in done.stderr
    text = output("dump", path, "--time", "elapsed", "--cpu-hz", "1G")
    assert [line.split()[0] for line in text.splitlines()] == ["0.000000000", "0.000000003"]


def test_times_in_csv(store):
    """A column of its own, named for what it is; the others are what they were."""
    plain = output("dump", store, "--format", "csv").splitlines()
    for base, second in (
        ("elapsed", "0.000000500"), ("wall", "2026-11-30T22:00:00.000000500Z"), ("tsc", "2000")
    ):  # fmt: skip
        got = output("dump", store, "--format", "csv", "--time", base).splitlines()
        assert got[0] == f"time_{base},{plain[0]}"
        assert [line.partition(",")[2] for line in got[1:]] == plain[1:]
        assert got[3].partition(",")[0] == second


def test_times_in_json(store):
    plain = [json.loads(line) for line in output("dump", store, "--format", "json").splitlines()]
    for base, second in (
        ("elapsed", "0.000000500"), ("wall", "2026-11-30T22:00:00.000000500Z"), ("tsc", "2000")
    ):  # fmt: skip
        text = output("dump", store, "--format", "json", "--time", base)
        got = [json.loads(line) for line in text.splitlines()]
        assert got[2]["time"] == second
        assert [{key: one[key] for key in one if key != "time"} for one in got] == plain


def test_a_record_before_the_first_time(tmp_path):
    path = tmp_path / "x.trace"
    path.write_bytes(window(0, make_record(0x82012, 5), timed(5)))
    for name, first in (("text", "-~"), ("csv", ""), ("json", None)):
        text = output("dump", path, "--format", name, "--time", "tsc").splitlines()
        if name == "json":
            assert json.loads(text[0])["time"] is first
        else:
            assert text[name == "csv"].lstrip().replace(",", " ").split(" ")[0] == first


@pytest.mark.parametrize(
    "words", [("--format", "xentrace", "-o", "/dev/null"), ("--formats", "/dev/null")]
)
def test_other_formats_have_times_of_their_own(store, words):
    done = run("dump", store, "--time", "tsc", *words)
    assert done.returncode == 2
    assert b"--time is for text, json and csv" in done.stderr


RULES = """\
# rules like those of xentrace_format
0x00000000  CPU%(cpu)d  %(tsc)d (+%(reltsc)8d)  unknown (0x%(event)016x)  [ 0x%(1)08x 0x%(7)x ]

0x00021201\tCPU%(cpu)d  %(tsc)d (+%(reltsc)8d)  wake  [ dom:vcpu = 0x%(1)08x ]
0x0001f001  CPU%(cpu)d  %(tsc)d  lost %(1)d 100%%
"""


def test_rules(tmp_path):
    """Cycles since the record before on that CPU; words that are not there are 0; events
    without a rule by that of event 0."""
    rules, path = tmp_path / "formats", tmp_path / "x.trace"
    rules.write_text(RULES)
    path.write_bytes(
        window(0, make_record(0x21201, 0x10003, tsc=1000), make_record(0x21201, 7, tsc=1500))
        + window(1, make_record(0x21201, 9, tsc=1200), make_record(0x81001, tsc=1300),
                 make_record(0x82012, 0xAB), lost(1400, 57, 1350))
    )
    assert output("dump", path, "--formats", rules).splitlines() == [
        "CPU0  1000 (+       0)  wake  [ dom:vcpu = 0x00010003 ]",
        "CPU1  1200 (+       0)  wake  [ dom:vcpu = 0x00000009 ]",
        "CPU1  1300 (+     100)  unknown (0x0000000000081001)  [ 0x00000000 0x0 ]",
        "CPU1  0 (+       0)  unknown (0x0000000000082012)  [ 0x000000ab 0x0 ]",
        "CPU1  1400  lost 57 100%",
        "CPU0  1500 (+     500)  wake  [ dom:vcpu = 0x00000007 ]",
    ]


@pytest.mark.parametrize(
    "spec", ["d", "i", "u", "x", "o", "08x", "8d", "08d", "016x", "-8d", "+d", "#x", "X", "08X",
             ".3d", "5s", "r", "f", "ld"]
)  # fmt: skip
def test_conversions_are_those_of_python(tmp_path, spec):
    """What `%` of a dictionary gives, of every value that a record has."""
    rules, path = tmp_path / "formats", tmp_path / "x.trace"
    form = " ".join(f"%({name}){spec}" for name in ("cpu", "event", "1", "2", "7"))
    rules.write_text(f"0x81001 {form}\n")
    rows = [(1, 0), (0xFFFF, 65), (9, 7), (10, 16), (0x10FFFF, 100)]
    path.write_bytes(window(3, *(make_record(0x81001, *row, tsc=5) for row in rows)))
    expected = [
        form % {"cpu": 3, "event": 0x81001, "1": one, "2": two, "7": 0} for one, two in rows
    ]
    assert output("dump", path, "--formats", rules).splitlines() == expected


def test_large_numbers_and_time_that_goes_back(tmp_path):
    """R18: a step back is negative, as it was there; 64 bits are 64 bits."""
    rules, path = tmp_path / "formats", tmp_path / "x.trace"
    rules.write_text("0x81001 %(tsc)d %(tsc)016x (%(reltsc)8d) (%(reltsc)08d) %(reltsc)d\n")
    high = 0xFEDCBA9876543210
    path.write_bytes(window(0, *(make_record(0x81001, tsc=tsc) for tsc in (high, high - 3, high))))
    rows = [(high, 0), (high - 3, -3), (high, 3)]
    assert output("dump", path, "--formats", rules).splitlines() == [
        f"{tsc} {tsc:016x} ({step:8d}) ({step:08d}) {step}" for tsc, step in rows
    ]


def test_hypercalls_without_their_argument_bits(tmp_path):
    """As xentrace_format: op's low 20 bits for PV_HYPERCALL_V2, all 32 for a subcall."""
    rules, path = tmp_path / "formats", tmp_path / "x.trace"
    rules.write_text("0x0020100d op = 0x%(1)08x\n0x0020200e sub = 0x%(1)08x\n")
    call = 0x00100000 | 24
    path.write_bytes(
        window(0, make_record(0x20100D, call, 1, tsc=5), make_record(0x20200E, call, 1, tsc=6))
    )
    assert output("dump", path, "--formats", rules).splitlines() == [
        "op = 0x00000018", "sub = 0x00100018"
    ]


def test_a_stated_loss_among_rules(store, tmp_path):
    """R13: a loss is shown in every format."""
    rules = tmp_path / "formats"
    rules.write_text(RULES)
    lines = output("dump", store, "--formats", rules).splitlines()
    assert lines[3] == "CPU0  4000 (+       0)  LOST 4 records (crash)"


def test_no_rule_for_the_rest(tmp_path):
    """Every record is shown, whatever the file lacks."""
    rules, path = tmp_path / "formats", tmp_path / "x.trace"
    rules.write_text("")
    path.write_bytes(window(0, make_record(0x81001, 1, tsc=5)))
    (line,) = output("dump", path, "--formats", rules).splitlines()
    assert "0x00081001" in line
    assert "0x00000001" in line


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("hello", "invalid literal"),
        ("0x81001 %(dom)d", "no value named 'dom'"),
        ("0x81001 %(1)q", "unsupported format character"),
        ("0x81001 %d", "number is required"),
        ("0x10000000 x", "no event's number"),
        ("-1 x", "no event's number"),
        ("0x81001", "nothing is to be written"),
        ("0x81001 100%", "incomplete format"),
        ("0x81001 %(1)99999d", "a line that long"),
        ("0x81001 %(1)c", "words are not characters"),
        ("0x81001 %s", "a % without (name)"),
    ],
)
def test_a_rule_that_is_none(tmp_path, rule, reason):
    """File, line, reason."""
    rules, path = tmp_path / "formats", tmp_path / "x.trace"
    rules.write_text(f"# first\n{rule}\n")
    path.write_bytes(window(0, timed(5)))
    done = run("dump", path, "--formats", rules)
    assert done.returncode == 2
    said = done.stderr.decode()
    assert f"{rules}:2: " in said
    assert reason in said


def test_rules_that_are_not_there(tmp_path):
    path = tmp_path / "x.trace"
    path.write_bytes(window(0, timed(5)))
    assert run("dump", path, "--formats", tmp_path / "none").returncode == 6
    assert run("dump", path, "--formats", "/dev/zero").returncode == 2
