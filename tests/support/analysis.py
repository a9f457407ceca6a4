"""Traces in memory, analysed; and records by short names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tracelib.analysis.analyze import Analysis, Analyzer
from tracelib.analysis.forms import Forms
from tracelib.analysis.results import guests
from tracelib.chunks import Chunk, Problem, TraceInfo
from tracelib.clock import Clock, Rate
from tracelib.losses import Loss
from tracelib.records import make_record
from tracelib.units import CpuId, Tsc

HZ = 1_000_000_000
"""So that a cycle is a nanosecond."""

RUNNING, RUNNABLE, BLOCKED, OFFLINE, LOST, UNKNOWN = range(6)


class MemoryReader:
    """A TraceReader over each CPU's bytes, in chunks cut at the given record numbers."""

    def __init__(
        self, payloads: Mapping[int, Sequence[bytes]], losses: Sequence[Loss] = (),
        *, chunk_records: int = 1 << 30, queue_full: Collection[int] = (),
    ) -> None:  # fmt: skip
        """`queue_full`: which chunks of a CPU are flagged so, by number."""
        self._queue_full = queue_full
        self.info = TraceInfo("memory", "test")
        self.problems: list[Problem] = []
        self._rows = payloads
        self._losses = losses
        self._size = chunk_records

    def cpus(self) -> Sequence[CpuId]:
        return sorted(CpuId(cpu) for cpu in self._rows)

    def chunks(self) -> Iterator[Chunk]:
        for cpu in self.cpus():
            yield from self.chunks_of(cpu)

    def chunks_of(self, cpu: CpuId) -> Iterator[Chunk]:
        rows = self._rows[cpu]
        offset = 0
        for start in range(0, len(rows), self._size):
            payload = b"".join(rows[start : start + self._size])
            flag = start // self._size in self._queue_full
            yield Chunk(cpu, memoryview(payload), "test", offset, queue_full=flag)
            offset += len(payload)

    def losses(self) -> Sequence[Loss]:
        return self._losses

    def close(self) -> None:
        pass


def analyze(
    payloads: Mapping[int, Sequence[bytes]], losses: Sequence[Loss] = (),
    *, chunk_records: int = 1 << 30, **options: Any,
) -> Analysis:  # fmt: skip
    """Each CPU's records, through the engine."""
    reader = MemoryReader(payloads, losses, chunk_records=chunk_records)
    return run(reader, **options)


def run(reader: Any, *, hz: int | None = HZ, **options: Any) -> Analysis:
    """Any reader's records, through the engine."""
    rate = None if hz is None else Rate(hz, "test")
    clock = Clock(Tsc(0), rate, reader.info.anchors)
    analyzer = Analyzer(reader, clock, Forms(family=None, version=None), **options)
    analyzer.run()
    check_sums(analyzer.analysis)
    return analyzer.analysis


def check_sums(analysis: Analysis) -> None:
    """Every vCPU's and every CPU's times add up to the span, exactly."""
    for vcpu in guests(analysis, None):
        assert sum(vcpu.times) == analysis.span
    cpus: dict[int, int] = dict.fromkeys(analysis.engine.cpus, 0)
    for cpu, _, (cycles,) in analysis.engine.states.occupied.items():
        cpus[cpu] += cycles
    assert set(cpus.values()) <= {analysis.span}


def change(tsc: int, dom: int, vcpu: int, old: int, new: int) -> bytes:
    """A runstate change."""
    return make_record(0x21001 | old << 8 | new << 4, dom << 16 | vcpu, tsc=tsc)


def vmexit(tsc: int, reason: int, *, nested: bool = False) -> bytes:
    """A 64-bit exit under the shared number."""
    return make_record(0x81102 | (0x400 if nested else 0), reason, 0x1000, 0, tsc=tsc)


def vmentry(tsc: int) -> bytes:
    return make_record(0x81001, tsc=tsc)


def times(analysis: Analysis, dom: int, vcpu: int) -> list[int]:
    """Cycles of a vCPU by state."""
    (found,) = [
        known for known in guests(analysis, None) if known.who == dom << 16 | vcpu
    ]
    return memoryview(found.times).tolist()
