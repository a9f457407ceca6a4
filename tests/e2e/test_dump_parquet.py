"""`dump --format parquet`: the same rows as JSON, with types."""

from __future__ import annotations

import importlib.util

import pytest

from tests.support import captures
from tests.support.segments import CREATED_AT, TSC_HZ, SegmentBuilder
from tests.support.xentrace import lost, timed, window
from tests.support.xtracectl import lines, run
from tracelib.losses import Cause, Loss
from tracelib.records import make_record
from tracelib.units import CpuId, Tsc

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def table(tmp_path, *words):
    target = tmp_path / "out.parquet"
    done = run("dump", "--format", "parquet", "-o", target, *words)
    assert done.returncode == 0, done.stderr
    return pq.read_table(target)


def test_types_and_values(tmp_path):
    """R48: 64 bits are 64 bits, also in the last one; what is unknown is null."""
    path = tmp_path / "x.trace"
    high = 0xFEDCBA9876543210
    path.write_bytes(
        window(3, make_record(0x82012, 5), make_record(0x21201, 7 << 16 | 2, tsc=high),
               timed(high + 1), make_record(0x0FFFFFFF, *range(7), tsc=high + 2),
               lost(high + 5, 57, high + 3))
    )  # fmt: skip
    got = table(tmp_path, path, "--cpu-hz", "1G")
    assert got.schema.field("tsc").type == pa.uint64()
    assert got.schema.field("realtime").type == pa.timestamp("ns", tz="UTC")
    assert got["tsc"].to_pylist() == [None, high, high + 1, high + 2, high + 5]
    assert got["ns"].to_pylist() == [None, 0, 1, 2, 5]
    assert got["realtime"].null_count == 5
    assert got["timed"].to_pylist() == [False, True, True, True, True]
    assert got["cpu"].to_pylist() == [3] * 5
    assert got["domain"].to_pylist() == [None, 7, 7, 7, None]
    assert got["vcpu"].to_pylist() == [None, 2, 2, 2, None]
    assert got["id"].to_pylist() == [0x82012, 0x21201, 0x28004, 0x0FFFFFFF, 0x1F001]
    assert got["event"].to_pylist() == ["vmmcall", "runstate_change", "wake", None, "loss"]
    assert got["w0"].to_pylist() == [5, 7 << 16 | 2, 0, 0, None]
    assert got["w6"].to_pylist() == [None, None, None, 6, None]
    assert got["fields"].to_pylist()[:3] == [
        "eax=fpu_taskswitch", "vcpu=d7v2 old=blocked new=running", "vcpu=d0v1"
    ]
    assert got["cause"].to_pylist() == [None] * 4 + ["ring_full"]
    assert got["lost"].to_pylist() == [None] * 4 + [57]
    assert got["lost_since"].to_pylist() == [None] * 4 + [high + 3]


def test_boots_losses_and_wall_clock_time(tmp_path):
    """Each boot is a trace of its own; a loss beside the records is a row in its place."""
    first = SegmentBuilder(1, boot_id="a").block(0, timed(1000) + timed(1003))
    first.losses(Loss(Cause.CRASH, CpuId(0), None, first_tsc=Tsc(1001), last_tsc=Tsc(1002),
                      detail="torn\nend")).seal().write(tmp_path)  # fmt: skip
    SegmentBuilder(2, boot_id="b").block(1, timed(500)).seal().write(tmp_path)
    got = table(tmp_path, tmp_path)
    assert got["trace"].to_pylist() == [0, 0, 0, 1]
    assert got["event"].to_pylist() == ["wake", "loss", "wake", "wake"]
    assert got["id"].to_pylist() == [0x28004, None, 0x28004, 0x28004]
    assert got["ns"].to_pylist()[3] == 0
    assert got["lost"].to_pylist() == [None] * 4
    assert got["cause"].to_pylist()[1] == "crash"
    assert got["detail"].to_pylist()[1] == "torn\nend"
    assert got["fields"].to_pylist() == ["vcpu=d0v1", "", "vcpu=d0v1", "vcpu=d0v1"]
    assert got["realtime"].cast(pa.int64()).to_pylist()[2] == CREATED_AT + 3 * 10**9 // TSC_HZ


@pytest.mark.parametrize("name", ["pvh-hvm.trace", "keepon.trace"])
def test_the_rows_are_those_of_json(name, tmp_path):
    path = captures.write(name, tmp_path)
    rate = ("--cpu-hz", "2445400000")
    got = table(tmp_path, path, *rate)
    expected = lines(path, *rate)
    assert len(got) == len(expected)
    assert got["tsc"].to_pylist() == [one["tsc"] and int(one["tsc"]) for one in expected]
    assert got["ns"].to_pylist() == [one["ns"] for one in expected]
    names = ["loss" if one["type"] == "loss" else one["event"] for one in expected]
    assert got["event"].to_pylist() == names
    who = [
        None if d is None else f"{'idle' if d == 0x7FFF else f'd{d}'}v{v}"
        for d, v in zip(got["domain"].to_pylist(), got["vcpu"].to_pylist(), strict=True)
    ]
    assert [w for w, one in zip(who, expected, strict=True) if one["type"] == "record"] == [
        one["running"] for one in expected if one["type"] == "record"
    ]


def test_row_groups_are_bounded(tmp_path):
    """R51: memory does not grow with the file."""
    from tracelib.export.parquet import ROWS

    path = tmp_path / "x.trace"
    path.write_bytes(
        b"".join(window(0, *(timed(4000 * n + at) for at in range(4000))) for n in range(100))
    )
    target = tmp_path / "out.parquet"
    assert run("dump", "--format", "parquet", "-o", target, path).returncode == 0
    meta = pq.ParquetFile(target).metadata
    sizes = [meta.row_group(number).num_rows for number in range(meta.num_row_groups)]
    assert sum(sizes) == 400_000
    assert len(sizes) == 4
    assert max(sizes) < 1.25 * ROWS


def test_limit_and_several_inputs(tmp_path):
    path = tmp_path / "x.trace"
    path.write_bytes(window(0, timed(1000), timed(1001)))
    got = table(tmp_path, path, path, "--limit", "3")
    assert list(zip(got["trace"].to_pylist(), got["tsc"].to_pylist(), strict=True)) == [
        (0, 1000), (0, 1001), (1, 1000)
    ]


def test_nothing_selected(tmp_path):
    path = tmp_path / "x.trace"
    path.write_bytes(window(0, timed(1000)))
    assert len(table(tmp_path, path, "--event", "vmexit")) == 0


def test_following_is_refused(tmp_path):
    done = run("dump", "--format", "parquet", "-f", tmp_path)
    assert done.returncode == 2
    assert b"a file that ends" in done.stderr


def test_without_pyarrow(tmp_path, monkeypatch):
    path = tmp_path / "x.trace"
    path.write_bytes(window(0, timed(1000)))
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyarrow" else found(name)
    )
    done = run("dump", "--format", "parquet", "-o", tmp_path / "out", path)
    assert done.returncode == 2
    assert b"needs pyarrow, which is not installed" in done.stderr
    assert b"hint: pip install 'xtraced[parquet]'" in done.stderr
    assert not (tmp_path / "out").exists()
