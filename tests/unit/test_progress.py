"""How far a long command has got: on a terminal, after a while, and gone in the end."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

from tests.support.segments import SegmentBuilder, make_records
from tests.support.xentrace import round_robin
from xtracectl import progress as progress_module
from xtracectl.cli import main
from xtracectl.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    return now


def made(directory, kind):
    if kind == "xentrace":
        path = directory / "x.trace"
        path.write_bytes(round_robin(cpus=(0, 1), rounds=20))
        return path
    for sequence in (1, 2):
        SegmentBuilder(sequence).block(0, make_records(9, first_tsc=9999 * sequence)).seal().write(
            directory
        )
    return directory if kind == "store" else sorted(directory.iterdir())[0]


def test_after_two_seconds(clock, tmp_path):
    terminal = Terminal()
    path = tmp_path / "x"
    path.write_bytes(bytes(4 << 20))
    with redirect_stderr(terminal), Progress(str(path)) as progress:
        clock[0] += 1.75
        progress.add(1 << 19)
        assert terminal.getvalue() == ""
        clock[0] += 0.25
        progress.add(1 << 19)
        assert terminal.getvalue() == "\r1.0 MiB read, 512 KiB/s, 25 %, 6 s left\x1b[K"
        # Not at every chunk.
        progress.add(1 << 19)
        assert terminal.getvalue().count("\r") == 1
        progress.clear()
        progress.clear()
        assert terminal.getvalue().count("\r") == 2
    assert terminal.getvalue().endswith("left\x1b[K\r\x1b[K")


@pytest.mark.parametrize("wanted", [True, False])
def test_nowhere_else(clock, tmp_path, monkeypatch, wanted):
    for stream in (io.StringIO(), None, Terminal()):
        monkeypatch.setattr(sys, "stderr", stream)
        tty = wanted and isinstance(stream, Terminal)
        with Progress(str(tmp_path), wanted=wanted) as progress:
            clock[0] += 9
            progress.add(1)
        assert stream is None or ("read" in stream.getvalue()) == tty


@pytest.mark.parametrize("kind", ["xentrace", "segment", "store"])
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("info", True), ("verify", True), ("dump", False), ("dump -o out", True),
        ("dump --format xentrace -o out", True), ("dump -o -", False),
    ],
)
def test_commands(tmp_path, monkeypatch, command, shown, kind):
    monkeypatch.setattr(progress_module, "_PATIENCE", 0)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "folder"
    folder.mkdir()
    path = made(folder, kind)
    out = io.TextIOWrapper(io.BytesIO())
    with redirect_stderr(Terminal()) as terminal, redirect_stdout(out):
        assert main([*command.split(), str(path)]) == 0
    said = terminal.getvalue()
    assert ("/s, " in said) == shown
    # What remains on the terminal are whole lines.
    assert said.rpartition("\r\x1b[K")[2] == "" or said.endswith("\n")
