"""`top` as text: every number by hand, at 1 GHz, of one second."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from tracelib.analysis.exits import Cause
from tracelib.analysis.families import Verdict
from tracelib.analysis.results import Owner
from tracelib.chunks import TraceInfo
from tracelib.clock import Rate
from tracelib.units import CpuId, DomId, Nanoseconds, Tsc, VcpuId
from xtracectl.answers.intervals import Row
from xtracectl.render.top import help_screen, plain, screen, waiting
from xtracectl.render.top_json import json_line
from xtracectl.top.sampling import Sample
from xtracectl.top.view import View

HZ = 10**9
MS = HZ // 1000

IO = Cause("IO_INSTRUCTION", 30, nested=False)
HLT = Cause("HLT", 12, nested=False)
RDTSC = Cause("RDTSC", 16, nested=True)


def vcpu(domain, number):
    return Owner(DomId(domain), VcpuId(number))


def row(*times, **numbers):
    """Times in milliseconds."""
    return Row([time * MS for time in times], **numbers)


BUSY = row(
    600, 300, 100, 0, 0, 0, exits=1500, paired=1400, cost=60 * MS, runs=50, waits=40,
    waited=200 * MS, hypercalls=250, reasons=Counter({IO: 50 * MS, HLT: 10 * MS, RDTSC: 0}),
    often=Counter({IO: 1000, HLT: 400, RDTSC: 100}),
)  # fmt: skip
SLEEPY = row(100, 0, 650, 0, 200, 50, runs=5)
GONE = row(0, 0, 0, 1000, 0, 0)
IDLE = row(0, 0, 1000, 0, 0, 0)
CPU = row(700, 200, 20, 30, 50, records=30_000, bytes=600_000, gaps=2, lost=120)


def whole(*rows):
    total = Row([0] * len(rows[0].times))
    for one in rows:
        total.add(one)
    return total


def sample(vcpus=None, **changes):
    """Two vCPUs of d1, one of d2 that sleeps, and d9's, which was removed."""
    found = vcpus or {
        vcpu(1, 0): BUSY, vcpu(1, 1): SLEEPY, vcpu(2, 0): IDLE, vcpu(9, 0): GONE,
    }  # fmt: skip
    fields = {
        "info": TraceInfo("store", "/store", host="anhost", hypervisor="Xen",
                          hypervisor_version="4.17.3"),
        "boot": (1, 1), "rate": Rate(HZ, "test"), "verdict": Verdict("vmx", "the trace says so"),
        "start": Tsc(1000), "first": Tsc(1000 + 4 * HZ), "last": Tsc(1000 + 5 * HZ),
        "whole": whole(*found.values()), "machine": CPU, "vcpus": found,
        "cpus": {Owner(cpu=CpuId(0)): CPU},
        "at": Nanoseconds(1_796_076_001 * 10**9),
    }  # fmt: skip
    return Sample(**(fields | changes))


HEAD = """\
top: 22:00:01Z, the last 1.00 s; anhost, Xen 4.17.3
cpus     1: 70.0 % busy, 20.0 % idle, 2.0 % switching, 8.0 % not seen
records  30,000/s, 586 KiB/s; 2 GAPS: 120 missing
guests   1,500 exits/s, 8.6 % of their time on a CPU; 250 hypercalls/s
"""


def test_by_domain():
    """A domain's shares are sums over its vCPUs; who was offline all the time is left out."""
    assert plain(sample(), View()) == HEAD + """\
NAME     VCPU *CPU% WAIT%  BLK%    ?% MWAIT EXEC/s EXIT/s  EX% CALL/s  TOP EXITS/s
d1          2  70.0  30.0  75.0  25.0 5.0ms     55  1,500  8.6    250  \
IO_INSTRUCTION 1,000, HLT 400, nested RDTSC 100
d2          1   0.0   0.0 100.0   0.0     -    0.0    0.0    -    0.0
"""


