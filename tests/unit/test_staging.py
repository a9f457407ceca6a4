"""The pool of staging buffers: bounded, last in first out, and given back when idle."""

from __future__ import annotations

import ctypes

import pytest

from tracelib.segment.block import BlockHeader, Kind
from xtraced.handover import StagingMemory
from xtraced.staging import StagingPool


def test_buffers_are_page_aligned_and_no_more_than_asked_for():
    pool = StagingPool(StagingMemory(3, 8192))
    taken = [pool.take() for _ in range(3)]
    for buffer in taken:
        address = ctypes.addressof(ctypes.c_char.from_buffer(buffer.view))
        assert address % 4096 == 0
        assert len(buffer.view) == 8192
    assert pool.take() is None
    assert pool.free == 0


def test_a_size_that_is_not_whole_pages_is_refused():
    with pytest.raises(ValueError, match="whole pages"):
        StagingPool(StagingMemory(2, 5000))


def test_last_in_first_out():
    pool = StagingPool(StagingMemory(3, 4096))
    first = pool.take()
    pool.give_back(first)
    assert pool.take() is first


def test_a_block_takes_whole_pages_and_the_room_behind_a_header_slot():
    pool = StagingPool(StagingMemory(1, 3 * 4096))
    buffer = pool.take()
    assert (buffer.payload_at, buffer.room) == (128, 3 * 4096 - 128)
    buffer.add(BlockHeader(Kind.RECORDS, 4000, 8192, 0))
    assert (buffer.payload_at, buffer.room) == (8192 + 128, 4096 - 128)
    pool.give_back(buffer)
    assert (buffer.used, buffer.blocks) == (0, [])


def test_memory_of_a_buffer_that_stays_idle_is_given_back():
    """R71: bounded, and back to what is needed after a slow spell."""
    pool = StagingPool(StagingMemory(2, 4096))
    both = [pool.take(), pool.take()]
    for buffer in both:
        buffer.view[:4] = b"full"
        pool.give_back(buffer)
    pool.trim()
    assert [bytes(buffer.view[:4]) for buffer in both] == [b"full"] * 2, "used just now"
    busy = pool.take()
    pool.give_back(busy)
    pool.trim()
    (idle,) = (buffer for buffer in both if buffer is not busy)
    assert bytes(busy.view[:4]) == b"full"
    assert bytes(idle.view[:4]) == bytes(4), "the kernel has the page back"
    again = [pool.take(), pool.take()]
    assert {id(buffer) for buffer in again} == {id(buffer) for buffer in both}
