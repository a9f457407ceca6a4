"""Points drawn over time, with a library that is asked for only here."""

from __future__ import annotations

import importlib.util
from collections import Counter
from io import BytesIO
from pathlib import PurePath
from typing import Any

import numpy as np

from tracelib.analysis.distributions import Points
from tracelib.columns import I64, U64
from tracelib.errors import UsageError
from xtracectl.answers.distributing import Part

MAX_POINTS = 50_000
"""At least half as many are drawn if there are more; never more."""

_SUFFIXES = (".png", ".svg")
_COLOURED = 8
"""So many groups have a colour of their own: matplotlib's have ten."""
_DOTS_PER_INCH = 150


def check(path: str) -> None:
    """Raises UsageError if nothing can be drawn there, before anything is read."""
    if PurePath(path).suffix.lower() not in _SUFFIXES:
        raise UsageError(f"{path!r}: a plot is a .png or an .svg file")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(
            "--plot needs matplotlib, which is not installed",
            hint="pip install 'xtraced[plot]', or python3-matplotlib; "
            "--format csv has the points for other tools",
        )


class Sample:
    """Every point, or every second, fourth, ... one of a part, in order, so that they are not
    too many."""

    def __init__(self) -> None:
        self.step = 1
        """One of so many points is kept."""
        self._kept: list[Points] = []
        self._number = 0
        self._skip = 0

    def add(self, points: Points) -> None:
        """More points, in order."""
        rows = np.arange(self._skip, len(points), self.step, dtype=np.int64)
        self._skip = (self._skip - len(points)) % self.step
        self._keep(points.take(rows))
        while self._number > MAX_POINTS:
            self._thin_out()

    def _keep(self, points: Points) -> None:
        if len(points):
            self._kept.append(points)
            self._number += len(points)

    def _thin_out(self) -> None:
        """Keep every second of those that are kept."""
        kept, self._kept = self._kept, []
        # The next that would have been kept is dropped if it is an odd one.
        if self._number % 2:
            self._skip += self.step
        self.step *= 2
        self._number = 0
        odd = 0
        for points in kept:
            self._keep(points.take(np.arange(odd, len(points), 2, dtype=np.int64)))
            odd = (odd - len(points)) % 2

    @property
    def tsc(self) -> U64:
        return np.asarray(self._column("tsc"), np.uint64)

    @property
    def value(self) -> U64:
        return np.asarray(self._column("value"), np.uint64)

    @property
    def label(self) -> I64:
        return np.asarray(self._column("label"), np.int64)

    def _column(self, name: str) -> Any:
        arrays = [getattr(points, name) for points in self._kept]
        return np.concatenate(arrays) if arrays else np.empty(0, np.uint64)


def draw(part: Part, sample: Sample, suffix: str) -> bytes:
    """A picture: a dot for each point by time and value. The same points give the same one."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "xtracectl", "svg.fonttype": "none"}):
        figure = Figure(figsize=(11, 6), dpi=_DOTS_PER_INCH, layout="constrained")
        axes = figure.add_subplot()
        _scatter(axes, part, sample)
        _label(axes, part, sample)
        out = BytesIO()
        kind = suffix.lower().removeprefix(".")
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(out, format=kind, metadata=metadata)
    return out.getvalue()


def _scatter(axes: Any, part: Part, sample: Sample) -> None:
    rate = part.clock.rate
    times = part.clock.elapsed(sample.tsc) / 1e9 if rate is not None else (
        (sample.tsc - np.uint64(part.clock.start)).astype(np.float64)
    )  # fmt: skip
    values = sample.value.astype(np.float64)
    if part.what.timed and rate is not None:
        values = values / rate.hz
    labels = sample.label
    common = [label for label, _ in Counter(labels.tolist()).most_common(_COLOURED)]
    rest = ~np.isin(labels, common)
    if rest.any():
        axes.scatter(times[rest], values[rest], s=4, c="0.6", linewidths=0, label="others")
    for label in common:
        rows = labels == label
        name = part.distribution.labels[label]
        axes.scatter(times[rows], values[rows], s=4, linewidths=0, label=name)


def _label(axes: Any, part: Part, sample: Sample) -> None:
    rate = part.clock.rate
    drawn = "all of" if sample.step == 1 else f"one in {sample.step} of"
    axes.set_title(
        f"{part.info.name}: {part.what.about}\n{drawn} {part.points:,} points", fontsize=9
    )
    axes.set_xlabel("cycles" if rate is None else "seconds since the first record")
    if part.what.timed:
        axes.set_yscale("symlog" if not sample.value.all() else "log")
        axes.set_ylabel("cycles" if rate is None else "seconds")
    else:
        axes.set_ylabel("value")
    if len(sample.value):
        axes.legend(fontsize=8, markerscale=3, loc="upper left", bbox_to_anchor=(1, 1))
