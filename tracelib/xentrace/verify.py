"""What is wrong in an xentrace file: damage, and time that goes back.

Within a CPU time never goes back: a step is an error. Across CPUs, file order is no time
order, but xentrace empties every ring in every round: a record cannot be older than what
another CPU's ring had given up before this CPU's previous turn. Where one is, the CPUs'
clocks disagree, by at least that much: a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tracelib.batches import CpuDecoder
from tracelib.chunks import Chunk, ignore_progress, watched
from tracelib.columns import Columns, Flag
from tracelib.segment.findings import Finding, Severity
from tracelib.units import CpuId
from tracelib.xentrace.reader import XentraceReader


@dataclass(slots=True)
class _Turn:
    """What the file had given up before a CPU's last window."""

    latest: int = 0
    """The highest TSC of all windows up to and with that one."""
    number: int = -1
    """Which window it was, counted over the whole file."""


class _ClockCheck:
    """Compares the CPUs' clocks by the order of windows."""

    def __init__(self) -> None:
        self._turns: dict[CpuId, _Turn] = {}
        self._latest = 0
        self._number = 0

    def add(self, chunk: Chunk, batch: Columns) -> Iterator[Finding]:
        turn = self._turns.setdefault(chunk.cpu, _Turn())
        timed = batch.tsc[(batch.flags & Flag.TIMED) != 0]
        if len(timed):
            first, last = int(timed[0]), int(timed.max())
            if first < turn.latest and turn.number >= 0:
                yield Finding(
                    Severity.WARNING, chunk.file, chunk.offset,
                    f"CPU {chunk.cpu}: time is {turn.latest - first} cycles behind another CPU's, "
                    "which was read a round earlier: their clocks disagree",
                )
            self._latest = max(self._latest, last)
        # Two windows of a CPU in a row may be one ring's content, cut in two.
        if turn.number != self._number - 1:
            turn.latest = self._latest
        turn.number = self._number
        self._number += 1


def verify_xentrace(
    reader: XentraceReader, progress: Callable[[int], None] = ignore_progress
) -> Iterator[Finding]:
    """Everything that is wrong in the file; `progress` is told of bytes read. Raises
    FormatError, StoreError."""
    decoders: dict[CpuId, CpuDecoder] = {}
    shown: dict[CpuId, int] = {}
    clocks = _ClockCheck()
    for chunk in watched(reader.chunks(), progress):
        decoder = decoders.setdefault(chunk.cpu, CpuDecoder(chunk.cpu))
        decoder.add(chunk)
        batch = decoder.flush()
        assert batch is not None
        for step in decoder.first_inversions[shown.get(chunk.cpu, 0) :]:
            yield Finding(
                Severity.ERROR, step.file, step.offset,
                f"CPU {step.cpu}: time goes back by {step.before - step.tsc} cycles, "
                f"from {step.before} to {step.tsc}",
            )
        shown[chunk.cpu] = len(decoder.first_inversions)
        yield from clocks.add(chunk, batch)
    yield from _rest(reader, decoders)
    for problem in reader.problems:
        yield Finding(Severity.ERROR, problem.file, problem.offset, problem.said)


def _rest(reader: XentraceReader, decoders: dict[CpuId, CpuDecoder]) -> Iterator[Finding]:
    """Steps back that are too many to show."""
    for cpu, decoder in sorted(decoders.items()):
        left = decoder.inversions - len(decoder.first_inversions)
        if left > 0:
            last = decoder.first_inversions[-1]
            yield Finding(
                Severity.ERROR, reader.info.name, last.offset,
                f"CPU {cpu}: time goes back {left} more times behind this",
            )
