"""A ring against a deque: whatever is pushed and drained, in whatever steps, comes out once."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.ring import (
    FORMS,
    Consumer,
    MemoryRing,
    Producer,
    count_records,
    counts_of,
    split_records,
)
from tracelib.records import LOST_RECORDS, Record, iter_records, make_record
from tracelib.ring import fastpath
from tracelib.ring.results import DRAINED, EMPTY, NO_ROOM

words32 = st.integers(0, 0xFFFFFFFF)
events = st.one_of(
    st.integers(0x00020000, 0x0FFFFFFF),
    st.sampled_from([0x21011, 0x21101, 0x21201, 0x21002, 0x28002, 0x81001, 0x1F004]),
)
times = st.one_of(st.none(), st.integers(0, 2**64 - 1))
record_bytes_of = st.builds(
    lambda event, extra, tsc: make_record(event, *extra, tsc=tsc),
    events, st.lists(words32, max_size=7), times,
)  # fmt: skip


def parse_one(record: bytes) -> Record:
    return next(iter_records(record))


class RingMachine(RuleBasedStateMachine):
    """Producer and consumer of one ring take turns; the producer's deque is the oracle."""

    module = FORMS["uncompiled"]

    @initialize(pages=st.integers(1, 2), start=st.integers(0, 2**20))
    def make(self, pages, start):
        size = pages * 4096 - 8
        self.ring = MemoryRing(pages, start=4 * start % (2 * size))
        self.producer = Producer(self.ring, current=(5, 2))
        self.consumer = Consumer(self.ring, self.module)
        self.delivered = 0
        self.lost = 0

    @rule(record=record_bytes_of)
    def push(self, record):
        self.producer.push(record)

    @rule(record=record_bytes_of, count=st.integers(20, 1100))
    def burst(self, record, count):
        """Many of the same size; often more than the ring holds."""
        for _ in range(count):
            self.producer.push(record)

    @rule(room=st.one_of(st.integers(0, 40), st.integers(0, 2100)))
    def drain(self, room):
        self._take(room)

    @rule()
    def drain_all(self):
        self._take(self.ring.size // 4)
        assert self.ring.waiting == 0
        assert not self.producer.expected

    @precondition(lambda self: self.producer.pending_lost)
    @rule(record=record_bytes_of)
    def recover(self, record):
        """After a drain the next record fits, and tells what was lost before it."""
        pending = self.producer.pending_lost
        self._take(self.ring.size // 4)
        assert self.producer.push(record)
        lost = self.lost
        self._take(self.ring.size // 4)
        assert self.lost - lost == pending

    @invariant()
    def produced_is_delivered_waiting_or_lost(self):
        producer = self.producer
        marks = [r for r in map(parse_one, producer.expected) if r.event == LOST_RECORDS]
        waiting = len(producer.expected) - len(marks)
        assert producer.pushed == self.delivered + waiting + producer.lost
        told = sum(mark.extra[0] for mark in marks)
        assert producer.lost == self.lost + told + producer.pending_lost

    def _take(self, room):
        cons, prod = self.ring.cons, self.ring.prod
        room = min(room, self.ring.size // 4)
        result, payload = self.consumer.drain(room)
        assert (result.cons, result.prod) == (cons, prod)
        assert (prod == cons) == (result.status == EMPTY)
        assert (result.payload_bytes > 0) == (result.status == DRAINED)
        assert result.new_cons == self.ring.cons == (cons + len(payload)) % (2 * self.ring.size)
        assert result.corrupt_bytes == result.malformed_lost == 0
        assert counts_of(result) == count_records(payload)
        if result.status == NO_ROOM:
            assert room < 10
        for record in split_records(payload):
            assert record == self.producer.expected.popleft()
        self.delivered += result.records - result.lost_marks
        self.lost += result.lost


class InstalledRingMachine(RingMachine):
    """The form that the product runs here: compiled, if it was compiled."""

    module = fastpath


TestUncompiled = RingMachine.TestCase
TestInstalled = InstalledRingMachine.TestCase
TestUncompiled.settings = TestInstalled.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None
)
