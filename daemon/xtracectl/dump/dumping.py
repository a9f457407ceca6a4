"""What `dump` does with one input after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tracelib.batches import first_tsc
from tracelib.chunks import Chunk, TraceReader, watched
from tracelib.clock import CYCLES, Clock, find_rate, without_rate
from tracelib.columns import Columns, gathered
from tracelib.counting import Counts
from tracelib.errors import UsageError
from tracelib.export.groups import Catalogue
from tracelib.export.timebase import TimeBase
from tracelib.export.windows import WindowWriter, with_losses
from tracelib.gaps import gap_at, gap_rows
from tracelib.losses import Loss
from tracelib.reading import running_at_start, skip_before
from tracelib.stream import Stream
from tracelib.units import CpuId, Tsc
from xtracectl.dump.formats import Format
from xtracectl.dump.request import Request
from xtracectl.inputs import check_domain, warn
from xtracectl.sink import Sink

_OF_XEN = ("xentrace", "perfetto")
"""Formats of records as Xen writes them, and of what Xen's scheduler did."""

_LOOK_BYTES = 32 << 20
"""What is put in order at once while following."""


class Dump:
    """One trace on its way out. `left` is how many rows are still wanted, None for all."""

    def __init__(
        self, request: Request, reader: TraceReader, out: Sink, form: Format | None,
        left: int | None, since: Tsc | None = None,
    ) -> None:
        """`form` is None for xentrace's own format. `since` leaves out what is earlier, like
        the request's."""
        if reader.info.kind == "kvmtrace" and request.format in _OF_XEN:
            raise UsageError(
                f"--format {request.format} is for Xen's records, not KVM's",
                hint="text, json, csv and parquet take any",
            )
        check_domain(reader.info, request.domain)
        self.left = left
        self._reader = reader
        self._out = out
        rate = find_rate(reader.info, request.cpu_hz)
        self._clock = Clock(first_tsc(reader) or Tsc(0), rate, reader.info.anchors)
        self._selection = request.selection(self._clock, since)
        family = request.family or reader.info.exit_family
        version = request.xen_version or reader.info.xen_version
        self._catalogue = Catalogue(family, version)
        running: dict[CpuId, int] = {}
        since = self._selection.since
        # Where older blocks are skipped, who ran when they began is no news any more.
        if since is None or not skip_before(reader, since):
            running = running_at_start(reader)
        self._stream = Stream(self._selection, self._catalogue, self._clock, running)
        self._windows = WindowWriter(self._selection, self._catalogue, running, left=left)
        self._times = TimeBase.choose(self._clock, request.time)
        self._form = form
        if form is not None:
            self._rows = form.trace(self._times, self._catalogue, self._selection)
        self._seen = Counts()

    def whole(self, progress: Callable[[int], None]) -> None:
        """Everything that the trace has now; `progress` is told of bytes read."""
        reader = self._reader
        if self._form is None:
            self._write_windows(watched(reader.chunks(), progress), self._wanted(reader.losses()))
            return
        self.say_clock()
        batches, losses = self._batches(progress)
        self._write_rows(batches, losses)

    def last(self, count: int, *, complete: bool) -> bool:
        """The last `count` rows of what the trace has now. If there are fewer, nothing is
        written and the answer is False, unless the trace is `complete`."""
        if not count:
            self.say_clock()
            return True
        batches, losses = self._batches(lambda _: None)
        kept: deque[Columns] = deque()
        rows = 0
        for batch in batches:
            kept.append(gathered(batch.take(slice(-count, None))))
            rows += len(kept[-1])
            while rows - len(kept[0]) >= count:
                rows -= len(kept.popleft())
        if rows < count and not complete:
            return False
        self.say_clock()
        if kept:
            kept[0] = kept[0].take(slice(max(rows - count, 0), None))
        self._write_rows(iter(kept), losses)
        return True

    def more(self, chunks: Iterable[Chunk], losses: Callable[[], Sequence[Loss]]) -> None:
        """What has come since, in pieces that are each put in order. `losses` is asked when
        the chunks of a piece are through: they lead past what states the losses."""
        for held in self._pieces(chunks):
            stated = self._wanted(losses())
            if self._form is None:
                self._write_windows((chunk for row in held.values() for chunk in row), stated)
            else:
                self._write_rows(self._stream.read(held, stated), stated)
        self._out.flush()

    def finish(self) -> None:
        """Say on standard error what was missing."""
        lost, info = self._seen, self._reader.info
        if info.losses_unknown is not None:
            warn(f"{info.name}: losses are unknown: {info.losses_unknown}")
        if lost.gaps:
            causes = [f"{cause} {number}" for cause, number in sorted(lost.lost_by_cause.items())]
            causes += [f"{cause} unknown" for cause in sorted(lost.unknown_losses)]
            warn(f"{info.name}: records lost in {lost.gaps} gaps: {', '.join(causes)}")
        for problem in self._reader.problems:
            warn(str(problem))

    def say_clock(self) -> None:
        """Say on standard error what the times are."""
        info = self._reader.info
        if info.layout is not None:
            warn(f"{info.name}: a {info.kind} set, {info.layout}")
        if self._form is not None:
            known = self._times.clock.rate is not None or info.tick == CYCLES
            said = self._form.clock(self._times) if known else f"times: {without_rate(info)}"
            warn(f"{info.name}: {said}")

    def _wanted(self, losses: Iterable[Loss]) -> list[Loss]:
        return [loss for loss in losses if self._selection.wants_cpu(loss.cpu)]

    def _batches(
        self, progress: Callable[[int], None]
    ) -> tuple[Iterator[Columns], Sequence[Loss]]:
        """All that is selected, and the losses that its rows refer to."""
        reader = self._reader
        losses = self._wanted(reader.losses())
        cpus = [cpu for cpu in reader.cpus() if self._selection.wants_cpu(cpu)]
        chunks = {cpu: watched(reader.chunks_of(cpu), progress) for cpu in cpus}
        return self._stream.read(chunks, losses), losses

    def _pieces(self, chunks: Iterable[Chunk]) -> Iterator[Mapping[CpuId, list[Chunk]]]:
        """Copies of the chunks, of so many at a time as memory allows; always at least one
        piece, which may be empty."""
        held: dict[CpuId, list[Chunk]] = {}
        size = 0
        for chunk in chunks:
            if self._selection.wants_cpu(chunk.cpu):
                copy = memoryview(bytes(chunk.payload))
                held.setdefault(chunk.cpu, []).append(replace(chunk, payload=copy))
                size += len(copy)
            if size > _LOOK_BYTES:
                yield held
                held, size = {}, 0
        yield held

    def _write_rows(self, batches: Iterator[Columns], losses: Sequence[Loss]) -> None:
        for batch in self._limited(batches):
            for piece in self._rows(batch, losses):
                self._out.write(piece)
            for row in np.flatnonzero(gap_rows(batch)).tolist():
                self._seen.add_gap(self._selection.clip(gap_at(batch, row, losses)))

    def _limited(self, batches: Iterator[Columns]) -> Iterator[Columns]:
        while self.left != 0 and (batch := next(batches, None)) is not None:
            if self.left is not None:
                batch = batch.take(slice(0, self.left))
                self.left -= len(batch)
            yield batch

    def _write_windows(self, chunks: Iterable[Chunk], losses: Sequence[Loss]) -> None:
        rows = with_losses(chunks, losses, self._clock)
        for window in self._windows.windows(rows):
            self._out.write(window)
        self.left = self._windows.left
