"""`xtracectl info` on files that are empty, cut, damaged, or something else."""

from __future__ import annotations

import json

import pytest

from tests.support import captures
from tests.support.captures import capture, expected
from tests.support.xentrace import noise, timed, window
from tests.support.xtracectl import info, output, run, shell


def test_empty_file(tmp_path):
    """R41: "0 records", exit 0."""
    path = tmp_path / "empty.trace"
    path.write_bytes(b"")
    answer = info(path)
    assert (answer["records"], answer["problems"]) == (0, [])
    assert (answer["first_tsc"], answer["last_tsc"]) == (None, None)
    assert "records     0\n" in output("info", path)


def test_empty_input():
    """R41"""
    assert info("-", data=b"")["records"] == 0


def test_cpu_change_without_records(tmp_path):
    """R41: header only."""
    path = tmp_path / "header.trace"
    path.write_bytes(window(0))
    assert info(path)["records"] == 0


def test_empty_store(tmp_path):
    """R41: a store without segments."""
    answer = info(tmp_path)
    assert (answer["records"], answer["kind"], answer["segments"]) == (0, "store", 0)


def test_random_bytes(tmp_path):
    """R15: refused with offset 0; exit 1, since it is the data that is wrong."""
    path = tmp_path / "noise"
    path.write_bytes(noise(10_000))
    done = run("info", path)
    assert done.returncode == 1
    assert done.stdout == b""
    assert f"xtracectl: {path}: offset 0: not an xentrace file".encode() in done.stderr


def test_others_are_shown_although_one_cannot_be_read(tmp_path):
    """R41"""
    good, empty, bad = (tmp_path / name for name in ("good.trace", "empty.trace", "bad.trace"))
    good.write_bytes(capture("idle.trace"))
    empty.write_bytes(b"")
    bad.write_bytes(noise(5000))
    done = run("info", "--json", bad, empty, good)
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert [one["records"] for one in answer["inputs"]] == [0, expected()["idle.trace"]["records"]]
    assert b"bad.trace: offset 0" in done.stderr


@pytest.mark.parametrize("cut", [1, 4, 9, 11, 1000])
def test_cut_file(cut, tmp_path):
    """R21: everything before the cut counts, and exit 1 says that something is missing."""
    data = window(0, *(timed(tsc) for tsc in range(100, 200)))
    path = tmp_path / "cut.trace"
    path.write_bytes(data[:-cut])
    done = run("info", "--json", path)
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    left = (len(data) - cut - 12) // len(timed(0))
    assert answer["records"] == left
    (problem,) = answer["problems"]
    assert problem["offset"] == 12 + left * len(timed(0))
    assert problem["missing_bytes"] == len(data) - problem["offset"]
    assert b"Traceback" not in done.stderr


def test_problems_are_listed_for_people(tmp_path):
    path = tmp_path / "cut.trace"
    path.write_bytes(capture("idle.trace")[:-5])
    done = run("info", path)
    assert done.returncode == 1
    assert b"1 problem:" in done.stdout
    assert b"the file ends inside a window, 5 bytes before the window's end (lost: " in done.stdout


READERS = pytest.mark.parametrize("command", ["info", "dump", "verify", "summary"])


@READERS
def test_closed_standard_input(command):
    done = shell(f"$XTRACECTL {command} - <&-")
    assert done.returncode == 2
    assert done.stderr.decode() == (
        "xtracectl: standard input is closed\n"
        "  hint: send a trace into it, or name a file\n"
    )


@READERS
def test_file_that_cannot_be_read(command):
    """The first read fails: nothing is mapped at address 0."""
    done = run(command, "/proc/self/mem")
    assert done.returncode == 6
    assert b"xtracectl: cannot read /proc/self/mem: Input/output error (EIO)" in done.stderr


@READERS
@pytest.mark.parametrize("name", ["x" * 300, "/dev/null/x"])
def test_impossible_name(command, name):
    done = run(command, name)
    assert done.returncode == 6
    assert b"cannot open" in done.stderr


@READERS
def test_empty_name(command):
    """Not the current directory: it comes of a shell's variable that is not set."""
    done = run(command, "")
    assert done.returncode == 2
    assert b"an empty name is no file" in done.stderr
    for words in (("--store", ""), ("--config", ""), ("--socket", "")):
        done = run(*words, command)
        assert done.returncode == 2
        assert b"an empty path" in done.stderr


@READERS
@pytest.mark.parametrize("rate", ["999999999999999999999", "99999999999G", "1000.1G", "999999"])
def test_impossible_rate(command, rate, tmp_path):
    """Refused as by the service, not an overflow somewhere behind."""
    if command == "verify":
        pytest.skip("has no --cpu-hz")
    done = run(command, captures.write("idle.trace", tmp_path), "--cpu-hz", rate)
    assert done.returncode == 2
    assert b"is no clock rate: one is from 1M to 1000G" in done.stderr


def test_highest_and_lowest_rate(tmp_path):
    path = captures.write("idle.trace", tmp_path)
    cycles = expected()["idle.trace"]["last_tsc"], expected()["idle.trace"]["first_tsc"]
    span = int(cycles[0]) - int(cycles[1])
    assert info(path, "--cpu-hz", "1000G")["span_ns"] == span // 1000
    assert info(path, "--cpu-hz", "1M")["span_ns"] == span * 1000


@pytest.mark.parametrize("command", ["info", "dump", "verify"])
def test_missing_file(command, tmp_path):
    """Nobody has to create what is to be read."""
    done = run(command, tmp_path / "nothing.trace")
    assert done.returncode == 6
    assert b"cannot open" in done.stderr
    assert b"hint: check the path: nothing has that name\n" in done.stderr
