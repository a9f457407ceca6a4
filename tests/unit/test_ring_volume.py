"""Much data through small rings, and a producer that runs while the consumer drains."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.ring import FORMS, Consumer, MemoryRing, numbered_stream
from tracelib.records import make_header
from tracelib.ring import fastpath
from tracelib.ring.results import DRAINED, EMPTY
from tracelib.ring.runstates import RunstateTable

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
QUICK = 64 * MIB if fastpath.COMPILED else 2 * MIB


@pytest.mark.parametrize("total", [QUICK, pytest.param(5 << 30, marks=pytest.mark.slow)])
def test_gigabytes_through_one_page(total):
    """R01: records in = records out, in order, after 5 GiB through a 1-page ring.

    The producer writes many 8-byte records in one step, each with its number; odd steps
    leave part of the ring free, so that both indexes take every value.
    """
    if total > QUICK and not fastpath.COMPILED:
        pytest.skip("takes hours uncompiled")
    ring = MemoryRing(1)
    slots = np.frombuffer(ring.data, dtype=np.uint32).reshape(-1, 2)
    slots[:, 0] = make_header(0x801001, 1, tsc=False)
    consumer = Consumer(ring)
    out = np.frombuffer(consumer.buffer, dtype=np.uint32)[consumer.AT + 1 :: 2]
    numbers = np.arange(len(slots), dtype=np.uint32)
    produced = consumed = drained_bytes = 0
    steps = (511, 510, 1, 257, 511, 300)
    while drained_bytes < total:
        step = steps[produced % len(steps)]
        at = ring.prod // 8 % len(slots)
        values = numbers[:step] + np.uint32(produced % 2**32)
        slots[at : at + step, 1] = values[: len(slots) - at]
        slots[: max(0, at + step - len(slots)), 1] = values[len(slots) - at :]
        ring.words[1] = (ring.prod + 8 * step) % (2 * ring.size)
        produced += step
        result = fastpath.drain(
            ring.words, ring.size, consumer.buffer, consumer.AT, 1022, 1, consumer.runstates
        )
        assert result.records == step
        assert (out[:step] == values).all()
        consumed += result.records
        drained_bytes += result.payload_bytes
    assert consumed == produced
    assert ring.waiting == 0


@pytest.mark.parametrize("form", FORMS)
def test_producer_in_another_process(form):
    """R03, R04: a producer that really runs at the same time and reuses the space as soon
    as cons moves: every record comes once, in order, and whole."""
    pages, count = 2, 2_000_000 if fastpath.COMPILED else 100_000
    stream = numbered_stream(count)
    memory = os.memfd_create("ring")
    os.ftruncate(memory, pages * 4096)
    ring = MemoryRing(pages, words=memoryview(mmap.mmap(memory, pages * 4096)).cast("I"))
    into = memoryview(bytearray(ring.size)).cast("I")
    runstates = RunstateTable(1)
    drain = FORMS[form].drain
    command = [sys.executable, "-m", "tests.support.ring", str(memory), str(pages), str(count)]
    taken = 0
    with subprocess.Popen(command, pass_fds=[memory], cwd=ROOT) as producer:
        os.close(memory)
        try:
            while taken < len(stream):
                over = producer.poll() is not None
                found = drain(ring.words, ring.size, into, 0, len(into), 0, runstates)
                size = found.payload_bytes
                assert found.status in (DRAINED, EMPTY)
                assert 8 * found.records == size
                assert into.cast("B")[:size] == stream[taken : taken + size]
                taken += size
                assert found.status == DRAINED or not over, f"ended after {taken} bytes"
            assert producer.wait() == 0
        finally:
            # After a failed check it would wait for room for ever.
            producer.kill()
    assert ring.waiting == 0
