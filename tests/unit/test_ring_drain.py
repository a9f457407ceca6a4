"""drain(), in both its forms: index pairs, rooms, wraps, corrupt chains, order of access."""

import struct
import sys
from types import SimpleNamespace

import pytest

from tests.support.ring import (
    FORMS,
    STALE,
    Consumer,
    MemoryRing,
    Producer,
    count_records,
    counts_of,
    numbered_record,
    split_records,
)
from tests.support.uncompiled import load_uncompiled
from tracelib.records import make_record, record_bytes
from tracelib.ring import fastpath, shared
from tracelib.ring.results import BAD_INDEXES, DRAINED, EMPTY, NO_ROOM
from tracelib.ring.runstates import RunstateSnapshot, RunstateTable

X = 4088


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def module(request):
    return request.param


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def filled_ring(data: bytes, at: int = 0, pages: int = 1) -> MemoryRing:
    ring = MemoryRing(pages, start=at)
    ring.write(data)
    return ring


# --- indexes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cons", "prod", "drained"),
    [(0, 4088, 4088), (4088, 0, 4088), (4084, 8172, 4088), (8168, 8, 16)],
)
def test_full_and_wrapped_rings_are_drained(module, cons, prod, drained):
    """R01: 4088, 4088, 4088 and 16 bytes, in order; cons is the raw prod value."""
    data = b"".join(make_record(0x00801000 | n, n) for n in range(drained // 8))
    ring = filled_ring(data, at=cons)
    assert (ring.cons, ring.prod) == (cons, prod)
    result, payload = Consumer(ring, module).drain()
    assert payload == data
    assert result.status == DRAINED
    assert (result.cons, result.prod, result.new_cons) == (cons, prod, prod)
    assert (result.payload_bytes, result.records) == (drained, drained // 8)
    assert (ring.cons, ring.prod) == (prod, prod)


@pytest.mark.parametrize(
    ("cons", "prod"),
    [(4000, 0), (2, 100), (8176, 0), (0, 0xFFFFFFFC), (0, 6), (0, 4092), (4, 0)],
)
def test_impossible_indexes_are_left_alone(module, cons, prod):
    """R01, R26: nothing is copied, nothing is published, the pair is reported."""
    ring = MemoryRing(1)
    ring.set(cons, prod)
    result, payload = Consumer(ring, module).drain()
    assert result == (BAD_INDEXES, cons, prod, cons, *[0] * 10)
    assert payload == b""
    assert (ring.cons, ring.prod) == (cons, prod)


@pytest.mark.parametrize("at", [0, 4088, 8172])
def test_an_empty_ring_gives_nothing(module, at):
    ring = MemoryRing(1, start=at)
    result, _ = Consumer(ring, module).drain()
    assert result == (EMPTY, at, at, at, *[0] * 10)


@pytest.mark.parametrize(
    ("before", "room", "left"),
    [(0.3, None, 0), (0.9, 0.3, 0.6), (0.5, None, 0)],
    ids=["30 percent then silence", "stopped half way at 60 percent", "exactly half"],
)
def test_what_waits_is_drained_however_full_the_ring_is(module, before, room, left):
    """R02: no fill is special to a drain; one that was cut short goes on where it stopped."""
    data = make_record(0x801001, 1) * int(X * before / 8)
    ring = filled_ring(data, at=2000)
    consumer = Consumer(ring, module)
    _, first = consumer.drain(None if room is None else int(X * room / 8) * 2)
    assert ring.waiting == pytest.approx(X * left, abs=16)
    _, second = consumer.drain()
    assert first + second == data
    assert ring.waiting == 0


@pytest.mark.parametrize(
    ("size", "at", "room"),
    [(0, 0, 1), (-4, 0, 1), (6, 0, 1), (4092, 0, 1), (X, -1, 1), (X, 0, -1), (X, 90, 11),
     (X, 101, 0), (X, 1, sys.maxsize)],
)  # fmt: skip
def test_sizes_that_do_not_fit_the_views_are_refused(module, size, at, room):
    ring = MemoryRing(1)
    into = memoryview(bytearray(400)).cast("I")
    with pytest.raises(ValueError, match=r"no ring of|no room for"):
        module.drain(ring.words, size, into, at, room, 0, RunstateTable(1))


# --- order of access -------------------------------------------------------------------


class Spy:
    """Stands in for `shared` in the uncompiled form, notes each access, and runs `during`
    in the middle of it."""

    def __init__(self, during=lambda _access: None):
        self.log = []
        self.during = during

    def _noted(self, name):
        real = getattr(shared, name)

        def access(*args):
            what = f"{name} {args[1]}" if name in ("load", "store") else name
            self.log.append(what)
            result = real(*args)
            self.during(what)
            return result

        return access

    def namespace(self):
        names = ("load", "store", "copy", "read_barrier", "full_barrier")
        return SimpleNamespace(address=shared.address, **{n: self._noted(n) for n in names})


def spied(monkeypatch, during=lambda _access: None):
    spy = Spy(during)
    module = load_uncompiled(fastpath)
    monkeypatch.setattr(module, "shared", spy.namespace())
    return spy, module


def test_each_index_is_read_once_and_cons_published_after_the_copy(monkeypatch):
    """R26, R04: one read of cons and prod a pass; copy, barrier, publish, in that order."""
    spy, module = spied(monkeypatch)
    Consumer(filled_ring(make_record(0x801001) * 8, at=4080), module).drain()
    assert spy.log == [
        "load 0", "load 1", "read_barrier", "copy", "copy", "full_barrier", "store 0",
    ]  # fmt: skip


def test_prod_that_moves_after_it_was_read_changes_nothing(monkeypatch):
    """R26: nonsense that appears in prod between two reads is not seen by this pass."""
    ring = filled_ring(make_record(0x801001))

    def corrupt(access):
        if access == "load 1":
            ring.words[1] = 0xFFFFFFFC

    _, module = spied(monkeypatch, corrupt)
    consumer = Consumer(ring, module)
    assert consumer.drain()[0][:4] == (DRAINED, 0, 4, 4)
    assert consumer.drain()[0][:4] == (BAD_INDEXES, 4, 0xFFFFFFFC, 4)


def test_producer_that_advances_inside_the_copy(monkeypatch):
    """R03: cons equals the snapshot, every record comes once, nothing is lost, in 10 000
    rounds of a producer that writes while the consumer copies."""
    ring = MemoryRing(1)
    producer = Producer(ring)
    sizes = [make_record(0x801000, *[n] * (n % 8)) for n in range(64)]

    def advance(access):
        if access == "copy":
            producer.push(sizes[producer.pushed % 64])

    _, module = spied(monkeypatch, advance)
    consumer = Consumer(ring, module)
    producer.push(sizes[0])
    for _ in range(10_000):
        snapshot = ring.prod
        result, payload = consumer.drain()
        assert result.prod == result.new_cons == ring.cons == snapshot
        for record in split_records(payload):
            assert record == producer.expected.popleft()
    monkeypatch.undo()
    assert split_records(consumer.drain()[1]) == list(producer.expected)
    assert producer.pushed > 10_000
    assert producer.lost == 0


def test_producer_that_reuses_the_space_at_once(monkeypatch):
    """R04: the copy is complete before cons is published: whoever overwrites the ring at
    that moment spoils nothing."""
    data = b"".join(make_record(0x801000 | n, n, tsc=n) for n in range(200))
    ring = filled_ring(data, at=3000)

    def overwrite(access):
        if access == "store 0":
            ring.data[:] = b"\xff" * X

    _, module = spied(monkeypatch, overwrite)
    result, payload = Consumer(ring, module).drain()
    assert payload == data
    assert counts_of(result) == count_records(data)


# --- records and rooms -----------------------------------------------------------------


@pytest.mark.parametrize("offset", range(4052, 4092, 4))
def test_record_over_two_pages_is_whole(module, offset):
    """R27: a 40-byte record at data offset 4080 lies on both pages of a 2-page ring."""
    before = make_record(0x801001) * (offset // 4)
    record = make_record(0x802003, *range(1, 8), tsc=0x0102030405060708)
    after = make_record(0x801002, 9)
    assert len(record) == 40
    ring = filled_ring(before + record + after, pages=2)
    consumer = Consumer(ring, module)
    _, first = consumer.drain(room=offset // 4)
    assert first == before
    _, second = consumer.drain()
    assert second == record + after


@pytest.mark.parametrize("header", [0x0001F002, 0x7001F002, 0xE001F002])
def test_wrap_records_are_kept_but_not_counted(module, header):
    """A wrap's time stamp and words are stale memory: they reach no count."""
    wrap = words(header, *[STALE] * (record_bytes(header) // 4 - 1))
    data = make_record(0x21011, 1, tsc=100) + wrap + make_record(0x801001)
    ring = filled_ring(data, at=X - len(data) + 4)
    result, payload = Consumer(ring, module).drain()
    assert payload == data
    assert (result.records, result.first_tsc, result.last_tsc) == (2, 100, 100)


def test_wrap_alone_is_drained(module):
    ring = filled_ring(words(0x0001F002), at=X - 4)
    result, payload = Consumer(ring, module).drain()
    assert (result.status, result.records, result.payload_bytes) == (DRAINED, 0, 4)
    assert payload == words(0x0001F002)


def test_room_takes_the_whole_records_that_fit(module):
    """A drain into every possible room, then one for the rest: nothing is cut or doubled."""
    records = [
        make_record(0x81002, 1, 2, tsc=5), make_record(0x82020), make_record(0x1F002, 7, 7),
        make_record(0x21011, 9, tsc=6), make_record(0x802003, *range(7), tsc=7),
    ]  # fmt: skip
    data = b"".join(records)
    ends = [len(b"".join(records[: n + 1])) for n in range(len(records))]
    for room in range(len(data) // 4 + 3):
        ring = filled_ring(data, at=4060)
        consumer = Consumer(ring, module)
        fits = max((end for end in ends if end <= 4 * room), default=0)
        result, first = consumer.drain(room)
        assert result.status == (DRAINED if fits else NO_ROOM)
        assert first == data[:fits]
        assert counts_of(result) == count_records(data[:fits])
        assert ring.cons == result.new_cons == (4060 + fits) % (2 * X)
        assert first + consumer.drain()[1] == data


# --- chains that break -----------------------------------------------------------------

GOOD = make_record(0x21011, 1, tsc=77) + make_record(0x801001)


@pytest.mark.parametrize(
    "rest",
    [
        words(0), words(0, 0, 0, 0), words(0xF0000FFF), words(0x0000F001, 0x21011),
        make_record(0x21011, 1, 2, 3, tsc=1)[:-4], words(0xF001F002),
        words(0x00000000) + make_record(0x801001) * 3,
    ],
    ids=["zero word", "zeros", "no class", "subclass only", "cut record", "cut wrap", "hidden"],
)  # fmt: skip
@pytest.mark.parametrize("at", [0, 4064, 4088, 8160])
def test_broken_chain_is_skipped_and_measured(module, rest, at):
    """What is whole before the break is kept; the rest up to prod is skipped and counted."""
    ring = filled_ring(GOOD + rest, at=at)
    prod = ring.prod
    consumer = Consumer(ring, module)
    result, payload = consumer.drain()
    assert payload == GOOD
    assert (result.status, result.corrupt_bytes, result.records) == (DRAINED, len(rest), 2)
    assert (result.new_cons, ring.cons) == (prod, prod)
    assert consumer.drain()[0].status == EMPTY


def test_broken_chain_is_skipped_even_where_room_was_short(module):
    """Otherwise a span larger than any buffer would never be got past."""
    ring = filled_ring(GOOD + bytes(400))
    result, payload = Consumer(ring, module).drain(room=len(GOOD) // 4 + 1)
    assert payload == GOOD
    assert (result.corrupt_bytes, ring.cons) == (400, ring.prod)


def test_break_in_the_first_word_gives_an_empty_payload(module):
    ring = filled_ring(bytes(64))
    result, payload = Consumer(ring, module).drain()
    assert (result.status, result.payload_bytes, result.corrupt_bytes) == (DRAINED, 0, 64)
    assert payload == b""


def test_who_runs_is_unknown_behind_a_break(module):
    """Up to the break d0v1 ran; what was skipped may have said otherwise."""
    ring = filled_ring(make_record(0x21101, 1, tsc=5))
    consumer = Consumer(ring, module)
    consumer.drain()
    assert consumer.runstates.snapshot().cpus == {1: (0, 1)}
    ring.write(make_record(0x801001) + bytes(4))
    consumer.drain()
    assert consumer.runstates.snapshot() == RunstateSnapshot({}, (), 0)


def test_record_cut_by_room_is_not_corrupt(module):
    ring = filled_ring(make_record(0x801001) + make_record(0x81002, 1, 2, tsc=5))
    result, _ = Consumer(ring, module).drain(room=3)
    assert (result.payload_bytes, result.corrupt_bytes, ring.cons) == (4, 0, 4)


# --- lost records ----------------------------------------------------------------------


def test_three_shapes_of_lost_record(module):
    """R16: 7 and 9 are counted, only the second says since when, the third is malformed
    and skipped by its own length."""
    old = words(0x9001F001, 1000, 0, 7)
    today = words(0xC001F001, 2000, 0, 9, 0x0003_0001, 0x8000_0001, 0xF000_0000)
    odd = words(0xB001F001, 3000, 0, 5, 5, 5)
    after = make_record(0x801001)
    ring = filled_ring(old + today + odd + after)
    result, payload = Consumer(ring, module).drain()
    assert payload == old + today + odd + after
    assert (result.records, result.lost_marks, result.lost) == (4, 3, 16)
    assert result.malformed_lost == 1
    assert result.lost_first_tsc == 0xF000_0000_8000_0001
    assert (result.lost_last_tsc, result.first_tsc, result.last_tsc) == (3000, 1000, 3000)


def test_lost_record_without_a_time_stamp(module):
    ring = filled_ring(make_record(0x1F001, 12) + make_record(0x1F001, 3, 0, 44, 0))
    result, _ = Consumer(ring, module).drain()
    assert (result.lost_marks, result.lost, result.malformed_lost) == (2, 15, 0)
    assert (result.lost_first_tsc, result.lost_last_tsc, result.last_tsc) == (44, 0, 0)


def test_counts_and_time_stamps_are_unsigned(module):
    """The largest count and times stay what they are; sums go past 32 bits."""
    top = 0xFFFFFFFFFFFFFFFF
    mark = make_record(0x1F001, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF, tsc=top)
    result, _ = Consumer(filled_ring(mark * 3), module).drain()
    assert result.lost == 3 * 0xFFFFFFFF
    assert (result.first_tsc, result.last_tsc, result.lost_last_tsc) == (top, top, top)
    assert result.lost_first_tsc == top - 1


def test_overflow_is_told_with_the_next_record_that_fits(module):
    """Push until nothing fits, drain, push one more: its lost record counts the rest."""
    ring = MemoryRing(1)
    producer = Producer(ring, current=(3, 1))
    consumer = Consumer(ring, module)
    pushed = [producer.push(numbered_record(n)) for n in range(400)]
    lost = pushed.count(False)
    assert lost > 0
    assert consumer.drain()[0].lost == 0
    assert producer.push(numbered_record(400))
    result, payload = consumer.drain()
    assert (result.records, result.lost_marks, result.lost) == (2, 1, lost)
    assert result.lost_first_tsc == pushed.index(False) + 1
    assert split_records(payload) == list(producer.expected)[-2:]
