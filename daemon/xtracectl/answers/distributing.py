"""What `distribution` finds in an input: points as they come, and their spreads by group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from tracelib.analysis import codes
from tracelib.analysis.analyze import Analyzer
from tracelib.analysis.distributions import WHATS, Distribution, Points, What
from tracelib.analysis.families import Verdict
from tracelib.analysis.results import guests, unseen_share
from tracelib.batches import first_tsc
from tracelib.chunks import Problem, TraceInfo, TraceReader
from tracelib.clock import Clock, find_rate
from tracelib.columns import I64, U64
from tracelib.reading import parts
from tracelib.symbols import SymbolBook
from tracelib.units import Tsc
from xtracectl.answers.spreading import Group, Values
from xtracectl.answers.summarizing import Progress, Request, forms
from xtracectl.stopping import Stopped

MAX_GROUPS = 1024
"""So many groups are told apart; what comes later is one more."""

OTHERS = "(others)"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for."""

    what: str
    """One of WHATS."""
    request: Request
    """Of its members, those that choose what is counted."""
    only: str | None = None
    """A label, or a word of one."""
    by: str = "what"
    """ "what", "vcpu", "domain" or "address"."""
    book: SymbolBook | None = None


@dataclass(slots=True)
class Part:
    """One boot of the hypervisor in an input. What counts is complete when all is read."""

    what: What
    info: TraceInfo
    boot: tuple[int, int]
    clock: Clock
    distribution: Distribution
    groups: dict[str, Group | Values] = field(default_factory=dict)
    points: int = 0
    unseen: float | None = None
    """Share of the vCPUs' time that was lost or unknown."""
    problems: list[Problem] = field(default_factory=list)
    stopped: Stopped | None = None
    """Only what was read until somebody asked to end."""

    @property
    def verdict(self) -> Verdict | None:
        """Whose exit reasons the labels are, if they are exit reasons."""
        of_exits = self.what.noted == codes.WANT_EXITS and not self.what.events
        return self.distribution.verdict if of_exits and self.points else None


Take = Callable[[Part, Points], None]
"""Is given points; those of one call are of one part and in order."""


def distribute(path: str, wish: Wish, take: Take, progress: Progress) -> Iterator[Part]:
    """Read an input; a part when it is through. Raises StoreError, FormatError, UsageError,
    and what `take` does. A signal that asks to end ends a part early, the last one then."""
    found = parts(path)
    for place, part in enumerate(found, start=1):
        with closing(part()) as reader:
            result = _Reading(reader, (place, len(found)), wish, take).run(progress)
        yield result
        if result.stopped is not None:
            return


class _Reading:
    """One part being read."""

    def __init__(
        self, reader: TraceReader, boot: tuple[int, int], wish: Wish, take: Take
    ) -> None:
        request, info = wish.request, reader.info
        clock = Clock(first_tsc(reader) or Tsc(0), find_rate(info, request.cpu_hz), info.anchors)
        what = WHATS[wish.what]
        self._reader = reader
        self._wish = wish
        self._take = take
        self._analyzer = Analyzer(
            reader, clock, forms(request, info),
            since=None if request.since is None else request.since.resolve(clock),
            until=None if request.until is None else request.until.resolve(clock),
            noted=what.noted, take_notes=self._notes,
        )
        distribution = Distribution(
            wish.what, self._analyzer.analysis, vendor=request.vendor,
            stated=info.exit_family or info.cpu_vendor,
        )
        self.part = Part(what, info, boot, clock, distribution)
        self._wanted: dict[int, bool] = {}
        self._names: dict[tuple[int, int], str] = {}

    def run(self, progress: Progress) -> Part:
        part = self.part
        try:
            self._analyzer.run(progress)
        except Stopped as signal:
            part.stopped = signal
        part.unseen = unseen_share(guests(self._analyzer.analysis, self._wish.request.domain))
        part.problems = list(self._reader.problems)
        return part

    def _notes(self, notes: bytes) -> None:
        points = self._chosen(self.part.distribution.points(notes))
        if len(points):
            self.part.points += len(points)
            self._take(self.part, points)
            self._group(points)

    def _chosen(self, points: Points) -> Points:
        """Those that --domain and --only leave."""
        distribution, wish = self.part.distribution, self._wish
        rows = np.ones(len(points), bool)
        if wish.request.domain is not None:
            for vcpu in np.unique(points.vcpu).tolist():
                if distribution.owner(vcpu).domain != wish.request.domain:
                    rows &= points.vcpu != vcpu
        if wish.only is not None:
            for label in np.unique(points.label).tolist():
                if not _is(distribution.labels[label], wish.only):
                    rows &= points.label != label
        return points.take(np.flatnonzero(rows))

    def _group(self, points: Points) -> None:
        keys, rows = np.unique(self._keys(points), axis=0, return_inverse=True)
        values = _split(points.value, rows.reshape(-1), len(keys))
        for (first, second), some in zip(keys.tolist(), values, strict=True):
            name = self._name(first, second)
            groups = self.part.groups
            if name not in groups and len(groups) >= MAX_GROUPS:
                name = OTHERS
            if name not in groups:
                made = Group(self.part.clock.rate) if self.part.what.timed else Values()
                groups[name] = made
            groups[name].add(some)

    def _keys(self, points: Points) -> U64:
        """Two numbers for each point that decide about its group."""
        keys = np.zeros((len(points), 2), np.uint64)
        if self._wish.by == "what":
            keys[:, 0] = points.label.astype(np.uint64)
        else:
            keys[:, 0] = points.vcpu.astype(np.uint64)
        if self._wish.by == "address":
            keys[:, 1] = points.address
        return keys

    def _name(self, first: int, second: int) -> str:
        if self._wish.by == "what":
            return self.part.distribution.labels[first]
        owner = self.part.distribution.owner(first)
        if self._wish.by == "vcpu":
            return owner.name
        domain = owner._replace(vcpu=None)
        if self._wish.by == "domain":
            return domain.name
        return f"{domain.name} {address_text(self._wish.book, owner.domain, second)}"


def address_text(book: SymbolBook | None, domain: int | None, address: int) -> str:
    """An address, and its name if it has one."""
    name = None if book is None else book.lookup(domain, address)
    return f"{address:#x}" + (f" {name}" if name else "")


def _is(label: str, only: str) -> bool:
    """Whether a label, or a word of it, is meant: "port=0x3f8" is also "0x3f8"."""
    words = {word.lower() for word in (label, *label.split(), *label.replace("=", " ").split())}
    return only.lower() in words


def _split(values: U64, groups: I64, number: int) -> list[U64]:
    """The values of each group."""
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups, minlength=number))[:-1]
    return np.split(values[order], ends)


def ranked(groups: dict[str, Group | Values]) -> list[tuple[str, Group | Values]]:
    """The groups with the largest sums, or most points, first."""
    return sorted(groups.items(), key=lambda item: (-item[1].weight, item[0]))
