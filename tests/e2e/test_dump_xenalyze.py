"""What we write in xentrace's format is what xenalyze reads, and it counts the same."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.support import captures
from tests.support.captures import TSC_HZ, capture
from tests.support.segments import SegmentBuilder
from tests.support.xentrace import decode, lost, timed, window
from tests.support.xtracectl import PATIENCE, info, run

XENALYZE = shutil.which("xenalyze")

needs_xenalyze = pytest.mark.skipif(XENALYZE is None, reason="xenalyze is not installed")

# xenalyze gives up on probe4, whose gap has no lost record.
NAMES = [name for name in captures.NAMES if name != "probe4.trace"]


def xenalyze(path, *words) -> str:
    """Its output. It is known to loop for ever on some inputs, hence the limit."""
    assert XENALYZE is not None
    done = subprocess.run(
        [XENALYZE, "--svm-mode", f"--cpu-hz={TSC_HZ}", *words, str(path)],
        stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=PATIENCE,
    )
    return done.stdout.decode(errors="replace")


def through_a_segment(name, tmp_path):
    """A capture stored as blocks of a segment, and written out again."""
    builder = SegmentBuilder()
    for item in decode(capture(name))[0]:
        builder.block(item.cpu, bytes(item.payload))
    segment = builder.seal().write(tmp_path)
    target = tmp_path / f"again-{name}"
    assert run("dump", "--format", "xentrace", "-o", target, segment).returncode == 0
    return target


@pytest.mark.parametrize("name", captures.NAMES)
def test_a_capture_survives_a_segment(name, tmp_path):
    assert through_a_segment(name, tmp_path).read_bytes() == capture(name)


@needs_xenalyze
@pytest.mark.parametrize("name", NAMES)
def test_totals_are_those_of_the_original(name, tmp_path):
    original = captures.write(name, tmp_path)
    again = through_a_segment(name, tmp_path)
    summary = xenalyze(again, "--summary")
    assert "Total time" in summary
    assert summary == xenalyze(original, "--summary")


@needs_xenalyze
def test_a_selection_is_accepted(tmp_path):
    """Windows with some of the records, in order, without wrap fillers."""
    path = captures.write("sched.trace", tmp_path)
    target = tmp_path / "some.trace"
    words = ("--event", "sched", "--cpu", "1")
    assert run("dump", "--format", "xentrace", "-o", target, path, *words).returncode == 0
    # Others are its own remarks, such as "Creating vcpu 1".
    dumped = [line for line in xenalyze(target, "--dump-all").splitlines() if line[:1] == " "]
    assert len(dumped) == info(target)["records"] == info(path)["per_cpu"]["1"]


@needs_xenalyze
def test_it_sees_our_losses(tmp_path):
    path = tmp_path / "lost.trace"
    path.write_bytes(window(0, timed(10**6), lost(3 * 10**6, 57, 2 * 10**6), timed(4 * 10**6)))
    target = tmp_path / "again.trace"
    words = ("--event", "wake")
    assert run("dump", "--format", "xentrace", "-o", target, path, *words).returncode == 0
    assert "lost_records count 57" in xenalyze(target, "--dump-all")
