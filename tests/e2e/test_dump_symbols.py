"""`xtracectl dump --symbols`: names behind the code addresses in lines of text."""

from __future__ import annotations

import csv
import json

import pytest

from tests.support.analysis import RUNNABLE, RUNNING, change, vmentry
from tests.support.xentrace import window
from tracelib.records import make_record
from xtracectl.cli import main


@pytest.fixture
def trace(tmp_path):
    """d1v0 exits in its kernel and in a user's code; a PV guest faults in Xen's part."""
    path = tmp_path / "x.trace"
    path.write_bytes(window(
        0, change(1000, 1, 0, RUNNABLE, RUNNING),
        make_record(0x81102, 12, 0x81000010, 0xFFFFFFFF, tsc=2000), vmentry(2100),
        make_record(0x81002, 12, 0x4000, tsc=2200),
        make_record(0x201104, 0x40200020, 0xFFFF82D0, 0x81000010, 0xFFFFFFFF, 2, tsc=2300),
        make_record(0x201006, 0xC0100004, tsc=2400),
    ))  # fmt: skip
    return path


@pytest.fixture
def names(tmp_path):
    found = {
        "kernel": "ffffffff81000000 T startup\nc0100000 T startup_32\n",
        "xen": "ffff82d040200000 T _start\n",
        "other": "ffffffff81000000 T wrong\n",
    }
    for name, text in found.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def dump(capsys, *words):
    code = main(["dump", *map(str, words)])
    return code, *capsys.readouterr()


def test_text(capsys, trace, names):
    """Of a page fault the code that did it has a name, the address that it wanted has none."""
    code, out, _ = dump(
        capsys, trace, f"--symbols={names / 'other'}", f"--symbols=d1={names / 'kernel'}",
        f"--symbols=xen={names / 'xen'}", "--event=vmexit,pv", "--vendor=intel",
    )  # fmt: skip
    assert code == 0
    assert [line.split(maxsplit=4)[4] for line in out.splitlines()] == [
        "reason=HLT rip=0xffffffff81000010 <startup+0x10>",
        "reason=HLT eip=0x4000",
        "rip=0xffff82d040200020 <_start+0x20> addr=0xffffffff81000010 error_code=0x2",
        "eip=0xc0100004 <startup_32+0x4>",
    ]


def test_json_and_csv(capsys, trace, names):
    """A field more, beside the exact number; rows without a name have it empty, or not."""
    words = (f"--symbols={names / 'kernel'}", f"--symbols=xen={names / 'xen'}")
    _, out, _ = dump(capsys, trace, *words, "--format=json", "--vendor=intel")
    rows = [json.loads(line) for line in out.splitlines()]
    found = [(row["fields"]["rip"], row.get("symbol")) for row in rows if "rip" in row["fields"]]
    assert found == [
        ("0xffffffff81000010", "startup+0x10"), ("0xffff82d040200020", "_start+0x20"),
    ]  # fmt: skip
    assert (rows[-1]["fields"]["eip"], rows[-1]["symbol"]) == (0xC0100004, "startup_32+0x4")
    assert [row.get("symbol") for row in rows].count(None) == 3
    _, out, _ = dump(capsys, trace, *words, "--format=csv", "--vendor=intel")
    table = list(csv.DictReader(out.splitlines()))
    assert [row["symbol"] for row in table] == [
        "", "startup+0x10", "", "", "_start+0x20", "startup_32+0x4",
    ]  # fmt: skip
    assert None not in table[0]


def test_names_with_commas(capsys, trace, tmp_path):
    """C++ has them; CSV's readers get them back."""
    (tmp_path / "names").write_text('ffffffff81000010 T f(int,"x")\n')
    _, out, _ = dump(capsys, trace, f"--symbols={tmp_path / 'names'}", "--format=csv")
    assert 'f(int,"x")' in [row["symbol"] for row in csv.DictReader(out.splitlines())]


def test_without_them_nothing_changes(capsys, trace, names):
    _, plain, _ = dump(capsys, trace)
    _, same, _ = dump(capsys, trace, f"--symbols=d7={names / 'kernel'}")
    assert plain == same


@pytest.mark.parametrize("words", [["--format=parquet"], ["--format=xentrace"]])
def test_only_lines(capsys, trace, names, words):
    code, out, err = dump(capsys, trace, f"--symbols={names / 'kernel'}", *words)
    assert (code, out) == (2, "")
    assert "--symbols is for dump's own text, JSON and CSV" in err


def test_a_list_that_is_none(capsys, trace, tmp_path):
    """File and line; and nothing was written."""
    wrong = tmp_path / "wrong"
    wrong.write_text("1000 T good\nsomething else\n")
    target = tmp_path / "out"
    code, _, err = dump(capsys, trace, f"--symbols={wrong}", "-o", target)
    assert code == 2
    assert f"{wrong}:2: 'something else' is no symbol" in err
    assert not target.exists()
