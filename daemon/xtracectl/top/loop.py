"""`top` without a terminal: where samples come from, and printing them one after the other."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from tracelib.chunks import Problem, ignore_progress
from tracelib.errors import ServiceError
from tracelib.units import Nanoseconds
from xtracectl.answers.summarizing import Request
from xtracectl.exits import Exit
from xtracectl.inputs import warn
from xtracectl.render.top import plain
from xtracectl.render.top_json import json_line
from xtracectl.stopping import Stopped, held
from xtracectl.top.sampling import Sample, replay
from xtracectl.top.view import View
from xtracectl.top.watching import Watch

NANO = 10**9

_PAUSED = "tracing is paused; waiting for it to go on (xtracectl resume)"


class Samples(Protocol):
    """Where samples come from."""

    live: bool
    """Whether they take time to come; else they are read as fast as wanted."""
    trouble: str
    """Why there is none, if something is wrong; "" otherwise."""

    def next(self) -> Sample | None:
        """The next one; None if there is none yet, or none any more."""

    def code(self) -> int:
        """What the exit code should say of what was read."""

    def close(self) -> None: ...


class Live:
    """A running service. If it goes away, samples go on when it is back."""

    live = True

    def __init__(self, socket: Path, store: Path, request: Request) -> None:
        """The first sample begins now. Raises ServiceError, StoreError, UsageError."""
        self.trouble = ""
        self._watch = Watch(socket, store, request)
        self._watch.begin()

    def next(self) -> Sample | None:
        try:
            sample = self._watch.sample()
        except ServiceError as error:
            self.trouble = f"{error.message}; waiting for it"
            return None
        self.trouble = _PAUSED if self._watch.paused else ""
        return sample

    def code(self) -> int:
        return Exit.PROBLEMS if self._watch.problems else Exit.OK

    def close(self) -> None:
        self._watch.close()


class Replayed:
    """An input, interval by interval."""

    live = False
    trouble = ""

    def __init__(self, path: str, request: Request, every: Nanoseconds) -> None:
        self._problems: list[Problem] = []
        self._samples: Iterator[Sample] = replay(
            path, request, every, ignore_progress, self._problems.extend
        )

    def next(self) -> Sample | None:
        return next(self._samples, None)

    def code(self) -> int:
        """Says what could not be read, too."""
        for problem in self._problems:
            warn(str(problem))
        return Exit.PROBLEMS if self._problems else Exit.OK

    def close(self) -> None:
        self._problems.clear()


def printed(samples: Samples, view: View, count: int | None, *, json: bool) -> int:
    """Print them, as many as asked for; the exit code. Being asked to end is the normal end
    of what is live, as it has no other."""
    try:
        _print(samples, _json if json else lambda sample: f"{plain(sample, view)}\n", view, count)
    except Stopped:
        if not samples.live:
            raise
    return samples.code()


def _json(sample: Sample) -> str:
    return json_line(sample)


def _print(
    samples: Samples, text: Callable[[Sample], str], view: View, count: int | None
) -> None:
    said = ""
    due = time.monotonic()
    while count is None or count > 0:
        if samples.live:
            due = max(due + view.delay / NANO, time.monotonic())
            time.sleep(due - time.monotonic() if due > time.monotonic() else 0)
        sample = samples.next()
        if samples.trouble and samples.trouble != said:
            warn(samples.trouble)
        said = samples.trouble
        if sample is not None:
            with held():
                sys.stdout.write(text(sample))
                sys.stdout.flush()
            count = None if count is None else count - 1
        elif not samples.live:
            return
