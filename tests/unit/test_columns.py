"""Records in columns: what they say equals what is said record by record."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.captures import NAMES, capture
from tests.support.xentrace import chunks_from, lost, row, timed
from tracelib.batches import CpuDecoder, decode_unmerged
from tracelib.chunks import Chunk
from tracelib.columns import NOBODY_KNOWN, Columns, Flag, concatenate
from tracelib.records import CPU_CHANGE, WRAP_BUFFER, iter_records, make_record
from tracelib.units import CpuId
from tracelib.xentrace.decoder import Window, WindowDecoder


def decode(*payloads: bytes, cpu: int = 0, size: int = 1 << 20) -> Columns:
    decoder = CpuDecoder(CpuId(cpu))
    return concatenate(
        list(decoder.batches(chunks_from([(cpu, data) for data in payloads]), size))
    )


def rows(batch: Columns) -> list[tuple]:
    """Each row as plain values."""
    return [
        (
            int(batch.cpu[row]), int(batch.event[row]), int(batch.tsc[row]),
            tuple(batch.words[batch.at[row] : batch.at[row] + batch.extra[row]].tolist()),
            int(batch.flags[row]),
        )
        for row in range(len(batch))
    ]


def slowly(payloads: list[bytes], cpu: int = 0) -> list[tuple]:
    """The same, one record after the other."""
    last, dated, found = 0, False, []
    for payload in payloads:
        for record in iter_records(payload):
            if record.event in (WRAP_BUFFER, CPU_CHANGE):
                continue
            if record.tsc is not None:
                last, dated = record.tsc, True
            flags = Flag.TIMED * (record.tsc is not None) | Flag.DATED * dated
            found.append((cpu, record.event, last, record.extra, int(flags)))
    return found


records = st.lists(
    st.one_of(
        st.builds(
            lambda event, extra, tsc: make_record(event, *extra, tsc=tsc),
            st.sampled_from([0x21011, 0x82001, 0x1F002, 0x1F003, 0x0FFFFFFF, 0x20100D]),
            st.lists(st.integers(0, 0xFFFFFFFF), max_size=7),
            st.none() | st.integers(0, (1 << 64) - 1),
        ),
    ),
    max_size=20,
)
payloads = st.lists(records.map(b"".join), min_size=1, max_size=5)


@settings(deadline=None)
@given(payloads, st.sampled_from([1, 50, 1 << 20]))
def test_any_records_in_any_batches(data, size):
    """R34: any event is kept, and skipped by its own length; batches change nothing."""
    batch = decode(*data, size=size)
    assert rows(batch) == slowly(data)


@pytest.mark.parametrize("name", ["pvh-hvm.trace", "lost.trace", "probe4.trace"])
def test_real_captures(name):
    """R52: whole columns at a time, with the same values as one by one."""
    decoder = WindowDecoder()
    decoder.feed(capture(name))
    decoder.close()
    windows = []
    while (event := decoder.next_event()) is not None:
        assert isinstance(event, Window)
        windows.append(event)
    for cpu in {window.cpu for window in windows}:
        data = [bytes(window.payload) for window in windows if window.cpu == cpu]
        assert rows(decode(*data, cpu=cpu, size=100_000)) == slowly(data, cpu)


@pytest.mark.parametrize("name", NAMES)
def test_no_step_back_in_real_captures(name):
    decoder = WindowDecoder()
    decoder.feed(capture(name))
    decoder.close()
    decoders: dict[CpuId, CpuDecoder] = {}
    chunks = iter(
        Chunk(event.cpu, event.payload, name, event.offset)
        for event in iter(decoder.next_event, None)
        if isinstance(event, Window)
    )
    assert sum(map(len, decode_unmerged(chunks, decoders))) > 0
    assert [one.inversions for one in decoders.values()] == [0] * len(decoders)


def test_untimed_records_take_the_last_time():
    untimed = make_record(0x82001, 1)
    batch = decode(untimed + timed(100) + untimed, untimed + timed(200))
    assert batch.tsc.tolist() == [0, 100, 100, 100, 200]
    assert (batch.flags & Flag.TIMED != 0).tolist() == [False, True, False, False, True]
    assert (batch.flags & Flag.DATED != 0).tolist() == [False, True, True, True, True]
    assert batch.key.tolist() == [0, 100, 100, 100, 200], "before the first: before everything"


def test_key_never_goes_back():
    batch = decode(timed(100) + timed(90) + timed(95), timed(80) + timed(120))
    assert batch.tsc.tolist() == [100, 90, 95, 80, 120]
    assert batch.key.tolist() == [100, 100, 100, 100, 120]


def test_steps_back_are_counted_with_their_place():
    """R77"""
    decoder = CpuDecoder(CpuId(3))
    first, second = timed(100) + timed(90), timed(80) + timed(120)
    chunks = [
        Chunk(CpuId(3), memoryview(first), "a", 1000), Chunk(CpuId(3), memoryview(second), "b", 50)
    ]
    for size in (1, 1 << 20):
        decoder = CpuDecoder(CpuId(3))
        list(decoder.batches(iter(chunks), size))
        assert decoder.inversions == 2
        assert [(i.file, i.offset, i.before, i.tsc) for i in decoder.first_inversions] == [
            ("a", 1000 + len(timed(0)), 100, 90), ("b", 50, 90, 80),
        ]


def test_many_steps_back_are_counted_but_not_all_kept():
    decoder = CpuDecoder(CpuId(0))
    data = b"".join(timed(1000 - at) for at in range(500))
    list(decoder.batches(chunks_from([(0, data)])))
    assert decoder.inversions == 499
    assert len(decoder.first_inversions) == 8


def test_full_64_bits():
    """R48: neighbours of 64 bits stay apart."""
    first = 0xFEDCBA9876543210
    batch = decode(timed(first) + timed(first + 1) + timed((1 << 64) - 1))
    assert batch.tsc.tolist() == [first, first + 1, (1 << 64) - 1]
    assert batch.key.tolist() == batch.tsc.tolist()


def runstate(tsc, dom, vcpu, old, new):
    return make_record(0x21001 | old << 8 | new << 4, vcpu | dom << 16, tsc=tsc)


def test_who_runs():
    running, blocked = 0, 2
    batch = decode(
        timed(1)
        + runstate(2, 5, 1, 1, running) + timed(3)
        + runstate(4, 5, 1, running, blocked) + timed(5)
        + make_record(0x21002, 7 << 16 | 2, tsc=6) + timed(7)
        + lost(8, 3, 7) + timed(9),
        runstate(10, 6, 0, blocked, 1) + timed(11) + runstate(12, 6, 0, 1, running),
        timed(13),
        size=1,
    )  # fmt: skip
    nobody, d5v1, d7v2, d6v0 = NOBODY_KNOWN, 5 << 16 | 1, 7 << 16 | 2, 6 << 16
    assert batch.running.tolist() == [
        nobody, d5v1, d5v1, d5v1, nobody, d7v2, d7v2, nobody, nobody, nobody, nobody, d6v0, d6v0
    ]


def test_who_runs_at_the_start():
    decoder = CpuDecoder(CpuId(0), running=5 << 16)
    (batch,) = decoder.batches(chunks_from([(0, timed(1))]))
    assert batch.running.tolist() == [5 << 16]


def test_short_runstate_records_name_nobody():
    """R35: a runstate change of 1 and of 7 words; and of none, which says nothing."""
    batch = decode(
        make_record(0x21101, tsc=1) + make_record(0x21101, 5 << 16, tsc=2)
        + make_record(0x21101, 6 << 16, *range(6), tsc=3)
    )
    assert batch.running.tolist() == [NOBODY_KNOWN, 5 << 16, 6 << 16]


def test_records_before_the_start_are_marked():
    """R30"""
    old = Chunk(CpuId(0), memoryview(timed(1)), "f", 0, before_start=True)
    new = Chunk(CpuId(0), memoryview(timed(2)), "f", 40)
    batch = concatenate(list(CpuDecoder(CpuId(0)).batches(iter([old, new]))))
    assert (batch.flags & Flag.BEFORE_START != 0).tolist() == [True, False]


def test_words_and_wide_words():
    batch = decode(make_record(0x28001, 1, 2, 3, tsc=5) + make_record(0x28001, 4, 5, 6, tsc=6))
    assert batch.word(1).tolist() == [2, 5]
    assert batch.wide(1).tolist() == [2 | 3 << 32, 5 | 6 << 32]
    assert batch.wide(0, np.array([1])).tolist() == [4 | 5 << 32]


def test_cut_takes_only_the_words_it_needs():
    batch = decode(b"".join(row(1, 50)))
    part = batch.cut(10, 20)
    assert rows(part) == rows(batch)[10:20]
    assert len(part.words) < len(batch.words) / 2
    assert len(batch.cut(5, 5)) == 0


def test_memory_is_bounded_by_the_batch():
    """R51: a row of chunks of any length is decoded piece by piece."""
    decoder = CpuDecoder(CpuId(0))
    data = b"".join(row(1, 1000))

    def endless():
        while True:
            yield from chunks_from([(0, data)])

    batches = decoder.batches(endless(), 100_000)
    assert all(len(next(batches).words) * 4 < 130_000 for _ in range(50))
