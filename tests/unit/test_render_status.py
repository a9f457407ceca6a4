"""The status as text: golden files at 80 columns, and nothing that makes it fail.

The files in tests/golden are what somebody reads who has this problem; after a change that
is meant, `UPDATE_GOLDEN=1 pytest tests/unit/test_render_status.py` writes them anew.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.control import CPU, HEALTHY, SECOND, START, as_map
from tracelib.status import CpuStatus, MaskStatus, Status
from xtracectl.render.status import render
from xtracectl.render.table import count, labelled, moment, number_of, table

GOLDEN = Path(__file__).parent.parent / "golden"

DEGRADED = replace(
    HEALTHY, state="degraded", healthy=False, compiled=False,
    reasons=[
        "nothing could be stored for 12.0 s: cannot write"
        " /var/lib/xtraced/00000002-20261130T224800Z.xtr.open: Input/output error (EIO)",
        "CPU 3 is set aside: prod 8176 is out of range",
    ],
    records=1_234_567_890_123, bytes=38_000_000_000_000,
    lost={"ring_full": 12_345, "queue_full": 600, "ring_corrupt": 0, "write_failed": 2_000_000},
    lost_unknown=["ring_corrupt"],
    source=replace(
        HEALTHY.source, hypervisor="xen 4.17.4-pre", tsc_hz=None, tsc_source=None,
        ring_pages_wanted=64,
    ),
    masks=MaskStatus(0x0FFFF000, 0x00021000, "all", "0-3,7"),
    cpus=[
        replace(
            CPU, records=123_456_789_012, bytes=38_000_000_000_000, fill=131_064,
            high_water=131_064, lost={"ring_full": 12_345, "queue_full": 600},
            last_drain=START, last_wake="command",
        ),
        replace(CPU, cpu=1, fill=0, high_water=0, records=0, bytes=0, last_drain=None,
                last_wake=None),
        CpuStatus(2, 0, 0, 0, 0, 0, {}, [], None, None, "no buffer"),
        replace(CPU, cpu=3, lost={"ring_corrupt": 0}, lost_unknown=["ring_corrupt"],
                trouble="prod 8176 is out of range"),
        replace(CPU, cpu=127, lost={"write_failed": 2_000_000}),
    ],
    wakes=replace(HEALTHY.wakes, missed=7),
    pool=replace(
        HEALTHY.pool, free=0, stalled_since=START + 3588 * SECOND, stalled=75 * SECOND
    ),
    writer=replace(
        HEALTHY.writer, direct=False, direct_reason="the file system does not take O_DIRECT"
        " (EINVAL)", queued=8, busy_since=START + 3599 * SECOND,
        last_error="cannot write /var/lib/xtraced/00000002-20261130T224800Z.xtr.open:"
        " Input/output error (EIO)",
        last_error_at=START + 3598 * SECOND, failing_since=START + 3588 * SECOND,
        failed_blocks=12, failed_records=2_000_000,
    ),
    store=replace(
        HEALTHY.store, segments=1, open_segment="/srv/00000002-20261130T224800Z.xtr.open",
        directory="/srv/traces/of/a/host/with/a/path/that/is/longer/than/one/line/of/a/terminal",
        max_age=7 * 86400 * SECOND, max_segments=100, acting="max_bytes",
        deleted_segments=3, deleted_records=6_000_000, deleted_bytes=192 << 20, free_bytes=None,
    ),
)  # fmt: skip

STARTING = replace(
    HEALTHY, state="starting", healthy=False, records=0, bytes=0, uptime=20_000_000, cpus=[],
    writer=replace(
        HEALTHY.writer, direct=None, queued=0, writes=0, bytes=0, sizes={}, latency=None
    ),
    store=replace(HEALTHY.store, segments=0, bytes=0, oldest=None, open_segment=None, open_bytes=0),
)

CASES = {"healthy": HEALTHY, "degraded": DEGRADED, "starting": STARTING}


@pytest.mark.parametrize("name", CASES)
def test_golden(name):
    """R10, R37: what is wrong comes first; causes of loss each under their own name."""
    text = render(as_map(CASES[name]))
    file = GOLDEN / f"status_{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("name", CASES)
def test_it_fits_into_80_columns(name):
    assert max(map(len, render(as_map(CASES[name])).splitlines())) <= 80


def test_what_is_wrong_comes_first():
    first, second, *_ = render(as_map(DEGRADED)).splitlines()
    assert first == "degraded, not healthy"
    assert second.strip().startswith("! nothing could be stored for 12.0 s")


@pytest.mark.parametrize(
    ("lost", "unknown", "words"),
    [
        ({}, [], "none lost"),
        ({"ring_full": 0}, [], "none lost"),
        ({"ring_full": 2}, [], "2 lost (20 %)"),
        ({"write_failed": 2}, [], "2 lost (25 %)"),
        ({"write_failed": 8}, [], "8 lost (100 %)"),
        ({"write_failed": 8, "ring_full": 10**6}, [], "1,000,008 lost (100 %)"),
        ({"queue_full": 2, "write_failed": 3}, [], "5 lost (50 %)"),
        ({"ring_full": 1, "crash": 1}, ["crash"], "2 lost (20 %), and more that nobody can count"),
        ({}, ["tail_unknown"], "nobody can know how many lost"),
    ],
)
def test_what_was_lost_in_a_phrase(lost, unknown, words):
    """Unknown is never shown as 0."""
    status: Status = replace(HEALTHY, records=8, lost=lost, lost_unknown=unknown)
    assert words in render(as_map(status)).splitlines()[2]


def test_masks_are_named_both_ways_when_they_differ():
    text = render(as_map(DEGRADED))
    assert "events sched.min (0x00021000); CPUs 0-3,7" in text
    assert "but events asked for: all (0x0ffff000)" in text
    assert "but CPUs asked for: all" in text


def test_later_fields_are_no_trouble():
    status = as_map(HEALTHY)
    status["later"] = {"x": 1}
    status["cpus"][0]["later"] = 1
    assert render(status) == render(as_map(HEALTHY))


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999_999_999, "999,999,999"), (10**9, "1.0 G"), (1_234_567_890_123, "1,234.6 G")],
)
def test_counts(number, text):
    assert count(number) == text


def test_a_table_is_aligned():
    assert table(("CPU", "by"), [("0", "event"), ("10", "")], left=(1,)) == (
        "CPU  by\n  0  event\n 10"
    )


def test_paragraphs_are_wrapped_and_labelled():
    text = labelled("store", "a " * 40, "b")
    first, second, third = text.splitlines()
    assert first == "store    " + "a " * 35 + "a"
    assert second == "           a a a a"
    assert third == "         b"


def test_numbers_of_things():
    assert [number_of(n, "segment") for n in (0, 1, 1234)] == [
        "0 segments", "1 segment", "1,234 segments"
    ]


def test_moments_are_utc():
    assert moment(START) == "2026-11-30 22:00:00Z"
