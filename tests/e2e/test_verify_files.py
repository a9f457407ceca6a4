"""`xtracectl verify`: what is wrong, where, and how bad."""

from __future__ import annotations

import json

import pytest

from tests.support import captures
from tests.support.segments import SegmentBuilder, make_records
from tests.support.xentrace import noise, row, timed, window
from tests.support.xtracectl import run


@pytest.fixture
def made(tmp_path):
    def write(*windows: bytes):
        path = tmp_path / "made.trace"
        path.write_bytes(b"".join(windows))
        return path

    return write


@pytest.mark.parametrize("name", captures.NAMES)
def test_real_captures_are_clean(name, tmp_path):
    done = run("verify", captures.write(name, tmp_path))
    assert done.returncode == 0
    assert done.stdout.decode().endswith(f"{name}: clean\n")


def test_a_step_back_inside_a_cpu_is_an_error(made):
    """R77: with its offset; exit 1."""
    first = window(0, timed(100), timed(200))
    done = run("verify", made(first, window(1, timed(150)), window(0, timed(300), timed(250))))
    assert done.returncode == 1
    at = len(first) + len(window(1, timed(150))) + 12 + len(timed(0))
    assert f"offset {at}: CPU 0: time goes back by 50 cycles, from 300 to 250" in (
        done.stdout.decode()
    )
    assert done.stdout.startswith(b"error: ")


def test_a_step_back_across_cpus_is_a_warning(made):
    """R77: with its size; exit 0. CPU 1's ring was read after CPU 0's had given up 5000, and
    what came into it after that says 4000."""
    path = made(
        window(0, timed(1000), timed(5000)), window(1, timed(900)),
        window(0, timed(6000)), window(1, timed(4000), timed(7000)),
    )
    done = run("verify", path)
    assert done.returncode == 0
    at = path.stat().st_size - 2 * len(timed(0))
    assert done.stdout.decode().splitlines()[0] == (
        f"warning: {path}: offset {at}: CPU 1: time is 1000 cycles behind another CPU's, "
        "which was read a round earlier: their clocks disagree"
    )
    assert done.stdout.decode().splitlines()[1] == f"{path}: 1 warning"


def test_rounds_that_overlap_are_no_fault(made):
    """What one CPU's window has may be older than what the window before it has."""
    path = made(
        window(0, *row(1000, 20)), window(1, *row(900, 20)), window(0, *row(1300, 20)),
        window(1, *row(1250, 20)), window(1, *row(1500, 3)), window(0, *row(1600, 3)),
    )
    assert run("verify", path).stdout.decode() == f"{path}: clean\n"


def test_damage_is_an_error(made):
    """R20, R21"""
    path = made(window(0, timed(100), timed(200))[:-3])
    done = run("verify", path)
    assert done.returncode == 1
    lost = len(timed(0))
    assert (
        f"the file ends inside a window, 3 bytes before the window's end (lost: {lost} bytes "
        "from this offset on)\n"
    ) in done.stdout.decode()


def test_many_steps_back_are_summed_up(made):
    done = run("verify", made(window(0, *(timed(1000 - at) for at in range(100)))))
    text = done.stdout.decode().splitlines()
    assert len(text) == 10
    assert "CPU 0: time goes back 91 more times behind this" in text[-2]


def test_json(made):
    path = made(window(0, timed(100), timed(50)))
    done = run("verify", "--json", path)
    (finding,) = (json.loads(line) for line in done.stdout.decode().splitlines())
    assert (finding["severity"], finding["file"]) == ("error", str(path))
    assert finding["offset"] == 12 + len(timed(0))


def test_segments_and_stores(tmp_path):
    """R73: `verify` recounts."""
    builder = SegmentBuilder().block(0, make_records(20)).block(1, make_records(20))
    path = builder.seal().write(tmp_path)
    assert run("verify", path).returncode == 0
    assert run("verify", tmp_path).stdout.decode() == f"{tmp_path}: clean\n"
    path = builder.flip(at=builder.blocks[3] + 200).write(tmp_path)
    for what in (path, tmp_path):
        done = run("verify", what)
        assert done.returncode == 1
        assert b"checksum" in done.stdout


def test_what_is_no_trace(tmp_path):
    path = tmp_path / "noise"
    path.write_bytes(noise(1000))
    good = tmp_path / "good.trace"
    good.write_bytes(window(0, timed(1)))
    done = run("verify", path, good)
    assert done.returncode == 1
    assert b"not an xentrace file" in done.stderr
    assert done.stdout.decode() == f"{good}: clean\n"
