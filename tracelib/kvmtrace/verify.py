"""What is wrong in a kvmtrace set: damage, missing files, and time that goes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tracelib.batches import CpuDecoder
from tracelib.chunks import ignore_progress, watched
from tracelib.kvmtrace.reader import KvmtraceReader
from tracelib.segment.findings import Finding, Severity


def verify_kvmtrace(
    reader: KvmtraceReader, progress: Callable[[int], None] = ignore_progress
) -> Iterator[Finding]:
    """Everything that is wrong in the set; `progress` is told of bytes read. Raises
    StoreError."""
    for cpu in reader.cpus():
        decoder = CpuDecoder(cpu)
        for _ in decoder.batches(watched(reader.chunks_of(cpu), progress)):
            pass
        yield from _steps_back(decoder, reader.info.tick)
    for problem in reader.problems:
        yield Finding(Severity.ERROR, problem.file, problem.offset, problem.said)


def _steps_back(decoder: CpuDecoder, tick: str) -> Iterator[Finding]:
    """Within a CPU time never goes back."""
    for step in decoder.first_inversions:
        yield Finding(
            Severity.ERROR, step.file, step.offset,
            f"CPU {step.cpu}: time goes back by {step.before - step.tsc} {tick}, "
            f"from {step.before} to {step.tsc}",
        )
    left = decoder.inversions - len(decoder.first_inversions)
    if left > 0:
        last = decoder.first_inversions[-1]
        yield Finding(
            Severity.ERROR, last.file, last.offset,
            f"CPU {decoder.cpu}: time goes back {left} more times behind this",
        )
