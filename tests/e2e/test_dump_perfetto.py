"""`dump --format perfetto`: slices and instants of a machine whose every step is known."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from tests.support.segments import SegmentBuilder, make_records
from tests.support.xentrace import lost, timed, window
from tests.support.xtracectl import output, run
from tracelib.records import make_record

D1V0, D2V3, IDLE0 = 1 << 16, 2 << 16 | 3, 0x7FFF << 16
RUNNING, RUNNABLE, BLOCKED = range(3)


def change(tsc: int, who: int, old: int, new: int) -> bytes:
    return make_record(0x21001 | old << 8 | new << 4, who, tsc=tsc)


class Read:
    """A timeline, by the names of its tracks; times in nanoseconds, exact."""

    def __init__(self, text: str) -> None:
        events = json.loads(text, parse_float=Decimal)["traceEvents"]
        names = {
            (one["pid"], one.get("tid"), one["name"]): one["args"].get("name")
            for one in events if one["ph"] == "M"
        }  # fmt: skip
        self.processes = {names[key] for key in names if key[2] == "process_name"}
        self.slices: dict[str, list[tuple]] = {}
        self.instants: list[tuple] = []
        for one in events:
            track = names.get((one["pid"], one.get("tid"), "thread_name"))
            if one["ph"] == "X":
                row = (int(one["ts"] * 1000), int(one["dur"] * 1000), one["name"])
                cut = ("cut",) if "cut" in one["args"] else ()
                self.slices.setdefault(track, []).append(row + cut)
            elif one["ph"] == "i":
                self.instants.append((track, int(one["ts"] * 1000), one["name"], one["args"]))


def timeline(tmp_path, *windows: bytes, words: tuple[str, ...] = ("--vendor", "intel")) -> Read:
    path = tmp_path / "x.trace"
    path.write_bytes(b"".join(windows))
    return Read(output("dump", path, "--format", "perfetto", "--cpu-hz", "1G", *words))


def test_who_ran_where(tmp_path):
    """Nanoseconds at 1 GHz are cycles; what is open at the end ends there."""
    got = timeline(
        tmp_path,
        window(0, change(1000, D1V0, BLOCKED, RUNNING), change(4005, D1V0, RUNNING, RUNNABLE),
               change(4005, IDLE0, RUNNABLE, RUNNING)),
        window(2, change(5001, D1V0, RUNNABLE, RUNNING), timed(9000)),
    )  # fmt: skip
    assert got.processes == {"CPUs", "d1"}
    assert got.slices["CPU 0"] == [(0, 3005, "d1v0"), (3005, 4995, "idlev0")]
    assert got.slices["CPU 2"] == [(4001, 3999, "d1v0")]
    assert got.slices["d1v0 runstates"] == [
        (0, 3005, "running"), (3005, 996, "runnable"), (4001, 3999, "running")
    ]


def test_exits_belong_to_the_vcpu(tmp_path):
    """From the exit to the next entry of that vCPU, on whatever CPU that is."""
    leave = make_record(0x81102, 12, 0x1000, 0, tsc=2000)
    got = timeline(
        tmp_path,
        window(0, change(1000, D2V3, RUNNABLE, RUNNING), leave,
               make_record(0x81001, tsc=2500), make_record(0x81102, 30, 0x1000, 0, tsc=3000),
               change(3100, D2V3, RUNNING, BLOCKED)),
        window(1, change(7000, D2V3, BLOCKED, RUNNING), make_record(0x81001, tsc=7001)),
    )  # fmt: skip
    assert got.slices["d2v3 exits"] == [
        (1000, 500, "HLT"), (2000, 4001, "IO_INSTRUCTION")
    ]


def test_losses(tmp_path):
    """R12, R13: an instant where the loss ends, and nothing goes on across it."""
    got = timeline(
        tmp_path,
        window(0, change(1000, D2V3, RUNNABLE, RUNNING),
               make_record(0x81102, 12, 0x1000, 0, tsc=2000), lost(9000, 57, 2500),
               make_record(0x81001, tsc=9100)),
    )  # fmt: skip
    assert got.instants == [
        ("CPU 0", 8000, "LOST 57 records",
         {"cause": "ring_full", "records": "57", "first_tsc": "2500"})
    ]  # fmt: skip
    assert got.slices["CPU 0"] == [(0, 1500, "d2v3", "cut")]
    assert got.slices["d2v3 exits"] == [(1000, 500, "HLT", "cut")]
    assert got.slices["d2v3 runstates"] == [(0, 1500, "running", "cut")]


def test_nanoseconds_are_exact(tmp_path):
    """R48: neighbours stay apart at the top of 64 bits, and days later."""
    first = 0xFEDCBA9876543210
    later = first + 50 * 86400 * 10**9 + 1
    got = timeline(
        tmp_path, window(0, change(first, D1V0, BLOCKED, RUNNING),
                         change(later, D1V0, RUNNING, BLOCKED),
                         change(later + 1, D1V0, BLOCKED, RUNNING), timed(later + 2))
    )  # fmt: skip
    assert got.slices["CPU 0"] == [(0, later - first, "d1v0"), (later + 1 - first, 1, "d1v0")]


def test_an_empty_selection_is_still_a_timeline(tmp_path):
    got = timeline(tmp_path, window(0, timed(5)), words=("--since", "tsc:100"))
    assert (got.processes, got.slices) == ({"CPUs"}, {})


def test_what_it_cannot_do(tmp_path):
    path = tmp_path / "x.trace"
    path.write_bytes(window(0, timed(5)))
    words = ("dump", "--format", "perfetto", "--cpu-hz", "1G")
    done = run("dump", "--format", "perfetto", path)
    assert done.returncode == 2
    assert b"a timeline needs the clock rate" in done.stderr
    assert b"one trace" in run(*words, path, path).stderr
    assert b"leave out -f" in run(*words, "-f", path).stderr


@pytest.mark.parametrize("boot", ["1", "2"])
def test_a_store_with_two_boots(tmp_path, boot):
    for sequence, name in ((1, "a"), (2, "b")):
        records = make_records(3, first_tsc=1000) + change(2000, sequence << 16, BLOCKED, RUNNING)
        SegmentBuilder(sequence, boot_id=name).block(0, records).seal().write(tmp_path)
    done = run("dump", "--format", "perfetto", tmp_path)
    assert done.returncode == 2
    assert b"a timeline can hold one" in done.stderr
    got = Read(output("dump", "--format", "perfetto", tmp_path, "--boot", boot))
    assert got.slices["CPU 0"][-1][2] == f"d{boot}v0"
