"""Staging buffers with records in them, and a store to write them to."""

from __future__ import annotations

from pathlib import Path

from tests.support.fakes import ManualClock
from tracelib.chunks import ClockAnchor
from tracelib.records import WRAP_BUFFER, iter_records, make_record
from tracelib.ring.runstates import RunstateSnapshot
from tracelib.segment.block import BlockHeader, Kind, padded_bytes
from tracelib.segment.metadata import Metadata
from tracelib.store.segment import SegmentReader
from tracelib.units import CpuId, Nanoseconds, Tsc
from xtraced.handover import StagingMemory
from xtraced.retention import Limits, Retention
from xtraced.segments import Opening, SegmentStore, WritePolicy
from xtraced.staging import StagingBuffer, StagingPool

NO_LIMITS = Limits(max_bytes=0, keep_free=0, max_age=0, max_segments=0)


def metadata() -> Metadata:
    return Metadata(
        sequence=0, run_id="run", created_at=Nanoseconds(0), service_version="0",
        previous_reason="none", source="fake", cpus=2, ring_cpus=(CpuId(0), CpuId(1)),
        ring_pages_wanted=1, ring_pages=1, events_wanted=0xFFFF000, events=0xFFFF000,
    )  # fmt: skip


def opening() -> Opening:
    anchor = ClockAnchor(Tsc(1), Nanoseconds(2), Nanoseconds(3))
    return Opening(metadata(), RunstateSnapshot({}, (), 0), anchor)


class StoreBench:
    """A SegmentStore in a directory, with a clock in the test's hand."""

    def __init__(
        self, directory: Path, limits: Limits = NO_LIMITS, *, direct: bool = True, retry: int = 0
    ) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.retention = Retention(directory, limits, now=self.clock.realtime)
        self.slept: list[float] = []
        self.store = SegmentStore(
            directory, self.retention, WritePolicy(direct, 5_000_000_000, retry),
            clock=self.clock, sleep=self._sleep,
        )  # fmt: skip
        self.pool = StagingPool(StagingMemory(2, 1 << 16))
        self.next_tsc = 0

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(int(seconds * 1e9))

    def open(self) -> None:
        self.store.open(opening())

    def buffer(self, *counts: int) -> StagingBuffer:
        """A buffer with a block for each number: that many records of CPU 0, 1, 0, 1 ..."""
        buffer = self.pool.take()
        assert buffer is not None
        for position, count in enumerate(counts):
            first = self.next_tsc + 1
            records = [self._record() for _ in range(count)]
            payload = b"".join(records)
            buffer.view[buffer.payload_at : buffer.payload_at + len(payload)] = payload
            buffer.add(
                BlockHeader(
                    Kind.RECORDS, len(payload), padded_bytes(len(payload)), 0, cpu=position % 2,
                    records=count, first_tsc=Tsc(first), last_tsc=Tsc(self.next_tsc),
                )
            )
        return buffer

    def _record(self) -> bytes:
        self.next_tsc += 1
        return make_record(0x22009, self.next_tsc, tsc=self.next_tsc)

    def write(self, *counts: int) -> None:
        buffer = self.buffer(*counts)
        self.store.write(buffer)
        self.pool.give_back(buffer)

    def rotate(self) -> None:
        self.store.rotate("size", opening())

    def close(self) -> None:
        self.store.close("stop", None)

    def paths(self) -> list[Path]:
        return sorted(path for path in self.directory.iterdir() if ".xtr" in path.name)


def stored_tscs(path: Path) -> list[int]:
    """The TSC of every record of a segment, in file order; nothing but its seal may be wrong."""
    with SegmentReader(path) as segment:
        tscs = [
            record.tsc or 0
            for chunk in segment.chunks()
            for record in iter_records(chunk.payload)
            if record.event != WRAP_BUFFER
        ]
        assert [problem for problem in segment.problems if "seal" not in problem.reason] == []
    return tscs
