"""The xentrace decoder: whole, in pieces, cut, damaged; never garbage, never another error."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.captures import NAMES, capture
from tests.support.xentrace import (
    decode,
    lost,
    noise,
    records_of,
    round_robin,
    row,
    timed,
    window,
)
from tracelib.errors import FormatError
from tracelib.records import make_record
from tracelib.xentrace.decoder import Damage
from tracelib.xentrace.format import make_window

HEADER = 12


def payloads(windows):
    return [(item.cpu, bytes(item.payload)) for item in windows]


def rebuilt(windows):
    return b"".join(make_window(item.cpu, item.payload) for item in windows)


def test_whole():
    """R15: (a) a current file is parsed."""
    data = window(0, timed(10), timed(11)) + window(3, timed(10)) + window(0)
    windows, damage = decode(data)
    assert payloads(windows) == [(0, timed(10) + timed(11)), (3, timed(10))]
    assert [item.offset for item in windows] == [12, 12 + 2 * len(timed(0)) + 12]
    assert damage == []


@pytest.mark.parametrize("step", [1, 3, 4, 7, 100, 4096])
def test_in_pieces(step):
    data = round_robin(cpus=(0, 2, 5))
    assert decode(data, step=step) == decode(data)
    assert rebuilt(decode(data, step=step)[0]) == data


@pytest.mark.parametrize("name", NAMES)
def test_real_captures_come_back_byte_for_byte(name):
    windows, damage = decode(capture(name), step=1 << 20)
    assert damage == []
    assert rebuilt(windows) == capture(name)


def test_empty():
    """R41: an empty file is no fault, and claims no truncation."""
    assert decode(b"") == ([], [])


def test_cut_at_every_byte():
    """R21: cut anywhere, everything before the cut is given, and one damage says where and
    how much is missing, unless the cut is between two windows."""
    data = round_robin(cpus=(0, 1), rounds=2, records=9)
    whole = records_of(decode(data)[0])
    starts = {item.offset - HEADER for item in decode(data)[0]} | {len(data)}
    for cut in range(1, len(data)):
        windows, damage = decode(data[:cut])
        got = records_of(windows)
        assert got == [
            entry for entry in whole if entry[1] + len(entry[2].encode()) <= cut
        ]
        assert len(damage) == (cut not in starts)
        for item in damage:
            assert item.offset <= cut
            assert item.missing_bytes > 0
            assert item.reason.startswith("the file ends inside a ")


@pytest.mark.parametrize("into", [1, 4, 9, 11])
def test_cut_inside_a_record(into):
    """R21: cut 1, 4, 9 and 11 bytes into a record: what is missing of the window is said."""
    start = HEADER + len(timed(10))
    data = window(0, timed(10), timed(20), timed(30))
    windows, (damage,) = decode(data[: start + into])
    assert payloads(windows) == [(0, timed(10))]
    assert damage.offset == start
    assert damage.missing_bytes == len(data) - start
    early = len(data) - start - into
    assert damage.reason == f"the file ends inside a window, {early} bytes before the window's end"


def test_cut_inside_a_cpu_change_record():
    """R21"""
    data = window(0, timed(10)) + window(1, timed(20))[:7]
    windows, damage = decode(data)
    assert payloads(windows) == [(0, timed(10))]
    reason = "the file ends inside a cpu_change record, 5 bytes before its end"
    assert damage == [Damage(len(data) - 7, reason, 12)]


def test_window_size_past_the_end():
    """R21: a window size larger than the rest."""
    data = window(0, timed(10)) + window(1, timed(20), timed(21), size=1 << 20)
    windows, (damage,) = decode(data)
    assert payloads(windows) == [(0, timed(10)), (1, timed(20) + timed(21))]
    assert damage.offset == len(data)
    assert damage.missing_bytes == (1 << 20) - 2 * len(timed(0))


@pytest.mark.parametrize("size", [0, 4, 24, 20, 44, 1000, 0x10000, 0xFFFFFFFC])
def test_wrong_window_size(size):
    """R20: a header that says the wrong size costs no record, and is named."""
    bad = window(1, *row(2000, 12), size=size)
    data = window(0, timed(1000)) + bad + window(0, timed(3000)) + window(1, timed(4000))
    windows, damage = decode(data)
    assert records_of(windows) == records_of(
        decode(window(0, timed(1000)) + window(1, *row(2000, 12)) + window(0, timed(3000))
               + window(1, timed(4000)))[0]
    )
    at = len(window(0, timed(1000)))
    reason = f"window size says {size} bytes, its records take {len(bad) - HEADER}"
    assert damage == [Damage(at, reason, 0)]


def test_window_size_that_spans_the_next_window():
    """R20: the size leads exactly to a later window, so only the records can tell."""
    inner = window(2, *row(1500, 5))
    records = b"".join(row(1000, 5))
    data = window(1, *row(1000, 5), size=len(records) + len(inner)) + inner + window(1, timed(3000))
    windows, damage = decode(data)
    assert [item.cpu for item in windows] == [1, 2, 1]
    assert len(records_of(windows)) == 11
    assert [item.offset for item in damage] == [0]


def test_start_in_mid_stream():
    """R21: the front is cut off, anywhere in a window: resume at the next window."""
    data = round_robin(cpus=(0, 1), rounds=3, records=20)
    whole = decode(data)[0]
    for cut in range(1, whole[1].offset - HEADER):
        windows, (damage,) = decode(data[cut:])
        assert payloads(windows) == payloads(whole[1:])
        assert damage.offset == 0
        assert damage.missing_bytes == whole[1].offset - HEADER - cut
        assert "starts inside a window" in damage.reason


def test_zeroed_sector():
    """R20: a sector of zeros anywhere: what lies before and behind it is given, also behind
    it in the same window where that window's end is sure."""
    data = bytearray(round_robin(cpus=(0, 1), rounds=4, records=60))
    whole = records_of(decode(bytes(data))[0])
    for sector in range(0, len(data) // 512 - 1):
        start, end = sector * 512, sector * 512 + 512
        torn = data[:start] + bytes(512) + data[end:]
        windows, damage = decode(bytes(torn))
        got = records_of(windows)
        untouched = [e for e in whole if e[1] + len(e[2].encode()) <= start or e[1] >= end]
        invented = [e for e in got if e not in whole]
        assert len(invented) <= 1, "the record that the sector cuts, at most"
        assert damage
        behind = [e for e in untouched if e[1] >= end]
        missed = [e for e in behind if e not in got]
        # At most the rest of the window whose header is gone, or records up to the first
        # one behind the hole that has a time stamp.
        assert len(missed) <= 60
        assert [e for e in untouched if e[1] < start and e not in got] == []


def test_zeros_inside_a_window_lose_only_what_they_cover():
    """R20"""
    records = row(1000, 200)
    data = bytearray(window(0, *records) + window(1, timed(5000)))
    data[512:1024] = bytes(512)
    windows, (damage,) = decode(bytes(data))
    got = records_of(windows)
    whole = records_of(decode(window(0, *records) + window(1, timed(5000)))[0])
    assert [e for e in whole if e[1] + len(e[2].encode()) <= 512 or e[1] >= 1024] == [
        e for e in got if e in whole
    ]
    assert damage.offset <= 1024
    assert damage.reason == "zeros where a record should start"


@pytest.mark.parametrize("count", range(1, 201, 7))
def test_deleted_bytes(count):
    """Bytes missing in a window's middle shift the rest: later windows are whole again."""
    first, second, third = (window(cpu, *row(1000 + cpu, 80)) for cpu in (0, 1, 2))
    cut = len(first) + HEADER + 400
    data = first + second[: HEADER + 400] + second[HEADER + 400 + count :] + third
    windows, damage = decode(data)
    assert payloads(windows)[0] == payloads(decode(first)[0])[0]
    assert payloads(windows)[-1] == payloads(decode(third)[0])[0]
    before = [e for e in records_of(decode(first + second)[0]) if e[1] + 40 <= cut]
    assert records_of(windows)[: len(before)] == before
    assert damage


def test_a_damaged_header_does_not_give_its_records_to_another_cpu():
    """A flipped bit makes a cpu_change record an ordinary one, behind which the records of
    another CPU follow."""
    data = bytearray(
        window(0, *row(1000, 20)) + window(1, *row(900, 20)) + window(0, *row(2000, 20))
    )
    at = len(window(0, *row(1000, 20)))
    data[at] ^= 0x10
    windows, (damage,) = decode(bytes(data))
    assert payloads(windows) == [(0, b"".join(row(1000, 20))), (0, b"".join(row(2000, 20)))]
    assert damage.offset == at
    assert damage.reason == "no cpu_change record where the window ends"


@pytest.mark.parametrize("size", [1, 3, 4, 11, 12, 100, 5000, 1 << 20])
def test_random_bytes_are_refused(size):
    """R15: (c) random bytes are refused with offset 0, not shown as thousands of events."""
    with pytest.raises(FormatError) as refused:
        decode(noise(size))
    assert refused.value.offset == 0


def test_records_without_any_window_are_refused():
    """R15: a piece of a ring, of which nobody can say whose it was."""
    with pytest.raises(FormatError, match="no cpu_change record"):
        decode(b"".join(row(1000, 50)))


@pytest.mark.parametrize(("size", "name"), [(36, "32-bit"), (56, "64-bit")])
@pytest.mark.parametrize("count", [1, 2, 500])
def test_fixed_records_of_2005(size, name, count):
    """R15: (b) files of 2005-2007 are refused by name, in both forms."""
    longs = "5I" if size == 36 else "5Q"
    data = b"".join(
        struct.pack(f"<IQI{longs}", cpu % 4, 10**9 + cpu * 1000, 0x0002F001 + cpu % 4, *range(5))
        for cpu in range(count)
    )
    assert len(data) == count * size
    with pytest.raises(FormatError, match=f"fixed {size}-byte records.*{name}") as refused:
        decode(data)
    assert refused.value.offset == 0


def test_unknown_events_are_kept():
    """R34: the number of words in the header is all it takes to go on."""
    strange = [
        make_record(0x0FFFFFFF, *range(7), tsc=100),
        *(make_record(1 << bit | 0x123, 1, 2) for bit in range(16, 28)),
        make_record(0x0800F000, 1, 2, 3),
    ]
    windows, damage = decode(window(0, timed(99), *strange, timed(101)))
    assert len(records_of(windows)) == len(strange) + 2
    assert damage == []


def test_lost_records_are_records():
    data = window(0, lost(500, 9, 400), make_record(0x1F001, 7, tsc=600))
    windows, damage = decode(data)
    assert [record.extra[0] for _, _, record in records_of(windows)] == [9, 7]
    assert damage == []


def test_long_windows_come_in_pieces():
    """The memory bound: a window of any length is given in pieces that are whole records."""
    records = b"".join(row(1, 3000)) * 400
    assert len(records) > 20 << 20
    windows, damage = decode(make_window(3, records) + window(1, timed(1)), step=1 << 20)
    assert damage == []
    assert b"".join(bytes(item.payload) for item in windows[:-1]) == records
    assert max(len(item.payload) for item in windows) <= 18 << 20
    assert {item.cpu for item in windows[:-1]} == {3}


damages = st.lists(
    st.tuples(
        st.sampled_from(["flip", "delete", "zero", "insert"]), st.floats(0, 1), st.integers(1, 64)
    ),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(damages, st.integers(1, 997), st.randoms(use_true_random=False))
def test_any_damage_gives_values_or_our_own_error(changes, step, rng):
    """R20, R21: whatever happens to the bytes: no other error, chunking changes nothing, and
    what is given lies where it was."""
    data = bytearray(round_robin(cpus=(0, 1, 7), rounds=3, records=15))
    for what, where, count in changes:
        at = int(where * len(data))
        if what == "flip":
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif what == "delete":
            del data[at : at + count]
        elif what == "zero":
            data[at : at + count] = bytes(len(data[at : at + count]))
        else:
            data[at:at] = rng.randbytes(count)
    try:
        windows, damage = decode(bytes(data))
    except FormatError:
        with pytest.raises(FormatError):
            decode(bytes(data), step=step)
        return
    again, damage_again = decode(bytes(data), step=step)
    assert (payloads(again), damage_again) == (payloads(windows), damage)
    for item in windows:
        start = item.offset
        assert data[start : start + len(item.payload)] == item.payload
    covered = sum(len(item.payload) + HEADER for item in windows)
    assert covered <= len(data) + HEADER * len(windows)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=2000))
def test_any_bytes(data):
    try:
        windows, _ = decode(data)
    except FormatError:
        return
    assert sum(len(item.payload) for item in windows) <= len(data)


def test_damaged_files_are_read_in_linear_time():
    """Every window of a large file damaged, fed in small pieces."""
    rng = random.Random(7)
    data = bytearray(round_robin(cpus=range(4), rounds=200, records=60))
    for at in range(100, len(data), 1500):
        data[at : at + 8] = rng.randbytes(8)
    windows, damage = decode(bytes(data), step=64)
    assert len(records_of(windows)) > 20_000
    assert len(damage) > 200
