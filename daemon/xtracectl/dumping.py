"""What `dump` does with one input after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tracelib.batches import first_tsc
from tracelib.chunks import Chunk, TraceInfo, TraceReader, watched
from tracelib.clock import Clock, find_rate
from tracelib.columns import Columns
from tracelib.counting import Counts
from tracelib.errors import UsageError
from tracelib.export.groups import Catalogue
from tracelib.export.lines import CSV, JSON, RAW, TEXT, WALL, LineWriter, Style
from tracelib.export.rules import RuleWriter
from tracelib.export.windows import WindowWriter, with_losses
from tracelib.gaps import gap_at, gap_rows
from tracelib.losses import Loss
from tracelib.reading import running_at_start, skip_before
from tracelib.stream import Stream
from tracelib.units import CpuId, Tsc
from xtracectl.inputs import warn
from xtracectl.request import Request
from xtracectl.sink import Sink

STYLES: dict[str, Style] = {"text": TEXT, "json": JSON, "csv": CSV}
TIMES: dict[str, Style] = {"elapsed": TEXT, "wall": WALL, "tsc": RAW}
"""The text format, by --time."""


def head(format_name: str) -> bytes:
    """What comes once, before the first input."""
    style = STYLES.get(format_name)
    return b"" if style is None else style.head.encode()


class Dump:
    """One trace on its way out. `left` is how many lines are still wanted, None for all."""

    def __init__(
        self, request: Request, reader: TraceReader, out: Sink, left: int | None
    ) -> None:
        self.left = left
        self._reader = reader
        self._out = out
        rate = find_rate(reader.info, request.cpu_hz)
        self._clock = Clock(first_tsc(reader) or Tsc(0), rate, reader.info.anchors)
        self._selection = request.selection(self._clock)
        family = request.family or reader.info.exit_family
        self._catalogue = Catalogue(family, _version(reader.info))
        since = self._selection.since
        running: dict[CpuId, int] = {}
        # Where older blocks are skipped, who ran when they began is no news any more.
        if since is None or not skip_before(reader, since):
            running = running_at_start(reader)
        self._stream = Stream(self._selection, self._catalogue, self._clock, running)
        self._window_writer = WindowWriter(self._selection, self._catalogue, running, left=left)
        self._time = request.time
        self._style = STYLES.get(request.format)
        if self._style is TEXT:
            self._style = TIMES[request.time]
        self._rules = None if request.rules is None else RuleWriter(request.rules, self._selection)
        if request.time == "wall" and not self._clock.dated:
            raise UsageError(
                f"{reader.info.name}: nothing in it tells the time of day",
                hint="stores and segments do; for this one take --time elapsed or tsc",
            )
        self._seen = Counts()

    def whole(self, progress: Callable[[int], None]) -> None:
        """Everything that the trace has now; `progress` is told of bytes read."""
        reader = self._reader
        losses = self._wanted(reader.losses())
        if self._style is None:
            self._windows(watched(reader.chunks(), progress), losses)
        else:
            self._say_clock()
            cpus = [cpu for cpu in reader.cpus() if self._selection.wants_cpu(cpu)]
            self._lines({cpu: watched(reader.chunks_of(cpu), progress) for cpu in cpus}, losses)

    def more(self, chunks: Iterable[Chunk], losses: Callable[[], Sequence[Loss]]) -> None:
        """What has come since: held in memory, so that it can be put in order. `losses` is
        asked when the chunks are through: they lead past what states the losses."""
        held: dict[CpuId, list[Chunk]] = {}
        for chunk in chunks:
            if self._selection.wants_cpu(chunk.cpu):
                copy = memoryview(bytes(chunk.payload))
                held.setdefault(chunk.cpu, []).append(
                    replace(chunk, payload=copy)
                )
        stated = self._wanted(losses())
        if self._style is None:
            self._windows((chunk for row in held.values() for chunk in row), stated)
        else:
            self._lines(held, stated)
        self._out.flush()

    def finish(self) -> None:
        """Say on standard error what was missing."""
        lost = self._seen
        if lost.gaps:
            causes = [f"{cause} {number}" for cause, number in sorted(lost.lost_by_cause.items())]
            causes += [f"{cause} unknown" for cause in sorted(lost.unknown_losses)]
            warn(f"{self._reader.info.name}: records lost in {lost.gaps} gaps: {', '.join(causes)}")
        for problem in self._reader.problems:
            warn(str(problem))

    def _wanted(self, losses: Iterable[Loss]) -> list[Loss]:
        return [loss for loss in losses if self._selection.wants_cpu(loss.cpu)]

    def _lines(
        self, chunks: Mapping[CpuId, Iterable[Chunk]], losses: Sequence[Loss]
    ) -> None:
        assert self._style is not None
        lines = self._line_maker(losses)
        for batch in self._limited(self._stream.read(chunks, losses)):
            for piece in lines(batch):
                self._out.write(piece)
            for row in np.flatnonzero(gap_rows(batch)).tolist():
                self._seen.add_gap(self._selection.clip(gap_at(batch, row, losses)))

    def _line_maker(
        self, losses: Sequence[Loss]
    ) -> Callable[[Columns], Iterator[bytes | memoryview]]:
        if self._rules is not None:
            rules = self._rules
            return lambda batch: rules.lines(batch, losses)
        assert self._style is not None
        return LineWriter(
            self._style, self._clock, self._catalogue, self._selection, losses
        ).lines

    def _limited(self, batches: Iterator[Columns]) -> Iterator[Columns]:
        while self.left != 0 and (batch := next(batches, None)) is not None:
            if self.left is not None:
                batch = batch.take(slice(0, self.left))
                self.left -= len(batch)
            yield batch

    def _windows(self, chunks: Iterable[Chunk], losses: Sequence[Loss]) -> None:
        rows = with_losses(chunks, losses, self._clock)
        for window in self._window_writer.windows(rows):
            self._out.write(window)
        self.left = self._window_writer.left

    def _say_clock(self) -> None:
        rate = self._clock.rate
        name = self._reader.info.name
        if self._rules is not None or self._time == "tsc":
            warn(f"{name}: times are in cycles of the time stamp counter")
        elif self._time == "wall":
            warn(f"{name}: times are in UTC, by the trace's clock anchors")
        elif rate is None:
            warn(f"{name}: the clock rate is not known: times are in cycles (see --cpu-hz)")
        else:
            warn(f"{name}: times are in seconds since the first record, at {rate}")


def _version(info: TraceInfo) -> tuple[int, int] | None:
    match = re.match(r"(\d+)\.(\d+)", info.hypervisor_version or "")
    return None if match is None else (int(match[1]), int(match[2]))
