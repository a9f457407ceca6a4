"""`xtracectl info` on files that are empty, cut, damaged, or something else."""

from __future__ import annotations

import json

import pytest

from tests.support.captures import capture, expected
from tests.support.xentrace import noise, timed, window
from tests.support.xtracectl import info, output, run


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
    assert b"the file ends inside a window, 5 bytes early" in done.stdout


@pytest.mark.parametrize("command", ["info", "dump", "verify"])
def test_missing_file(command, tmp_path):
    """Nobody has to create what is to be read."""
    done = run(command, tmp_path / "nothing.trace")
    assert done.returncode == 6
    assert b"cannot open" in done.stderr
    assert b"hint: check the path: nothing has that name\n" in done.stderr
