"""R20, R21: 600 damaged segments and 600 damaged captures; every command gives a report.

Each shows no more records than were there, none that were not, and says what is missing.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.mutate import delete, flip, start_later, truncate, zero_a_sector
from tests.support.captures import capture
from tests.support.segments import SegmentBuilder
from tests.support.xtracectl import run
from tracelib.records import iter_records
from tracelib.segment.block import HEADER_BYTES
from tracelib.xentrace.format import CPU_CHANGE_HEADER

DAMAGES = (truncate, flip, delete, zero_a_sector, start_later)
COPIES = 120
NAME = "idle.trace"
FALSE_RECORDS = 20
PIECE = 40_000
"""Bytes of the capture that are damaged: a report of the whole would take a second."""


def a_capture() -> bytes:
    """Whole windows of the capture's beginning."""
    data = capture(NAME)
    at = 0
    while at < PIECE:
        assert int.from_bytes(data[at : at + 4], "little") == CPU_CHANGE_HEADER
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "little")
    return data[:at]


def a_segment() -> bytes:
    """The same records, a block a window."""
    data = a_capture()
    made = SegmentBuilder(ring_cpus=(0, 1))
    at = 0
    while at < len(data):
        cpu, size = (int.from_bytes(data[at + n : at + n + 4], "little") for n in (4, 8))
        made.block(cpu, data[at + 12 : at + 12 + size])
        at += 12 + size
    return bytes(made.seal().data)


def records(path: Path) -> Counter[tuple]:
    """CPU, event, TSC of every record that `dump` shows."""
    done = run("dump", path, "--format", "json", "--cpu-hz", "1G")
    assert done.returncode in (0, 1), done.stderr
    shown = Counter()
    for text in done.stdout.splitlines():
        line = json.loads(text)
        if line["type"] == "record":
            shown[line["cpu"], line["id"], line["tsc"]] += 1
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("kind", ["capture", "segment"])
def test_every_command_gives_a_report(damage, kind, tmp_path):
    whole = a_capture() if kind == "capture" else a_segment()
    path, mended = tmp_path / "input", tmp_path / "mended"
    path.write_bytes(whole)
    truth = records(path)
    chance = random.Random(f"{kind} {damage.__name__}")
    reported = 0
    for _ in range(COPIES):
        data = bytearray(whole)
        damage(data, chance)
        path.write_bytes(data)
        shown = records(path)
        if kind == "segment":
            assert shown <= truth, "a block that is not intact was believed"
        else:
            # xentrace's format has no checksum: a flipped bit makes another record of one, or
            # two; it must not go on from there.
            assert (shown - truth).total() <= FALSE_RECORDS
        info = run("info", "--json", path)
        assert info.returncode in (0, 1)
        if info.stdout:
            assert json.loads(info.stdout)["records"] == shown.total()
        summary = run("summary", "--json", path, "--cpu-hz", "1G")
        assert summary.returncode == info.returncode
        verified = run("verify", path)
        assert verified.returncode in (0, 1)
        mended.unlink(missing_ok=True)
        repaired = run("repair", path, "-o", mended)
        assert repaired.returncode in (0, 1)
        if mended.exists():
            assert records(mended) == shown
        for done in (info, summary, verified, repaired):
            assert b"Traceback" not in done.stderr
        if info.returncode:
            # Something is named, with its place; and all of them say so.
            said = verified.stdout + verified.stderr
            assert b"offset" in said or b"not a" in said or b"no block" in said, said
            assert (verified.returncode, repaired.returncode) == (1, 1)
        reported += info.returncode
    print(f"\n  {kind}, {damage.__name__}: {COPIES} copies, {reported} with damage to report")


def test_the_fixtures_hold_the_same_records():
    segment = a_segment()
    assert sum(1 for _ in iter_records(a_capture())) > 500
    assert len(segment) > PIECE
    assert segment[:4] == b"XTRB"
    assert HEADER_BYTES == 128
