"""The hypervisor's side of a ring, by the rules of xen/common/trace.c."""

from __future__ import annotations

import pytest

from tests.support.machines import PRODUCERS, new_ring, take
from tracelib.records import LOST_RECORDS, WRAP_BUFFER, iter_records, parse_lost
from tracelib.ring.producer import ALL_EVENTS

EVENT = 0x00081001
X = 4088


@pytest.fixture(params=PRODUCERS)
def module(request):
    return PRODUCERS[request.param]


def fill(ring, words, until: int) -> None:
    """Trace 12-byte records (28-byte ones to get it even) up to exactly `until` bytes."""
    while (gap := until - words[1]) > 0:
        size = 12 if gap % 12 == 0 else 16 if gap % 16 == 0 or gap < 24 else 4
        assert ring.trace(EVENT, (0,) * (size // 4 - 1), timed=False)
    assert words[1] == until


def test_a_record_lies_in_the_ring_as_xen_writes_it(module):
    _, ring, words = new_ring(module)
    assert ring.trace(0x00081102, (0x30, 0x81234567, 0xFFFFFFFF), 0x1_0000_0002, timed=True)
    assert words[1] == 24
    assert list(words[2:8]) == [0xB0081102, 2, 1, 0x30, 0x81234567, 0xFFFFFFFF]


@pytest.mark.parametrize("extra", range(8))
@pytest.mark.parametrize("timed", [False, True])
def test_every_shape_of_record(module, extra, timed):
    _, ring, words = new_ring(module)
    values = tuple(range(0xFFFFFFF0, 0xFFFFFFF0 + extra))
    ring.trace(EVENT, values, 77, timed=timed)
    (record,) = iter_records(take(words))
    assert (record.extra, record.tsc) == (values, 77 if timed else None)


def test_event_only_when_a_record_crosses_the_half(module):
    """R02: from below to at or above 50 %, once, whatever comes afterwards."""
    host, ring, words = new_ring(module)
    fill(ring, words, X // 2 - 8)
    assert host.raised == 0
    ring.trace(EVENT, (1,), timed=False)
    assert words[1] == X // 2
    assert host.raised == 1
    fill(ring, words, X - 8)
    assert host.raised == 1


def test_event_again_after_the_consumer_went_below_the_half(module):
    host, ring, words = new_ring(module)
    fill(ring, words, X // 2)
    take(words, 4)
    ring.trace(EVENT, timed=False)
    assert host.raised == 2
    assert ring.notified == 2


def test_no_event_while_the_ring_is_full(module):
    """R02: a dropped record raises nothing, and neither does the one that fits afterwards
    as long as the consumer has not taken the ring below the half."""
    host, ring, words = new_ring(module)
    fill(ring, words, X)
    for _ in range(100):
        assert not ring.trace(EVENT, (1, 2), timed=False)
    take(words, 200)
    assert ring.trace(EVENT, (1, 2), timed=False)
    assert host.raised == 1


def test_lost_record_comes_only_with_the_next_record_that_fits(module):
    """R14: both must fit; the lost record has the count, who ran, and since when."""
    _, ring, words = new_ring(module)
    ring.current = 5 | 3 << 16
    fill(ring, words, X)
    for tsc in (1000, 1001, 1002):
        ring.trace(EVENT, (9,), tsc, timed=True)
    words[0] = 40  # One word less than a lost record (28) and a 16-byte record need.
    assert not ring.trace(EVENT, (9,), 1003, timed=True)
    assert ring.lost == 4
    take(words)
    assert ring.trace(EVENT, (9,), 1_000_000, timed=True)
    lost, record = iter_records(take(words))
    assert (lost.event, lost.tsc) == (LOST_RECORDS, 1_000_000)
    assert parse_lost(lost.extra) == (4, 5, 3, 1000)
    assert record.extra == (9,)
    assert (ring.lost, ring.reported, ring.lost_marks) == (0, 4, 1)


def test_lost_record_and_record_that_fit_exactly(module):
    _, ring, words = new_ring(module)
    fill(ring, words, X)
    ring.trace(EVENT, (9,), timed=False)
    words[0] = 28 + 8
    assert ring.trace(EVENT, (9,), timed=False)
    assert (words[1] - words[0]) % (2 * X) == X


@pytest.mark.parametrize("left", range(4, 40, 4))
def test_wrap_record_fills_what_is_left_at_the_end(module, left):
    """A 40-byte record never straddles the ring's end: 4 to 36 bytes become filler."""
    _, ring, words = new_ring(module)
    words[0] = words[1] = X - left
    ring.trace(EVENT, (1, 2, 3, 4, 5, 6, 7), 99, timed=True)
    wrap, record = iter_records(take(words))
    assert (wrap.event, record.offset) == (WRAP_BUFFER, left)
    assert record.extra == (1, 2, 3, 4, 5, 6, 7)
    assert ring.wraps == 1
    assert words[1] == X + 40


def test_record_that_ends_at_the_ring_end_needs_no_wrap(module):
    _, ring, words = new_ring(module)
    words[0] = words[1] = 2 * X - 40
    ring.trace(EVENT, (1, 2, 3, 4, 5, 6, 7), 99, timed=True)
    assert (words[1], ring.wraps) == (0, 0)


def test_wraps_before_the_lost_record_and_before_the_record(module):
    """Lost record due, 20 bytes to the end: wrap, lost record, record."""
    _, ring, words = new_ring(module)
    fill(ring, words, X - 20)
    for _ in range(2):  # 20 bytes to the end and 40 wanted, nothing free at the start.
        assert not ring.trace(EVENT, (1,) * 7, 5, timed=True)
    words[0] = 100
    assert ring.trace(EVENT, (1,) * 7, 6, timed=True)
    words[0] = X - 20
    assert [r.event for r in iter_records(take(words))] == [WRAP_BUFFER, LOST_RECORDS, EVENT]


def test_room_counts_the_wrap_before_the_lost_record(module):
    """20 filler + 28 + 40 = 88 bytes are needed: one word less is not enough."""
    for free, fits in ((84, False), (88, True)):
        _, ring, words = new_ring(module)
        fill(ring, words, X - 20)
        ring.trace(EVENT, (1,) * 7, 5, timed=True)
        words[0] = free - 20
        assert ring.trace(EVENT, (1,) * 7, 6, timed=True) is fits


def test_disable_forgets_the_count(module):
    """R14: what no lost record told before tracing was switched off is never told."""
    _, ring, words = new_ring(module)
    fill(ring, words, X)
    ring.trace(EVENT, (1,), timed=False)
    ring.forget_lost()
    take(words)
    ring.trace(EVENT, (2,), timed=False)
    assert [r.event for r in iter_records(take(words))] == [EVENT]
    assert (ring.forgotten, ring.reported, ring.dropped) == (1, 0, 1)


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("value", [2, 4001, 2 * X, 0xFFFFFFFC])
def test_bogus_index_stops_tracing_on_the_whole_host(module, index, value):
    """R26: Xen clears tb_init_done when it sees an index that is unaligned or >= 2X."""
    host, ring, words = new_ring(module)
    other = module.RingProducer(host)
    other.attach(memoryview(bytearray(4096)).cast("I"))
    words[index] = value
    assert not ring.trace(EVENT, timed=False)
    assert not host.enabled
    assert not other.trace(EVENT, timed=False)
    assert (ring.dropped, ring.lost, other.produced) == (1, 1, 0)
    assert host.raised == 0


def test_indexes_more_than_a_ring_apart_do_not_stop_xen(module):
    """Only a debug build asserts; in a release build the unsigned difference is huge."""
    host, ring, words = new_ring(module)
    words[0], words[1] = 4000, 0
    assert ring.trace(EVENT, timed=False)
    assert host.enabled


def test_mask_needs_class_and_subclass(module):
    """R65: 0x00080000 passes nothing; 0x21000 | 0x82000 lets 0x22xxx and 0x81xxx through."""
    host, ring, _ = new_ring(module)
    host.event_mask = 0x00080000
    assert not ring.trace(0x00082021, timed=False)
    host.event_mask = 0x00021000 | 0x00082000
    for event, passes in (
        (0x00021011, True), (0x00022009, True), (0x00081001, True), (0x00082021, True),
        (0x00028004, False), (0x00201104, False), (0x00084001, False),
    ):  # fmt: skip
        assert ring.trace(event, timed=False) is passes
    assert ring.produced == 4
    host.event_mask = 0
    assert not ring.trace(EVENT, timed=False)


def test_lost_and_wrap_records_ignore_the_mask(module):
    host, ring, words = new_ring(module)
    host.event_mask = 0x00081000
    words[0], words[1] = 0, X
    ring.trace(EVENT, timed=False)
    words[0] = words[1] = X - 8
    assert ring.trace(EVENT, (1, 2), timed=False)
    assert [r.event for r in iter_records(take(words))] == [WRAP_BUFFER, LOST_RECORDS, EVENT]


def test_cpu_not_in_the_mask_traces_nothing(module):
    _, ring, words = new_ring(module)
    ring.traced = False
    assert not ring.trace(EVENT, timed=False)
    assert (words[1], ring.produced) == (0, 0)


def test_records_of_a_cpu_without_a_ring_vanish(module):
    host = module.Host()
    host.enabled = True
    ring = module.RingProducer(host)
    assert not ring.trace(EVENT, timed=False)
    assert (ring.produced, ring.dropped, ring.lost) == (0, 0, 0)


def test_nothing_is_traced_before_it_is_switched_on(module):
    host, ring, _ = new_ring(module)
    host.enabled = False
    assert host.event_mask == ALL_EVENTS
    assert not ring.trace(EVENT, timed=False)
    assert ring.produced == 0


def test_counts_per_event(module):
    """Produced and dropped; what does not fit in the table of a thousand is event 0."""
    _, ring, words = new_ring(module)
    for number in range(1500):
        ring.trace(0x00081000 | number, timed=False)
        if number % 500 == 0:
            take(words)
    events = ring.events()
    assert sum(produced for produced, _ in events.values()) == 1500
    assert events[0x00081000] == (1, 0)
    assert events[0][0] > 400
    words[0], words[1] = 0, X
    ring.trace(0x00081000, timed=False)
    assert ring.events()[0x00081000] == (2, 1)
    ring.reset_counts()
    assert ring.events() == {}
    assert (ring.produced, ring.lost) == (0, 1)


def test_replay_copies_records_and_stops_at_the_first_that_does_not_fit(module):
    _, ring, words = new_ring(module)
    _, scratch, source = new_ring(module)
    for number in range(300):
        scratch.trace(EVENT, (number,), number, timed=True)
    payload = memoryview(take(source)).cast("I")
    end = ring.replay(payload, 0, len(payload))
    assert 4 * end == X // 16 * 16
    assert take(words) == bytes(payload[:end])
    assert (ring.dropped, ring.lost) == (0, 0)


def test_replay_makes_its_own_wraps(module):
    """Fillers of the file are left out; a record that `end` cuts is left for later."""
    _, ring, words = new_ring(module)
    words[0] = words[1] = X - 4
    payload = memoryview(
        bytes.fromhex("02f00110 00000000 01100810 07000000 02100820 01000000 02000000")
    ).cast("I")
    assert ring.replay(payload, 0, 6) == 4
    assert ring.replay(payload, 4, 7) == 7
    wrap, first, second = iter_records(take(words))
    assert (wrap.event, first.extra, second.extra) == (WRAP_BUFFER, (7,), (1, 2))


def test_replay_raises_the_event_too(module):
    host, ring, words = new_ring(module)
    _, scratch, source = new_ring(module)
    fill(scratch, source, X)
    payload = memoryview(take(source)).cast("I")
    ring.replay(payload, 0, len(payload))
    assert (host.raised, words[1]) == (1, X)
