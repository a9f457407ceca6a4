"""Where a dump goes: pipes that break, full devices, files, terminals, nowhere."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support import captures
from tests.support.captures import capture
from tests.support.xentrace import noise, timed, window
from tests.support.xtracectl import COMMAND, PATIENCE, run, shell


@pytest.fixture
def path(tmp_path):
    return captures.write("keepon.trace", tmp_path)


@pytest.mark.parametrize("format_name", ["text", "json", "csv", "xentrace"])
def test_reader_that_leaves(path, format_name):
    """R49: `dump | head -1`: quiet, with the documented code."""
    done = shell(
        f'$XTRACECTL dump --format {format_name} "$1" --cpu-hz 1G | head -c 10; '
        "echo ${PIPESTATUS[0]}", path,
    )  # fmt: skip
    assert done.stdout.endswith(b"141\n")
    assert b"Traceback" not in done.stderr
    assert b"BrokenPipe" not in done.stderr


def test_reader_that_never_reads(path):
    """R49: `| true`"""
    done = shell('$XTRACECTL dump "$1" | true; echo ${PIPESTATUS[0]}', path)
    assert done.stdout.decode().strip() in ("141", "0")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["dump", "dump --format xentrace", "info", "info --json"])
def test_full_device(path, command):
    """R49: /dev/full is an error with its own code, not silence."""
    done = shell(f'$XTRACECTL {command} "$1" > /dev/full', path)
    assert done.returncode == 7
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


def test_closed_output(path):
    """R79: closed stdout is an error."""
    done = shell('$XTRACECTL dump "$1" >&-', path)
    assert done.returncode == 7
    assert b"closed" in done.stderr


def test_file(path, tmp_path):
    """A file is there when it is whole, with a mode that keeps others out."""
    target = tmp_path / "out.trace"
    assert run("dump", "--format", "xentrace", "-o", target, path).returncode == 0
    assert target.read_bytes() == capture("keepon.trace")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["keepon.trace", "out.trace"]


def test_file_is_replaced_only_by_a_whole_one(tmp_path):
    target, bad = tmp_path / "out.json", tmp_path / "bad.trace"
    target.write_text("old")
    bad.write_bytes(noise(10_000))
    assert run("dump", "--format", "json", "-o", target, bad).returncode == 1
    assert target.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2
    good = tmp_path / "good.trace"
    good.write_bytes(window(0, timed(5)))
    assert run("dump", "--format", "json", "-o", target, good).returncode == 0
    assert target.read_text().startswith('{"type":"record"')


def test_input_and_output_may_be_the_same_file(path):
    """The old file is read to its end before the new one takes its name."""
    assert run("dump", "--format", "xentrace", "--cpu", "1", "-o", path, path).returncode == 0
    assert list(run("info", path).stdout.decode().split("lost\n")[1].split()[:1]) == ["1"]


def test_no_such_directory(path, tmp_path):
    """The message names what the user gave, not the file that takes its name later."""
    target = tmp_path / "nowhere" / "x"
    done = run("dump", "-o", target, path)
    assert done.returncode == 6
    assert done.stderr.decode() == (
        f"xtracectl: cannot create {target}: No such file or directory (ENOENT)\n"
        "  hint: create the directory first\n"
    )


def test_the_longest_name(path, tmp_path):
    """The file that it is until it is whole has room for a name, too."""
    target = tmp_path / ("x" * 255)
    assert run("dump", "-o", target, path).returncode == 0
    assert target.stat().st_size > 0


def test_device_as_a_file(path):
    assert run("dump", "-o", "/dev/null", path).returncode == 0
    done = run("dump", "-o", "/dev/full", path)
    assert done.returncode == 6
    assert b"No space left" in done.stderr


def test_binary_to_a_terminal_is_refused(path):
    """R79: to a pipe it is fine, to a terminal not, and text may go there."""
    ours, theirs = pty.openpty()
    try:
        words = [*COMMAND, "dump", str(path), "--limit", "1"]
        done = subprocess.run(
            [*words, "--format", "xentrace"], stdout=theirs, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, check=False, timeout=PATIENCE,
        )
        assert done.returncode == 2
        assert b"is a terminal" in done.stderr
        assert b"hint: " in done.stderr
        assert run("dump", "--format", "xentrace", "-o", os.ttyname(theirs), path).returncode == 2
        done = subprocess.run(
            words, stdout=theirs, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
            check=False, timeout=PATIENCE,
        )
        assert done.returncode == 0
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--since", "yesterday"), "is not a time"),
        (("--since", "2026-11-30"), "no clock anchors"),
        (("--since", "0001-01-01T00:00:00"), "is out of range"),
        (("--until", "9999-12-31T23:59:59-23:00"), "is out of range"),
        (("-o", ""), "an empty path"),
        (("--since", "2s"), "needs the clock rate"),
        (("--cpu", "0-x"), "CPU"),
        (("--event", "vmexitt"), "vmexit"),
        (("--domain", "x"), "no domain"),
        (("--limit", "-1"), "negative"),
        (("--limit", "x"), "invalid int value"),
        (("--format", "xml"), "invalid choice"),
        (("--follow",), "only a store can be followed"),
    ],
)
def test_usage(path, words, complaint):
    done = run("dump", path, *words)
    assert done.returncode == 2
    assert complaint in done.stderr.decode()


def test_following_several_inputs(path):
    assert run("dump", "-f", path, path).returncode == 2


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_by_its_other_names(path, name, tmp_path):
    """Into a pipe and into a file: what "-" gives, and the name is still there afterwards."""
    expected = run("dump", path).stdout
    assert len(expected) > 1000
    assert shell(f'$XTRACECTL dump "$1" -o {name} | cat', path).stdout == expected
    target = tmp_path / "out.txt"
    assert shell(f'$XTRACECTL dump "$1" -o {name} > "$2"', path, target).returncode == 0
    assert target.read_bytes() == expected
    assert Path("/dev/stdout").is_symlink()


def test_a_descriptor_of_the_shell(path, tmp_path):
    """`-o >(command)` is a pipe that has a name in /dev/fd."""
    target = tmp_path / "copy"
    done = shell(
        'mkfifo "$2.pipe"; cat "$2.pipe" > "$2" & exec 9> "$2.pipe"; '
        '$XTRACECTL dump --format xentrace "$1" -o /dev/fd/9 && exec 9>&-; wait', path, target,
    )  # fmt: skip
    assert done.returncode == 0
    assert target.read_bytes() == capture("keepon.trace")
    done = shell('$XTRACECTL dump "$1" -o /dev/fd/77', path)
    assert done.returncode == 6
    assert b"cannot write /dev/fd/77: Bad file descriptor" in done.stderr
