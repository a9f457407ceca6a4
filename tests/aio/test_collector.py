"""The collector over rings in memory: what it takes, when, and what it does in trouble."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
import trio

from tests.support.fakes import FakeSource, ManualClock
from tracelib.losses import Cause
from tracelib.records import WRAP_BUFFER, iter_records
from tracelib.segment.block import Flag
from xtraced.collector import Collector, Pace
from xtraced.handover import StagingMemory
from xtraced.staging import StagingBuffer, StagingPool


class Bench:
    """A collector whose writer is this list."""

    def __init__(
        self, source: FakeSource, *, buffers: int = 4, buffer_bytes: int = 1 << 16,
        flush: float = 5.0,
    ) -> None:
        self.source = source
        self.clock = ManualClock()
        self.pool = StagingPool(StagingMemory(buffers, buffer_bytes))
        self.handed: list[StagingBuffer] = []
        self.collector = Collector(
            source, self.pool, self.handed.append, clock=self.clock, pace=Pace(flush, 1.0)
        )

    def give_back_all(self) -> None:
        for buffer in self.handed:
            self.pool.give_back(buffer)
        self.handed.clear()
        self.collector.shortage.buffer_returned()

    def payloads(self, cpu: int) -> bytes:
        """What was handed over for a CPU, wrap fillers left out."""
        out = b""
        for buffer in self.handed:
            for at, header in buffer.blocks:
                if header.cpu == cpu:
                    payload = buffer.view[at + 128 : at + 128 + header.payload_bytes]
                    for record in iter_records(payload):
                        if record.event != WRAP_BUFFER:
                            out += record.encode()
        return out

    def account(self, cpu: int):
        return next(a for a in self.collector.accounts if a.ring.cpu == cpu)


@pytest.fixture
def source():
    source = FakeSource()
    yield source
    source.close()


async def test_everything_that_was_traced_is_handed_over_in_order(source):
    bench = Bench(source, buffers=16)
    for _ in range(50):
        source.push(0, 30)
        source.push(1, 11)
        assert bench.collector.drain("command")
    bench.collector.hand_off()
    assert bench.payloads(0) == b"".join(source.producers[0].expected)
    assert bench.payloads(1) == b"".join(source.producers[1].expected)
    assert bench.account(0).records == 1500
    assert bench.account(1).records == 550
    assert [source.memory[cpu].cons for cpu in (0, 1)] == [
        source.memory[cpu].prod for cpu in (0, 1)
    ]


async def test_a_buffer_is_filled_to_its_end_before_the_next_begins(source):
    bench = Bench(source, buffer_bytes=8192)
    for _ in range(6):
        source.push(0, 150)  # 3000 bytes: more than fits beside another block in a buffer
        bench.collector.drain("command")
    bench.collector.hand_off()
    assert [buffer.used for buffer in bench.handed[:-1]] == [8192] * (len(bench.handed) - 1)
    assert bench.payloads(0) == b"".join(source.producers[0].expected)


async def test_an_event_takes_only_rings_that_have_something_worth_a_block(source):
    bench = Bench(source)
    source.push(0, 100)  # 2000 of 4088 bytes
    source.push(1, 10)
    bench.collector.drain("event")
    assert bench.account(0).records == 100
    assert bench.account(1).records == 0
    bench.collector.drain("timer")
    assert bench.account(1).records == 10


async def test_exactly_half_full_wakes_and_is_taken(source, autojump_clock):  # noqa: ARG001
    """R02 (c): a ring filled to half, and the event that says so."""
    bench = Bench(source, flush=3600)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.collector.run)
        await trio.testing.wait_all_tasks_blocked()
        half = source.rings[0].data_bytes // 2 // 20
        source.push(0, half + 1)
        source.notify()
        with trio.fail_after(30):
            while bench.account(0).records != half + 1:
                await trio.sleep(0.01)
        assert bench.account(0).last_wake == "event"
        bench.collector.stop()


async def test_the_timer_takes_what_no_event_announces(source, autojump_clock):  # noqa: ARG001
    """R02 (a), (b): 30 % and then silence; a ring left at 60 %: no event will ever come."""
    bench = Bench(source, flush=5.0)
    source.push(0, 60)
    source.push(1, 120)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.collector.run)
        await trio.sleep(5.5)
        assert bench.account(0).records == 60
        assert bench.account(1).records == 120
        assert bench.account(1).last_wake == "timer"
        assert [b.used for b in bench.handed], "on its way to the disk within the interval"
        bench.collector.stop()
    assert bench.collector.wake_status().missed >= 1


async def test_when_the_buffers_run_out_the_rest_stays_in_the_ring(source):
    bench = Bench(source, buffers=1, buffer_bytes=4096)
    source.push(0, 198)  # 3960 bytes: one block
    assert bench.collector.drain("timer")
    source.push(0, 100)
    assert not bench.collector.drain("timer")
    assert bench.collector.shortage.stalled_for is not None
    assert source.memory[0].waiting > 0
    bench.give_back_all()
    assert bench.collector.drain("timer")
    assert bench.collector.shortage.stalled_for is None
    assert bench.account(0).records == 298


async def test_losses_during_a_stall_are_the_queues_not_the_rings(source):
    """R37: ring full because we were slow, and ring full because of us, are told apart."""
    bench = Bench(source, buffers=1, buffer_bytes=4096)
    slow = 300 - source.push(0, 300)
    for _ in range(3):  # a full ring is more than the only buffer holds
        bench.collector.drain("timer")
        bench.collector.hand_off()
        bench.give_back_all()
    source.push(0, 1)  # brings the count along
    bench.collector.drain("timer")
    assert bench.account(0).lost == {Cause.RING_FULL: slow}
    bench.collector.hand_off()

    source.push(0, 1)
    assert not bench.collector.drain("timer"), "the writer has the only buffer"
    stalled = 400 - source.push(0, 400)
    for _ in range(3):
        bench.give_back_all()
        bench.collector.drain("timer")
        bench.collector.hand_off()
    bench.give_back_all()
    source.push(0, 1)
    bench.collector.drain("timer")
    assert bench.account(0).lost == {Cause.RING_FULL: slow, Cause.QUEUE_FULL: stalled}


async def test_impossible_indexes_set_one_ring_aside(source):
    """R26: that CPU is named, the others go on, and nothing loops."""
    bench = Bench(source)
    source.push(0, 10)
    source.push(1, 10)
    source.memory[0].set(2, 100)
    assert bench.collector.drain("timer")
    assert "unaligned" in bench.account(0).trouble
    assert bench.account(1).records == 10
    bench.collector.hand_off()
    (loss,) = bench.handed[0].losses
    assert (loss.cause, loss.cpu, loss.records) == (Cause.RING_CORRUPT, 0, None)
    source.memory[0].set(0, 0)
    bench.collector.drain("timer")
    assert bench.account(0).records == 0, "set aside for good: its indexes cannot be trusted"


async def test_a_broken_chain_is_skipped_and_said(source):
    bench = Bench(source)
    source.push(0, 5)
    ring = source.memory[0]
    ring.write(struct.pack("<4I", 0, 0, 0, 0))  # headers without a class: a zeroed line
    bench.collector.drain("timer")
    bench.collector.hand_off()
    assert bench.account(0).records == 5
    (loss,) = bench.handed[0].losses
    assert (loss.cause, loss.bytes) == (Cause.RING_CORRUPT, 16)
    assert ring.cons == ring.prod


async def test_a_foreign_consumer_is_noticed(source):
    """R29: another program that moves `cons` takes records away from us."""
    bench = Bench(source)
    source.push(0, 10)
    bench.collector.drain("timer")
    source.push(0, 10)
    ring = source.memory[0]
    ring.set(ring.cons + 40, ring.prod)
    bench.collector.drain("timer")
    assert bench.account(0).lost_unknown == {Cause.RING_CORRUPT}


async def test_a_foreign_consumer_that_leaves_nothing_is_noticed_too(source):
    """R29: it may be faster than we are, and every ring we look at empty."""
    bench = Bench(source)
    source.push(0, 10)
    bench.collector.drain("timer")
    source.push(0, 10)
    ring = source.memory[0]
    ring.set(ring.prod, ring.prod)
    for _ in range(2):
        bench.collector.drain("timer")
    bench.collector.hand_off()
    (loss,) = bench.handed[0].losses
    assert loss.detail == "another consumer moved the consumer index"


async def test_a_full_ring_at_stop_is_an_unknown_loss_never_zero(source):
    """R14: Xen forgets the count when tracing is switched off."""
    bench = Bench(source)
    source.push(0, 500)
    source.push(1, 5)
    bench.collector.incidents.check_tails(bench.collector.accounts)
    bench.collector.drain("stop")
    assert bench.account(0).lost_unknown == {Cause.TAIL_UNKNOWN}
    assert bench.account(1).lost_unknown == set()
    assert Cause.TAIL_UNKNOWN not in bench.account(0).lost


async def test_rounds_and_reasons_are_marked_in_the_blocks(source):
    bench = Bench(source)
    source.push(0, 5)
    bench.collector.drain("start")
    source.push(0, 60)
    bench.collector.drain("event")
    source.push(0, 5)
    bench.collector.drain("stop")
    bench.collector.hand_off()
    flags = [(header.round, header.flags) for _, header in bench.handed[0].blocks]
    assert flags == [
        (1, Flag.FULL_ROUND | Flag.BEFORE_START),
        (2, 0),
        (3, Flag.FULL_ROUND | Flag.AFTER_STOP),
    ]


async def test_ring_positions_join_up(source):
    bench = Bench(source)
    for _ in range(20):
        source.push(0, 70)
        bench.collector.drain("command")
    bench.collector.hand_off()
    headers = [header for buffer in bench.handed for _, header in buffer.blocks]
    assert all(a.ring_end == b.ring_start for a, b in pairwise(headers))
    assert {header.ring_id for header in headers} == {1000}


async def test_discard_empties_the_rings_and_keeps_nothing(source):
    """R30, `discard`."""
    bench = Bench(source)
    source.push(0, 100)
    bench.collector.discard()
    bench.collector.drain("timer")
    assert bench.account(0).records == 0
    assert bench.account(0).lost_unknown == set()
