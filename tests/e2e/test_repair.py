"""`xtracectl repair` as a user runs it."""

from __future__ import annotations

import json
import random

import pytest

from tests.support.captures import capture, expected
from tests.support.segments import SegmentBuilder, make_records
from tests.support.xtracectl import run
from tracelib.segment.block import HEADER_BYTES

NAME = "idle.trace"


def test_a_clean_xentrace_file_is_copied(tmp_path):
    source, target = tmp_path / NAME, tmp_path / "new.trace"
    source.write_bytes(capture(NAME))
    done = run("repair", source, "-o", target)
    assert done.returncode == 0
    assert b"nothing was damaged" in done.stdout
    assert target.read_bytes() == capture(NAME)


@pytest.mark.parametrize("copy", range(20))
def test_a_damaged_xentrace_file(tmp_path, copy):
    """R20, R21: the new file has exactly the records that reading the old one gives."""
    rng = random.Random(copy)
    data = bytearray(capture(NAME))
    for _ in range(rng.randrange(1, 30)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    del data[rng.randrange(len(data) // 2, len(data)) :]
    source, target = tmp_path / NAME, tmp_path / "new.trace"
    source.write_bytes(data)
    left = json.loads(run("info", "--json", source).stdout)["records"]
    done = run("repair", "--json", source, "-o", target)
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert answer["records"] == left < expected()[NAME]["records"]
    assert answer["gaps"]
    checked = run("info", "--json", target)
    assert (checked.returncode, json.loads(checked.stdout)["records"]) == (0, left)


def test_a_store_and_what_is_said(tmp_path):
    store, target = tmp_path / "store", tmp_path / "new"
    store.mkdir()
    made = SegmentBuilder().block(0, make_records(10)).block(1, make_records(20)).seal()
    made.flip(made.blocks[3] + HEADER_BYTES).write(store)
    done = run("repair", store, "-o", target)
    assert done.returncode == 1
    said = done.stdout.decode()
    assert "mended, 20 records" in said
    assert f"offset {made.blocks[3]}: 4096 bytes left out: payload checksum differs" in said
    assert "lost: CPU 0: 10 records (damaged on the disk)" in said
    assert run("verify", target).returncode == 0
    info = json.loads(run("info", "--json", target).stdout)
    assert info["lost_by_cause"] == {"damaged": 10}


def test_what_is_no_trace(tmp_path):
    (tmp_path / "text").write_bytes(b"hello, world\n" * 1000)
    done = run("repair", tmp_path / "text", "-o", tmp_path / "new")
    assert done.returncode == 1
    assert not (tmp_path / "new").exists()
    done = run("repair", tmp_path / "nothing", "-o", tmp_path / "new")
    assert done.returncode == 6
    done = run("repair", tmp_path / "text")
    assert done.returncode == 2
