"""kvmtrace sets on the command line: dump, info, summary, verify, and what refuses them."""

from __future__ import annotations

import json
import random
from itertools import product

import pytest

from tests.support.kvmtrace import (
    KINDS,
    ORDERS,
    Style,
    entry,
    guest,
    handler,
    leave,
    write_set,
)
from tests.support.xentrace import round_robin
from tests.support.xtracectl import info, lines, output, run

STYLES = [Style(kind, order) for kind, order in product(KINDS, ORDERS)]
START = (1 << 40) + 5
RECS = [
    leave(START, 12, 0xFFFF_FFFF_8020_1234), handler(0x11), entry(START + 500),
    leave(START + 2000, 30, 0x40_0000), handler(0x06, 0x3F8, 1), entry(START + 2100),
]  # fmt: skip
OTHERS = [entry(START + 40, pid=9, vcpu=1), leave(START + 90, 1, pid=9, vcpu=1)]


def options(style: Style) -> list[str]:
    """So that times are nanoseconds, or cycles at a rate at which they are equal."""
    if style.kind == "timestamp":
        return ["--kvmtrace-layout", "timestamp"]
    return ["--kvmtrace-layout", style.kind, "--cpu-hz", "1G"]


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_dump_is_in_time_order_and_decoded(tmp_path, style):
    """R43: the same text from all three layouts and both orders; four CPUs, one missing; an
    untimed event has the previous time of its CPU, marked."""
    name = write_set(tmp_path, style, {0: RECS, 1: OTHERS, 3: []})
    done = run("dump", name, *options(style), "--vendor", "intel")
    assert done.stdout.decode().splitlines() == [
        "    0.000000000    0 -        kvm_vmexit               "
        "pid=4711 vcpu=0 reason=HLT rip=0xffffffff80201234",
        "    0.000000000~   0 -        kvm_hlt                  pid=4711 vcpu=0",
        "    0.000000040    1 -        kvm_vmentry              pid=9 vcpu=1",
        "    0.000000090    1 -        kvm_vmexit               "
        "pid=9 vcpu=1 reason=EXTERNAL_INTERRUPT rip=0xffffffff80201234",
        "    0.000000500    0 -        kvm_vmentry              pid=4711 vcpu=0",
        "    0.000002000    0 -        kvm_vmexit               "
        "pid=4711 vcpu=0 reason=IO_INSTRUCTION rip=0x400000",
        "    0.000002000~   0 -        kvm_io_write             pid=4711 vcpu=0 port=0x3f8 size=1",
        "    0.000002100    0 -        kvm_vmentry              pid=4711 vcpu=0",
    ]
    assert done.returncode == 1
    assert b"the file of CPU 2 is not there" in done.stderr
    assert b"losses are unknown" in done.stderr


@pytest.mark.parametrize(
    ("style", "said"),
    [
        (Style("halves"), b"times are in cycles"), (Style("halves", ">"), b"times are in cycles"),
        (Style("packed", ">"), b"times are in cycles"),
        (Style("packed"), b"cycles or nanoseconds; the files do not tell which"),
        (Style("timestamp"), b"cycles or nanoseconds; the files do not tell which"),
        (Style("timestamp", ">"), b"the time stamps are nanoseconds"),
    ],
    ids=str,
)  # fmt: skip
def test_the_unit_is_stated(tmp_path, style, said):
    """R43."""
    name = write_set(tmp_path, style, {0: RECS})
    assert said in run("dump", name).stderr
    short = {"cycles": b"cycles;", "cycles or nanoseconds": b"cycles or nanoseconds;"}
    tick = info(name)["tick"]
    assert short.get(tick, b"the time stamps are nanoseconds") in run("info", name).stdout
    assert tick in said.decode()


def test_info_of_a_set(tmp_path):
    """Losses are unknown, never 0."""
    name = write_set(tmp_path, Style("timestamp", ">"), {0: RECS, 1: OTHERS})
    answer = info(name)
    assert answer["kind"] == "kvmtrace"
    assert answer["layout"] == "timestamp, big-endian"
    assert answer["records"] == 8
    assert answer["per_cpu"] == {"0": 6, "1": 2}
    assert answer["per_event"] == {"4001001": 3, "4001002": 3, "4002006": 1, "4002011": 1}
    assert answer["untimed"] == 2
    assert answer["span_ns"] == 2100
    assert answer["gaps"] is None
    assert answer["losses_unknown"]
    text = output("info", name)
    assert "lost        unknown: " in text
    assert max(map(len, text.splitlines()[1:])) <= 80
    assert "  1            2            ?" in text


def test_summary_of_a_set(tmp_path):
    name = write_set(tmp_path, Style("timestamp", ">"), {0: RECS, 1: OTHERS})
    [report] = json.loads(output("summary", name, "--json"))["reports"]
    exits = report["exits"]
    assert (exits["family"], exits["unseen_share"], exits["off_cpu_known"]) == ("ppc", None, False)
    assert [
        (row["pid"], row["vcpu"], row["domain"], row["name"], row["count"], row["cycles"]["sum"])
        for row in exits["rows"]
    ] == [
        (9, 1, None, "MACHINE_CHECK", 1, "0"),
        (4711, 0, None, "WATCHDOG", 1, "500"), (4711, 0, None, "30", 1, "100"),
    ]  # fmt: skip
    assert [row["label"] for row in exits["about"]] == ["", "port=0x3f8"]
    for absent in ("runstates", "pv", "losses"):
        assert report[absent]["absent"]
    assert report["volume"]["records"] == 8
    text = output("summary", name)
    assert "not in a kvmtrace set" in text
    assert "Losses\n  unknown: " in text
    assert "pid4711v0: 2 exits" in text
    assert max(map(len, text.splitlines()[1:])) <= 80


