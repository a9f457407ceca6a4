"""The producer against a deque model that shares no code with it, and against itself."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.machines import PRODUCERS, new_ring, real_records, take
from tests.support.ring import MemoryRing, Producer
from tracelib.records import Record, make_record
from tracelib.units import Tsc

steps = st.lists(
    st.tuples(
        st.integers(1, 60),
        st.integers(0, 7),
        st.booleans(),
        st.one_of(st.none(), st.integers(0, 400)),
    ),
    max_size=40,
)
"""(records, extra words, TSC, words that the consumer takes afterwards or None for all)."""


@pytest.mark.parametrize("name", PRODUCERS)
@given(start=st.integers(0, 2 * 4088 // 4 - 1), steps=steps)
def test_same_indexes_and_records_as_the_model(name, start, steps):
    """R01: wherever the indexes start, through wraps, losses and partial drains."""
    _, ring, words = new_ring(PRODUCERS[name])
    model = Producer(MemoryRing(1, 4 * start))
    words[0] = words[1] = 4 * start
    ring.current = 0x7FFF
    for count, extra, timed, taken in steps:
        for _ in range(count):
            tsc = model.now + 1
            record = make_record(0x81001, *[tsc] * extra, tsc=tsc if timed else None)
            fits = model.push(record)
            assert ring.trace(0x81001, (tsc,) * extra, tsc, timed=timed) is fits
        assert words[1] == model.ring.prod
        limit = None if taken is None else 4 * min(taken, model.ring.waiting // 4)
        data = take(words, limit)
        theirs = take(model.ring.words, limit)
        assert words[0] == model.ring.cons
        if limit is None:
            assert real_records(data)[-1:] == real_records(theirs)[-1:]
    assert (ring.lost, ring.dropped) == (model.pending_lost, model.lost)


@pytest.mark.parametrize("name", PRODUCERS)
def test_everything_in_comes_out_once(name):
    """R01: a long run with a slow consumer: produced = taken + lost, in order."""
    _, ring, words = new_ring(PRODUCERS[name])
    chance = random.Random(4)
    seen: list[Record] = []
    number = 0
    while number < 20_000:
        for _ in range(chance.randrange(400)):
            number += 1
            ring.trace(0x81001, (number,) * chance.randrange(1, 8), number, timed=True)
        seen += real_records(take(words))
    numbers = [record.extra[0] for record in seen if record.event == 0x81001]
    lost = sum(record.extra[0] for record in seen if record.event != 0x81001)
    assert numbers == sorted(set(numbers))
    assert len(numbers) + lost + ring.lost == number == ring.produced
    assert lost == ring.reported
    assert ring.produced - ring.dropped == len(numbers)


def test_compiled_and_uncompiled_give_the_same_ring():
    """Same calls, same words in memory, same counters."""
    outcomes = []
    for module in PRODUCERS.values():
        host, ring, words = new_ring(module, pages=2)
        chance = random.Random(11)
        for step in range(6000):
            event = chance.choice((0x81001, 0x82021, 0x21011, 0x201104))
            extra = tuple(chance.randrange(1 << 32) for _ in range(chance.randrange(8)))
            tsc = Tsc((1 << 40) + 100 * step)
            ring.current = chance.randrange(1 << 32)
            ring.trace(event, extra, tsc, timed=chance.random() < 0.5)
            if chance.random() < 0.004:
                take(words)
        outcomes.append((
            bytes(words), host.raised, ring.produced, ring.produced_bytes, ring.dropped,
            ring.dropped_bytes, ring.reported, ring.lost, ring.lost_first_tsc, ring.wraps,
            ring.lost_marks, ring.notified, ring.events(),
        ))  # fmt: skip
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][4] > 0
