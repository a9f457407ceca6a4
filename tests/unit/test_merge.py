"""Merging: time order, each CPU's own order, and the same result however it is cut."""

from __future__ import annotations

from heapq import merge as heap_merge

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.captures import NAMES, expected, write
from tests.support.xentrace import chunks_from, row, timed
from tracelib import open as open_trace
from tracelib.batches import CpuDecoder, first_tsc
from tracelib.chunks import Chunk
from tracelib.columns import Columns
from tracelib.merge import merge
from tracelib.records import make_record
from tracelib.units import CpuId


def merged(by_cpu: dict[int, list[bytes]], size: int) -> list[tuple[int, int, int]]:
    """(key, cpu, serial number) of every record; the number is its first extra word."""
    streams = {
        CpuId(cpu): CpuDecoder(CpuId(cpu)).batches(
            chunks_from([(cpu, payload) for payload in payloads]), size
        )
        for cpu, payloads in by_cpu.items()
    }
    return [
        entry
        for batch in merge(streams)
        for entry in zip(
            batch.key.tolist(), batch.cpu.tolist(), batch.word(0).tolist(), strict=True
        )
    ]


def numbered(times: list[int | None]) -> list[bytes]:
    return [make_record(0x28004, at, tsc=tsc) for at, tsc in enumerate(times)]


def oracle(by_cpu: dict[int, list[int | None]]) -> list[tuple[int, int, int]]:
    """One record after the other, merged by a heap."""
    rows = []
    for cpu, times in by_cpu.items():
        key, entries = 0, []
        for number, tsc in enumerate(times):
            key = max(key, tsc or 0)
            entries.append((key, cpu, number))
        rows.append(entries)
    return list(heap_merge(*rows))


times = st.lists(st.none() | st.integers(1, 60), min_size=1, max_size=25)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.integers(0, 6), times, max_size=4), st.sampled_from([1, 40, 1 << 20]))
def test_like_a_heap_of_single_records(by_cpu, size):
    records = {cpu: numbered(row) for cpu, row in by_cpu.items()}
    assert merged(records, size) == oracle(by_cpu)


def test_untimed_records_stay_behind_theirs():
    by_cpu = {0: numbered([10, None, None, 30]), 1: numbered([10, 20])}
    assert merged(by_cpu, 1) == [
        (10, 0, 0), (10, 0, 1), (10, 0, 2), (10, 1, 0), (20, 1, 1), (30, 0, 3)
    ]


def test_a_silent_cpu_holds_nobody_up():
    by_cpu = {0: numbered([5]), 1: numbered(list(range(1, 2000)))}
    order = merged(by_cpu, 1)
    assert order == sorted(order)
    assert len(order) == 2000


def test_nothing():
    assert list(merge({})) == []
    assert list(merge({CpuId(0): iter(())})) == []


@pytest.mark.parametrize("name", NAMES)
def test_real_captures_lose_nothing_and_are_in_order(name, tmp_path):
    reader = open_trace(write(name, tmp_path))
    last, total = 0, 0
    start = first_tsc(reader)
    for batch in merge({c: CpuDecoder(c).batches(reader.chunks_of(c)) for c in reader.cpus()}):
        assert last <= int(batch.key[0])
        assert (batch.key[1:] >= batch.key[:-1]).all()
        last = int(batch.key[-1])
        total += len(batch)
    reader.close()
    assert total == expected()[name]["records"]
    assert str(start) == expected()[name]["first_tsc"]
    assert str(last) == expected()[name]["last_tsc"]


def test_batches_in_flight_are_bounded():
    """R51: one batch a CPU is held, whatever the length of the streams."""
    taken = {CpuId(cpu): 0 for cpu in range(4)}

    def endless(cpu: CpuId):
        while True:
            taken[cpu] += 1
            payload = memoryview(b"".join(row(taken[cpu] * 1000 + cpu, 90)))
            yield Chunk(cpu, payload, "", 0)

    streams = {cpu: CpuDecoder(cpu).batches(endless(cpu), 1) for cpu in taken}
    batches = merge(streams)
    given_rows = 0
    for _ in range(100):
        batch: Columns = next(batches)
        given_rows += len(batch)
        assert sum(taken.values()) * 90 - given_rows <= 3 * 4 * 90


def test_equal_times_go_by_cpu_number():
    by_cpu = {3: [timed(10)], 1: [timed(10)], 2: [timed(10)]}
    assert [cpu for _, cpu, _ in merged(by_cpu, 1)] == [1, 2, 3]
