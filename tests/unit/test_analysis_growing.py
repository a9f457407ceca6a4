"""A trace analysed while it grows says the same as one that was there from the start."""

from __future__ import annotations

import random
from collections import deque

import pytest

from tests.support import captures
from tests.support.analysis import BLOCKED, RUNNABLE, RUNNING, MemoryReader, change, vmentry
from tracelib.analysis import moments
from tracelib.analysis.analyze import Analyzer
from tracelib.analysis.forms import Forms
from tracelib.chunks import Chunk
from tracelib.clock import Clock, Rate
from tracelib.losses import Cause, Loss
from tracelib.reading import open as open_trace
from tracelib.records import iter_records, make_record
from tracelib.units import CpuId, Tsc

CYCLES = 200_000_000


class Row:
    """Chunks that end, and go on when there are more."""

    def __init__(self):
        self.chunks = deque()

    def __iter__(self):
        return self

    def __next__(self):
        if not self.chunks:
            raise StopIteration
        return self.chunks.popleft()


class Revealed:
    """A reader that shows more of each CPU's records at each step."""

    def __init__(self, payloads, info):
        self.info = info
        self.problems = []
        self.stated = []
        self._left = {cpu: deque(row) for cpu, row in payloads.items()}
        self._rows = {cpu: Row() for cpu in payloads}
        self._latest = dict.fromkeys(payloads, 0)

    def cpus(self):
        return sorted(self._rows)

    def chunks_of(self, cpu):
        return self._rows[cpu]

    def losses(self):
        taken, self.stated = self.stated, []
        return taken

    def show(self, until, extra):
        """All that is earlier than `until`, and up to so many records more."""
        for cpu, left in self._left.items():
            shown = []
            over = extra()
            while left and over:
                tsc, data = left.popleft()
                shown.append(data)
                self._latest[cpu] = max(tsc or 0, self._latest[cpu])
                over -= self._latest[cpu] >= until
            for start in range(0, len(shown), 100):
                payload = b"".join(shown[start : start + 100])
                self._rows[cpu].chunks.append(Chunk(cpu, memoryview(payload), "test", 0))


def analyzer(reader, hz=captures.TSC_HZ):
    return Analyzer(
        reader, Clock(Tsc(0), Rate(hz, "test"), []), Forms(family=None, version=None)
    )


def records_of(reader):
    """By CPU, each record's time stamp and bytes."""
    found = {}
    for cpu in reader.cpus():
        row = found[cpu] = []
        for chunk in reader.chunks_of(cpu):
            for record in iter_records(bytes(chunk.payload)):
                row.append((record.tsc, make_record(record.event, *record.extra, tsc=record.tsc)))
    return found


@pytest.mark.parametrize("name", ["all4.trace", "sched.trace", "lost.trace", "pvh-hvm.trace"])
def test_sample_by_sample(name, tmp_path):
    """Whatever lies behind the moment already: each piece of time is the same, to the
    cycle."""
    path = captures.write(name, tmp_path)
    expected = list(moments.intervals(analyzer(reader := open_trace(path)), CYCLES))[:-1]
    reader.close()
    reader = open_trace(path)
    grown = Revealed(records_of(reader), reader.info)
    reader.close()
    chance = random.Random(name)
    extra = lambda: chance.choice((1, 1, 2, 500))  # noqa: E731
    live = analyzer(grown)
    grown.show(expected[0].first, extra)
    live.begin()
    before = moments.Counters(expected[0].first, expected[0].first)
    for piece in expected:
        grown.show(piece.last, extra)
        live.go_on()
        live.advance(piece.last)
        now = moments.look(live, piece.last)
        assert now.since(before) == piece
        before = now
    assert expected


def test_a_cpu_that_was_silent_for_a_while():
    """It has nothing for two looks, then more: nothing is lost, nothing comes twice."""
    reader = Revealed(
        {
            CpuId(0): [(1000, change(1000, 1, 0, RUNNABLE, RUNNING)), (9000, vmentry(9000))],
            CpuId(1): [(1500, change(1500, 2, 0, RUNNABLE, RUNNING)),
                       (7000, change(7000, 2, 0, RUNNING, BLOCKED))],
        },
        MemoryReader({}).info,
    )  # fmt: skip
    live = analyzer(reader)
    reader.show(0, lambda: 1)
    live.begin()
    for now in (2000, 4000, 6000, 8000):
        reader.show(now, lambda: 1)
        live.go_on()
        live.advance(now)
    found = moments.look(live, Tsc(8000))
    (times,) = [row for row in found.times.values() if row[BLOCKED]]
    assert (times[RUNNING], times[BLOCKED]) == (5500, 1000)


def test_a_loss_stated_afterwards():
    """It is told when its time is past already: what was counted as running is corrected."""
    reader = Revealed(
        {CpuId(0): [(1000, change(1000, 1, 0, RUNNABLE, RUNNING)), (9000, vmentry(9000))]},
        MemoryReader({}).info,
    )
    live = analyzer(reader)
    reader.show(0, lambda: 1)
    live.begin()
    live.advance(4000)
    reader.stated = [Loss(Cause.WRITE_FAILED, CpuId(0), 7, first_tsc=Tsc(2000), last_tsc=Tsc(3000))]
    live.go_on()
    live.advance(5000)
    found = moments.look(live, Tsc(5000))
    assert found.gaps == {(0, Cause.WRITE_FAILED): [1, 7, 0, 1000]}
    assert sum(found.occupied.values()) == 4000