def test_one_guest_of_several(tmp_path):
    name = write_set(tmp_path, Style("timestamp", ">"), {0: RECS, 1: OTHERS})
    shown = lines(name, "--domain", "pid9")
    assert [row["fields"]["pid"] for row in shown] == [9, 9]
    assert all(row["cpu"] == 1 for row in shown)
    text = output("summary", name, "--section", "exits", "--domain", "pid9")
    assert "pid9v1: 1 exit " in text
    assert "pid4711v" not in text


@pytest.mark.parametrize("command", ["dump", "summary"])
def test_a_domain_is_no_process(tmp_path, command):
    """Nothing would be shown, and nobody would know why."""
    name = write_set(tmp_path, Style("timestamp", ">"), {0: RECS})
    trace = tmp_path / "x.trace"
    trace.write_bytes(round_robin())
    for path, domain in ((name, "3"), (trace, "pid3")):
        done = run(command, path, "--domain", domain)
        assert done.returncode == 2
        assert b"guests are" in done.stderr


def test_the_wrong_layout(tmp_path):
    name = write_set(tmp_path, Style("packed", ">"), {0: RECS})
    done = run("info", name, "--kvmtrace-layout", "timestamp")
    assert done.returncode == 1
    assert b"(--kvmtrace-layout timestamp)" in done.stderr


def test_where_the_guests_were(tmp_path):
    name = write_set(tmp_path, Style("timestamp", ">"), {0: RECS})
    text = output("summary", name, "--section", "where")
    assert "0xffffffff80201234                  WATCHDOG" in text
    assert "0x400000" in text


def test_members_and_bare_names(tmp_path):
    name = write_set(tmp_path, Style("packed"), {0: RECS, 1: OTHERS})
    assert info(f"{name}.1")["records"] == 2
    assert info(tmp_path / "guest")["records"] == 8


def test_verify(tmp_path):
    """Time that goes back within a CPU, a cut, a missing file: each with its place."""
    style = Style("packed", ">")
    name = write_set(tmp_path, style, {0: RECS, 1: [*OTHERS, entry(START)], 3: RECS})
    path = tmp_path / "guest.kvmtrace.3"
    path.write_bytes(path.read_bytes()[:-1])
    done = run("verify", name)
    assert done.returncode == 1
    at = 4 + sum(len(style.record(rec)) for rec in OTHERS)
    last = 4 + sum(len(style.record(rec)) for rec in RECS[:-1])
    out = done.stdout.decode()
    assert f"guest.kvmtrace.1: offset {at}: CPU 1: time goes back by 90 cycles" in out
    assert f"guest.kvmtrace.3: offset {last}: the file ends within a record" in out
    assert "the file of CPU 2 is not there" in out
    assert "clean" in output("verify", write_set(tmp_path, style, {0: RECS}, "good"))


@pytest.mark.parametrize("command", ["dump", "info", "summary", "verify"])
def test_garbage_is_refused(tmp_path, command):
    """R15: random bytes: refused with offset 0, no events, no traceback."""
    (tmp_path / "x.kvmtrace.0").write_bytes(random.Random(5).randbytes(4000))
    done = run(command, tmp_path / "x.kvmtrace")
    assert done.returncode == 1
    assert not done.stdout.strip()
    assert b"offset 0: no record of kvmtrace's is in it" in done.stderr


def test_an_ambiguous_file_asks(tmp_path):
    """R43: the layout is asked for where it cannot be told."""
    data = Style("halves", ">").file(guest(START, 20))
    (tmp_path / "x.kvmtrace.0").write_bytes(b"\xff" * 64 + data)
    done = run("dump", tmp_path / "x.kvmtrace")
    assert b"--kvmtrace-layout" in done.stderr
    asked = run(
        "dump", tmp_path / "x.kvmtrace", "--kvmtrace-layout", "halves", "--format", "json"
    )
    assert json.loads(asked.stdout.splitlines()[0])["tsc"] == str(START)
    assert b"offset 0: no record starts here (lost: 64 bytes" in asked.stderr


@pytest.mark.parametrize(
    "words",
    [("diff", "SET", "SET"), ("distribution", "exit", "SET"), ("summary", "SET", "--interval=1s"),
     ("top", "SET"), ("repair", "SET", "-o", "new"), ("dump", "SET", "--format", "xentrace"),
     ("dump", "SET", "--format", "perfetto")],
)  # fmt: skip
def test_what_is_for_xens_traces_only(tmp_path, words):
    name = str(write_set(tmp_path, Style("timestamp", ">"), {0: RECS}))
    done = run(*(word.replace("SET", name) for word in words))
    assert done.returncode == 2
    assert b"KVM's" in done.stderr
    assert b"hint: " in done.stderr


def test_a_layout_that_there_is_not(tmp_path):
    name = write_set(tmp_path, Style("packed"), {0: RECS})
    done = run("info", name, "--kvmtrace-layout", "new")
    assert done.returncode == 2
    assert b"halves, packed, timestamp" in done.stderr
