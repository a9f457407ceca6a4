"""`top`, live: the store of a running service, sample by sample.

Each sample ends with a flush. Its answer says which TSC it was before the rings were
drained, so that everything up to it is on disk by now; what is later waits for the next
sample. The analysis goes on from sample to sample, and starts over where the trace does.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from tracelib.analysis.analyze import Analyzer
from tracelib.analysis.forms import Forms
from tracelib.analysis.moments import Counters, look
from tracelib.chunks import Problem
from tracelib.clock import Clock, find_rate
from tracelib.store.growing import GrowingReader
from tracelib.units import Nanoseconds, Tsc
from xtracectl.answers.intervals import CALLS
from xtracectl.answers.summarizing import Request, family
from xtracectl.client import Client
from xtracectl.top.sampling import Sample, Sampler

_MOST_VCPUS = 4096
"""When so many have turned up, or twice as many as there were at first, the analysis starts
over, lest it keep for ever what domains did that are long gone."""


_MARGIN = 100
"""A hundredth of a second before the flush is where a sample ends: a record gets its time
stamp before it is in the ring, and the clocks of two CPUs may differ a little."""


class _Flushed(NamedTuple):
    tsc: Tsc | None
    """Up to here everything is on disk; None if the service cannot tell."""
    state: str


class Watch:
    """The store of a running service, from now on. It is asked to flush, and nothing else."""

    def __init__(self, socket: Path, store: Path, request: Request) -> None:
        """Raises ServiceError if there is no service to ask, StoreError, UsageError."""
        self.paused = False
        """Whether nothing is traced, as of the last flush."""
        self._socket = socket
        self._request = request
        self._flush()
        self._reader = GrowingReader(store)
        self._era = 0
        self._most = _MOST_VCPUS
        self._analyzer: Analyzer | None = None
        self._sampler: Sampler | None = None
        self._before: Counters | None = None
        self._last = Tsc(0)

    @property
    def problems(self) -> list[Problem]:
        """What could not be read."""
        return self._reader.problems

    def begin(self) -> None:
        """The first sample begins now. Raises like `sample`."""
        # This one goes back to the beginning of the segment: that says who is there. The
        # second one forgets how long the first one took.
        for _ in range(2):
            self.sample()
        if self._sampler is not None:
            self._sampler.start = self._last

    def sample(self) -> Sample | None:
        """From the last one until now; None if nothing is there yet, or while tracing is
        paused. Raises ServiceError, after which the next one is as long as it takes;
        StoreError."""
        flushed = self._flush()
        self._reader.look()
        self.paused = flushed.state == "paused"
        if self.paused:
            # Only when it goes on do records tell since when they were missing.
            return None
        notes = self._follow_era()
        if self._analyzer is None or self._sampler is None:
            return None
        now = self._end(flushed, self._sampler)
        if now <= self._last:
            return None
        self._analyzer.go_on()
        self._analyzer.advance(now)
        piece = self._piece(self._analyzer, now)
        if not self._last:
            self._sampler.start = piece.first
        self._retire(len(self._analyzer.analysis.engine.states.vcpus))
        self._last = now
        return self._sampler.sample(piece, Nanoseconds(time.time_ns()), notes)

    def close(self) -> None:
        """Idempotent."""
        self._reader.close()

    def _flush(self) -> _Flushed:
        with Client(self._socket) as client:
            answer = client.ask("flush")
        tsc = answer.get("tsc")
        return _Flushed(Tsc(tsc) if isinstance(tsc, int) else None, str(answer.get("state", "")))

    def _follow_era(self) -> list[str]:
        """Start over if the trace does; what to say of that."""
        if self._reader.era == self._era:
            return []
        notes = [f"counted afresh: {self._reader.why}"] if self._era else []
        self._start()
        return notes

    def _start(self) -> None:
        """Analyse the era from its beginning."""
        reader, request = self._reader, self._request
        info = reader.info
        clock = Clock(Tsc(0), find_rate(info, request.cpu_hz), info.anchors)
        forms = Forms(
            family=family(request, info), version=request.xen_version or info.xen_version,
            tallied=CALLS,
        )
        self._analyzer = Analyzer(reader, clock, forms)
        self._sampler = Sampler(self._analyzer.analysis, clock, request, info)
        self._analyzer.begin()
        self._era = reader.era
        self._before = None
        self._last = Tsc(0)

    def _end(self, flushed: _Flushed, sampler: Sampler) -> Tsc:
        """Up to where everything can be read."""
        if flushed.tsc is None:
            return self._reader.last_tsc
        return Tsc(max(0, flushed.tsc - sampler.rate.hz // _MARGIN))

    def _piece(self, analyzer: Analyzer, now: Tsc) -> Counters:
        """What happened since the last one."""
        states = analyzer.analysis.engine.states
        if not states.started or states.start >= now:
            # Not one record with a time stamp so far.
            return Counters(self._last or now, now)
        start = Tsc(states.start)
        before, self._before = self._before or Counters(start, start), look(analyzer, now)
        return self._before.since(before)

    def _retire(self, vcpus: int) -> None:
        """Start over when there are too many; those of an era's first sample never are."""
        if not self._last:
            self._most = max(_MOST_VCPUS, 2 * vcpus)
        elif vcpus > self._most:
            self._reader.start_over()