def test_by_vcpu():
    assert plain(sample(), View(by="vcpu", sort="blocked"))[len(HEAD) :] == """\
NAME      CPU% WAIT% *BLK%    ?% MWAIT EXEC/s EXIT/s  EX% CALL/s  TOP EXITS/s
d2v0       0.0   0.0 100.0   0.0     -    0.0    0.0    -    0.0
d1v1      10.0   0.0  65.0  25.0     -    5.0    0.0  0.0    0.0
d1v0      60.0  30.0  10.0   0.0 5.0ms     50  1,500 10.0    250  \
IO_INSTRUCTION 1,000, HLT 400, nested RDTSC 100
"""


def test_by_cpu():
    assert plain(sample(), View(by="cpu"))[len(HEAD) :] == """\
NAME     *BUSY%  IDLE%  SWCH%     ?%   REC/s  LOST/s  GAPS
cpu0       70.0   20.0    2.0    8.0  30,000     120     2
"""


@pytest.mark.parametrize(
    ("state", "names"),
    [
        ({"by": "vcpu"}, ["d1v0", "d1v1", "d2v0"]),
        ({"by": "vcpu", "reverse": True}, ["d2v0", "d1v1", "d1v0"]),
        ({"by": "vcpu", "sort": "name"}, ["d1v0", "d1v1", "d2v0"]),
        ({"by": "vcpu", "sort": "unseen"}, ["d1v1", "d1v0", "d2v0"]),
        ({"sort": "vcpus", "reverse": True}, ["d2", "d1"]),
    ],
)
def test_order(state, names):
    """The most first; equal ones by name."""
    lines = plain(sample(), View(**state)).splitlines()[5:]
    assert [line.split()[0] for line in lines] == names


def test_losses():
    """Gaps whose records nobody counted are never 0."""
    def records(**numbers):
        machine = row(1000, 0, 0, 0, 0, records=1000, bytes=16_000, **numbers)
        return plain(sample(machine=machine), View()).splitlines()[2]

    assert records() == "records  1,000/s, 15.6 KiB/s; none lost"
    assert records(gaps=1, uncounted=1).endswith("; 1 GAP: nobody knows how many are missing")
    assert records(gaps=3, lost=7, uncounted=1).endswith("; 3 GAPS: 7 and more missing")


def test_corrections_of_earlier_samples():
    """A time may then be negative, or longer than the sample: neither is shown."""
    odd = {vcpu(1, 0): row(-200, 0, 0, 0, 1200, 0, waits=-1, waited=-5, often=Counter({IO: -1}))}
    line = plain(sample(odd), View(by="vcpu")).splitlines()[-1]
    assert line.split()[:6] == ["d1v0", "0.0", "0.0", "0.0", "100.0", "-"]
    assert "IO" not in line


def test_a_guest_that_is_not_known():
    """Its exits count; its times are the CPU's, and not its own."""
    unknown = {Owner(cpu=CpuId(3)): row(0, 0, 0, 0, 0, 0, exits=10, often=Counter({HLT: 10}))}
    lines = plain(sample(unknown), View(by="vcpu")).splitlines()
    assert lines[-1].split() == ["?@cpu3", *"-----", "0.0", "10", "-", "0.0", "HLT", "10"]
    assert plain(sample(unknown), View()).splitlines()[-1].split()[:3] == ["unknown", "-", "-"]


def test_big_domains_keep_the_columns():
    """Twenty busy vCPUs: 2000 %, in as many characters as 100.0."""
    big = {vcpu(1, number): row(1000, 0, 0, 0, 0, 0) for number in range(20)}
    lines = plain(sample(big), View()).splitlines()
    assert lines[-1].startswith("d1         20  2000   0.0")


def test_whose_reasons():
    def guests(verdict):
        return plain(sample(verdict=verdict), View()).splitlines()[3]

    assert guests(Verdict("svm", "", guessed=True)).endswith("; reasons: AMD's, a guess")
    assert guests(Verdict(None, "")).endswith("; reasons: numbers; see --vendor")


def test_an_input():
    """No wall clock, but where in it; of which boot, if there are several."""
    first = plain(sample(at=None), View()).splitlines()[0]
    assert first == "top: 4.00 to 5.00 s; /store"
    several = plain(sample(at=None, boot=(2, 3)), View()).splitlines()[0]
    assert several == "top: 4.00 to 5.00 s; /store, boot 2 of 3"


def test_notes_stand_below_the_head():
    lines = plain(sample(notes=("something",)), View()).splitlines()
    assert lines[4] == "! something"


