"""`dump` and signals: no file is left behind, and following ends well."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from tests.support.segments import SegmentBuilder, make_records
from tests.support.signals import ENDING, none_ignored
from tests.support.xtracectl import COMMAND, PATIENCE, lines, output
from tracelib.losses import Cause, Loss
from tracelib.units import CpuId, Tsc


@pytest.fixture(autouse=True)
def nothing_ignored():
    with none_ignored():
        yield


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store"
    path.mkdir()
    SegmentBuilder(1).block(0, make_records(500, event=0x28004)).seal().write(path)
    return path


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    return path


def start(*words):
    return subprocess.Popen(
        [*COMMAND, "dump", *map(str, words)], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )


def following(store, *words):
    """A follower that has shown what there is: it says so by complaining of no service."""
    process = start("-f", "--since=0s", "--store", store, "--socket", store / "none.sock", *words)
    assert process.stderr is not None
    while b"not flushing" not in process.stderr.readline():
        pass
    return process


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice, as timeout(1) does"])
def test_a_signal_leaves_no_file(number, times, tmp_path, folder):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = start("-o", folder / "out", pipe)
    # Opens when the other side does, which has made its file by then.
    descriptor = os.open(pipe, os.O_WRONLY)
    assert len(list(folder.iterdir())) == 1
    for _ in range(times):
        process.send_signal(number)
    _, complaints = process.communicate(timeout=PATIENCE)
    os.close(descriptor)
    assert (process.returncode, complaints) == (128 + number, b"")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("number", ENDING)
def test_following_into_a_file(number, store, folder):
    process = following(store, "-o", folder / "out", "--format", "json")
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert list(folder.iterdir()) == [folder / "out"]
    assert (folder / "out").read_text() == output("dump", "--format", "json", store)


@pytest.mark.parametrize("number", ENDING)
def test_following_to_standard_output(number, store):
    process = following(store)
    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert out.count(b"\n") == len(lines(store))
    assert out.endswith(b"\n")


@pytest.mark.parametrize("format_name", ["json", "xentrace"])
def test_following_shows_a_loss_in_its_place(format_name, store, tmp_path):
    """R13: among the records of the look that it came with, not one look later."""
    target = tmp_path / "out"
    process = following(store, "--format", format_name, "--limit", "511", "-o", target)
    at = Tsc(10**6 + 45)
    loss = Loss(Cause.WRITE_FAILED, CpuId(0), 7, first_tsc=at, last_tsc=at)
    builder = SegmentBuilder(2).block(0, make_records(5, first_tsc=10**6, event=0x28004))
    builder.losses(loss).block(0, make_records(5, first_tsc=10**6 + 50, event=0x28004))
    builder.write(store)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    got = lines(target) if format_name == "xentrace" else _parsed(target)
    assert [one["type"] for one in got[-11:]] == ["record"] * 5 + ["loss"] + ["record"] * 5


def _parsed(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_following_what_is_damaged(store, folder):
    """Like any other dump, with 1."""
    builder = SegmentBuilder(2).block(0, make_records(5, first_tsc=10**6)).seal()
    builder.flip(at=builder.blocks[-1] + 300).write(store)
    process = following(store, "-o", folder / "out")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert (folder / "out").read_text().count("\n") >= 500


def test_a_hang_up_that_is_ignored(tmp_path, folder):
    """Below nohup(1) it stays ignored; Ctrl-C ends it all the same."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = start("-o", folder / "out", pipe)
    finally:
        signal.signal(signal.SIGHUP, before)
    descriptor = os.open(pipe, os.O_WRONLY)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    os.close(descriptor)
    assert process.returncode == 130
