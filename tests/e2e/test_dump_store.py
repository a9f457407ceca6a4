"""`dump` and `info` on stores: several segments, several boots, and one that grows."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest

from tests.support.rig import Rig
from tests.support.segments import CREATED_AT, TSC_HZ, SegmentBuilder, make_records
from tests.support.xtracectl import COMMAND, PATIENCE, info, lines, output, run
from tracelib.ring.runstates import RunstateSnapshot

OTHER_BOOT = {"boot_id": "b008"}
STATE = RunstateSnapshot(cpus={0: (5, 1), 1: (6, 0)}, vcpus=(), overflow=0)


@pytest.fixture
def store(tmp_path):
    """Two boots: segments 1 and 2, and 3, whose TSCs start anew."""
    plan = ((1, 1000, {"state": STATE}), (2, 5000, {}), (3, 1200, OTHER_BOOT))
    for sequence, first, more in plan:
        builder = SegmentBuilder(sequence, **more)
        for cpu in (0, 1):
            records = make_records(30, first_tsc=first + 5 * cpu, step=100, event=0x28004)
            builder.block(cpu, records)
        if sequence < 3:
            builder.seal()
        builder.write(tmp_path)
    return tmp_path


def test_every_record_once_in_order_boot_after_boot(store):
    got = lines(store)
    assert len(got) == 180
    tscs = [int(one["tsc"]) for one in got]
    first, second = tscs[:120], tscs[120:]
    assert first == sorted(first)
    assert second == sorted(second)
    assert second[0] == 1200 < first[-1]
    assert got[0]["ns"] == 0
    assert got[120]["ns"] == 0, "time starts anew with each boot"


def test_times_come_from_the_segments(store):
    """R47: a segment carries its own rate and anchors; nothing has to be told."""
    got = lines(store)
    assert int(got[1]["ns"]) == 5 * 10**9 // TSC_HZ
    assert int(got[0]["realtime"]) == CREATED_AT
    done = run("dump", store)
    assert b"at 2000000000 Hz (simulated)" in done.stderr
    done = run("dump", store, "--cpu-hz", "1G")
    assert b"at 1000000000 Hz (--cpu-hz)" in done.stderr


def test_who_ran_is_known_from_the_start(store):
    """The state preamble of the first segment says who ran on each CPU."""
    assert [one["running"] for one in lines(store, "--limit", "2")] == ["d5v1", "d6v0"]
    assert {one["running"] for one in lines(store, "--domain", "5", "--until", "tsc:1200")} == {
        "d5v1"
    }


def test_who_ran_from_the_start_chooses_windows_too(store, tmp_path):
    """The first boot says at its start that d5v1 runs on CPU 0."""
    target = tmp_path / "out.trace"
    words = ("--domain", "5", "--boot", "1", store)
    assert run("dump", "--format", "xentrace", "-o", target, *words).returncode == 0
    assert info(target)["records"] == len(lines(*words)) > 0


def test_since_and_until_in_wall_clock_time(store):
    text = "2026-11-30T22:00:00.000001Z"
    got = lines(store, "--since", text)
    assert 0 < len(got) < 180
    assert all(int(one["realtime"]) >= CREATED_AT + 1000 for one in got)
    rest = lines(store, "--until", text)
    assert len(rest) + len(got) == 180


def test_since_skips_but_does_not_change(store):
    every = [one for one in lines(store) if int(one["tsc"]) >= 5000]
    assert [one["tsc"] for one in lines(store, "--since", "tsc:5000")] == [
        one["tsc"] for one in every
    ]


def test_info(store):
    answer = info(store)
    assert (answer["kind"], answer["segments"], answer["boots"]) == ("store", 3, 2)
    assert answer["records"] == 180
    assert answer["per_cpu"] == {"0": 90, "1": 90}
    assert answer["steps_back"] == 0
    assert (answer["tsc_hz"], answer["tsc_source"]) == (TSC_HZ, "simulated")
    assert answer["started_at"] == str(CREATED_AT)
    assert (answer["host"], answer["exit_family"]) == ("testhost", "vmx")
    assert "boots       2" in output("info", store)
    assert info(store, "--cpu-hz", "1G")["tsc_source"] == "--cpu-hz"


def test_default_input_is_the_store(store):
    assert info("--store", store)["records"] == 180
    assert output("dump", "--store", store, "--limit", "1").count("\n") == 1


def test_no_store(tmp_path):
    done = run("dump", "--store", tmp_path / "nothing")
    assert done.returncode == 6
    assert b"nothing" in done.stderr


def test_empty_segments_among_others(store):
    """R41: the others are still shown."""
    (store / "00000004-20261130T220500Z.xtr.open").write_bytes(b"")
    assert info(store)["records"] == 180
    assert info(store)["problems"] == []


def test_damaged_block(store):
    """R20: all other records are shown; the message names block, offset and reason."""
    builder = SegmentBuilder(2).block(0, make_records(30, first_tsc=5000))
    builder.block(1, make_records(30, first_tsc=5005)).seal()
    at = builder.blocks[3]
    path = builder.flip(at=at + 300).write(store)
    done = run("dump", "--format", "json", store)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 150
    complaint = done.stderr.decode()
    assert f"{path}: offset {at}: payload checksum differs" in complaint
    assert "Traceback" not in complaint


def test_segments_in_xentrace_format_read_back(store, tmp_path):
    for boot, records in (("1", 120), ("2", 60), ("0", 60), ("-1", 120)):
        target = tmp_path / f"out{boot}.trace"
        done = run("dump", "--format", "xentrace", "--boot", boot, "-o", target, store)
        assert (done.returncode, done.stderr) == (0, b"")
        assert info(target)["records"] == records


def test_two_boots_are_not_joined_in_xentrace_format(store, tmp_path):
    """Nothing in that format could tell a reader that the time stamps start anew."""
    target = tmp_path / "out.trace"
    done = run("dump", "--format", "xentrace", "-o", target, store)
    assert done.returncode == 2
    assert b"2 boots of the hypervisor, whose time stamps have nothing in common" in done.stderr
    assert b"hint: choose one with --boot 1 to --boot 2, or --boot 0 for the last" in done.stderr
    assert not target.exists()


def test_one_boot(store):
    everything = lines(store)
    assert lines(store, "--boot", "1") == lines(store, "--boot", "-1") == everything[:120]
    assert lines(store, "--boot", "2") == lines(store, "--boot", "0") == everything[120:]
    for number in ("3", "-2"):
        done = run("dump", store, "--boot", number)
        assert done.returncode == 2
        assert f"there is no boot {number}".encode() in done.stderr
    assert b"boot 2 of 2; its times begin anew" in run("dump", store).stderr


@pytest.mark.parametrize("count", [0, 1, 7, 59, 60, 1000])
def test_the_last_lines(store, count):
    """Those of the last boot, in time order, as the whole dump has them."""
    expected = lines(store, "--boot", "0")
    got = lines(store, "-n", str(count))
    # Who ran at the start is not known where older blocks are left out.
    assert [one["tsc"] for one in got] == [one["tsc"] for one in expected][max(60 - count, 0):]
    assert [one["ns"] for one in got] == [one["ns"] for one in expected][max(60 - count, 0):]


def test_the_last_lines_of_what_is_selected(store):
    words = ("--cpu", "1", "--since", "tsc:2000", "--boot", "1")
    expected = lines(store, *words)
    assert len(expected) == 50
    assert lines(store, *words, "-n", "3") == expected[-3:]
    assert [one["tsc"] for one in lines(store, *words, "-n", "100")] == [
        one["tsc"] for one in expected
    ]


def test_the_last_lines_of_a_long_store(tmp_path):
    """Far more cycles than the first look back, and what is wanted lies before it."""
    builder = SegmentBuilder(1)
    for block in range(50):
        first = 1000 + block * (1 << 30)
        event = 0x28004 if block < 3 else 0x28006
        builder.block(0, make_records(40, first_tsc=first, step=100, event=event))
    builder.seal().write(tmp_path)
    assert lines(tmp_path, "-n", "15") == lines(tmp_path)[-15:]
    rare = lines(tmp_path, "--event", "wake")
    assert len(rare) == 120
    assert lines(tmp_path, "--event", "wake", "-n", "100") == rare[-100:]


def test_lines_that_are_not_there(store, tmp_path):
    assert b"is negative" in run("dump", store, "-n", "-1").stderr
    done = run("dump", store, "--format", "xentrace", "-n", "3", "-o", tmp_path / "x")
    assert done.returncode == 2
    assert b"--lines is for formats that have lines" in done.stderr


@pytest.fixture
def rig(tmp_path):
    with Rig(tmp_path) as rig:
        yield rig


def test_a_live_store_and_the_truth(rig):
    """What the service stored of two runs of a hypervisor, counted by `info` and `dump`."""
    rig.boot(rate=500_000, cpus=3)
    service = rig.start()
    service.wait_status(lambda status: status["records"] > 20_000)
    assert service.stop() == 0
    account = rig.balance()
    answer = info(rig.store)
    assert answer["records"] - answer["per_event"].get("1f001", 0) == sum(account.events.values())
    assert answer["steps_back"] == 0
    assert answer["boots"] == 1
    text = output("dump", rig.store)
    assert text.count("\n") == answer["records"] + len(account.stated)


def test_following(rig):
    """-f goes on as the service writes, in order, until it is stopped."""
    rig.boot(rate=200_000, cpus=2)
    service = rig.start()
    service.wait_status(lambda status: status["records"] > 1000)
    follower = subprocess.Popen(
        [*COMMAND, "dump", "-f", "--format", "json", "--store", str(rig.store),
         "--socket", str(service.socket)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert follower.stdout is not None
    seen = 0
    before = service.status()["records"]
    last: dict[int, int] = {}
    # Far beyond what was there when it began.
    while seen < before + 20_000:
        line = json.loads(follower.stdout.readline())
        if line["type"] == "record":
            assert int(line["tsc"]) >= last.get(line["cpu"], 0)
            last[line["cpu"]] = int(line["tsc"])
        seen += 1
    follower.send_signal(signal.SIGINT)
    _, complaints = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 0, "how following ends"
    assert b"Traceback" not in complaints
    assert service.stop() == 0


def test_following_begins_with_what_is_new(rig):
    """Not with days of records: with the last few, like `journalctl -f`."""
    rig.boot(rate=500_000, cpus=1)
    service = rig.start()
    service.wait_status(lambda status: status["uptime"] > 4 * 10**9)
    now = time.time_ns()
    follower = subprocess.Popen(
        [*COMMAND, "dump", "-f", "--format", "json", "--store", str(rig.store),
         "--socket", str(service.socket), "--limit", "100"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    shown, _ = follower.communicate(timeout=PATIENCE)
    times = [int(json.loads(line)["realtime"]) for line in shown.splitlines()]
    assert len(times) == 100
    assert min(times) > now - 10**9
    assert service.stop() == 0


def test_following_without_a_service(store):
    """What is there is shown, and a word said about the service."""
    follower = subprocess.Popen(
        [*COMMAND, "dump", "-f", "--since=0s", "--store", str(store),
         "--socket", str(store / "none.sock"), "--limit", "200"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert follower.stdout is not None
    assert follower.stderr is not None
    for _ in range(180):
        assert follower.stdout.readline().endswith(b"\n")
    complaints = b""
    while b"not flushing" not in complaints:
        complaints += follower.stderr.readline()
    # Only now: a segment more, written by nobody the follower knows.
    SegmentBuilder(4, boot_id="b008").block(0, make_records(30, first_tsc=3000)).write(store)
    rest, _ = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 0, "--limit ends it"
    assert len(rest.splitlines()) == 20


def test_following_shows_ten_lines_of_what_was_there(store):
    """And the last boot's only."""
    follower = subprocess.Popen(
        [*COMMAND, "dump", "-f", "--format", "json", "--store", str(store),
         "--socket", str(store / "none.sock"), "--limit", "20"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert follower.stdout is not None
    assert follower.stderr is not None
    first = [json.loads(follower.stdout.readline()) for _ in range(10)]
    assert [one["tsc"] for one in first] == [one["tsc"] for one in lines(store)[-10:]]
    while b"not flushing" not in follower.stderr.readline():
        pass
    SegmentBuilder(4, boot_id="b008").block(0, make_records(30, first_tsc=9000)).write(store)
    rest, _ = follower.communicate(timeout=PATIENCE)
    assert [json.loads(line)["tsc"] for line in rest.splitlines()] == [
        str(9000 + 10 * number) for number in range(10)
    ]


def test_a_segment_from_standard_input(store):
    data = (store / "00000001-20261130T220000Z.xtr").read_bytes()
    assert info("-", data=data)["records"] == 60
    assert len(lines("-", data=data)) == 60
    assert run("verify", "-", data=data).returncode == 0