# Screens


def test_a_screen_has_what_fits():
    """80 by 8: five lines of head, the columns, and two rows; no line is longer."""
    view = View(by="vcpu")
    drawn = screen(sample(), view, 80, 8)
    assert len(drawn.lines) == 8
    assert drawn.lines[drawn.heads].startswith("NAME")
    assert drawn.lines[4] == "rows 1 to 2 of 3; arrows scroll"
    assert drawn.lines[6].endswith("  IO_INSTRUCTION")
    assert max(map(len, drawn.lines)) <= 80
    view.press("end")
    drawn = screen(sample(), view, 80, 8)
    assert [line.split()[0] for line in drawn.lines[6:]] == ["d1v1", "d2v0"]
    assert drawn.lines[4] == "rows 2 to 3 of 3; arrows scroll"


@pytest.mark.parametrize("width", [1, 20, 79, 80, 92, 100, 200])
@pytest.mark.parametrize("height", [1, 3, 6, 7, 24])
@pytest.mark.parametrize("by", ["domain", "vcpu", "cpu"])
def test_any_size(width, height, by):
    drawn = screen(sample(notes=("a note",)), View(by=by), width, height)
    assert 0 < len(drawn.lines) <= height
    assert max(map(len, drawn.lines)) <= width


def test_reasons_that_fit():
    """As many as there is room for; the first one without its number before it is cut."""
    def reasons(width):
        line = screen(sample(), View(by="vcpu"), width, 24).lines[6]
        return line[66:].strip()

    assert reasons(66 + 14) == "IO_INSTRUCTION"
    assert reasons(66 + 10) == "IO_INSTRUC"
    assert reasons(66 + 20) == "IO_INSTRUCTION 1,000"
    assert reasons(66 + 29) == "IO_INSTRUCTION 1,000, HLT 400"


def test_talk():
    """What is typed and answered stands between head and table, before the scroll state."""
    view = View()
    view.press("d")
    view.press("7")
    asked = screen(sample(), view, 80, 24).lines[4]
    assert asked == "delay, in seconds or as 500ms (now 3.0 s): 7_"
    view.press("\n")
    assert screen(sample(), view, 80, 24).lines[4] == "every 7.0 s"


def test_before_the_first_sample():
    assert waiting("", View(), 80, 24).lines[0] == "top: the first sample is being taken"
    assert waiting("nobody there", View(), 80, 24).lines[1] == "! nobody there"


def test_help_fits_a_small_terminal():
    """All keys and columns, in 24 lines of 80."""
    for by in ("domain", "vcpu", "cpu"):
        drawn = help_screen(View(by=by), 1000, 1000)
        assert len(drawn.lines) <= 24
        assert max(map(len, drawn.lines)) <= 80


# JSON


def test_json():
    """Exact, whatever is shown; corrections stay."""
    found = json.loads(json_line(replace(sample(), at=Nanoseconds(5))))
    assert (found["schema"], found["start"], found["end"]) == (1, "4.000000000", "5.000000000")
    assert found["realtime_ns"] == 5
    assert [entry["name"] for entry in found["domains"]] == ["d1", "d2"]
    assert [entry["name"] for entry in found["vcpus"]] == ["d1v0", "d1v1", "d2v0"]
    first = found["vcpus"][0]
    assert (first["domain"], first["vcpu"], first["vcpus"]) == (1, 0, 1)
    assert first["cycles"] == {
        "running": str(600 * MS), "runnable": str(300 * MS), "blocked": str(100 * MS),
        "offline": "0", "lost": "0", "unknown": "0",
    }  # fmt: skip
    assert (first["runs"], first["waits"], first["wait_cycles"]) == (50, 40, str(200 * MS))
    assert first["top_exits"][0] == {
        "name": "IO_INSTRUCTION", "reason": 30, "nested": False, "exits": 1000,
        "cycles": str(50 * MS),
    }  # fmt: skip
    (cpu,) = found["cpus"]
    assert (cpu["cpu"], cpu["records"], cpu["lost_records"], cpu["gaps"]) == (0, 30_000, 120, 2)
    assert cpu["cycles"]["busy"] == str(700 * MS)
    assert found["all"]["exits"] == 1500
