"""A timeline for ui.perfetto.dev, in the Trace Event format: JSON, an event a line.

    CPUs          a track a CPU: which vCPU ran there, and where records are missing
    d1, d2, ...   a process a domain, two tracks a vCPU: its VM exits, each until the next
                  entry, and its runstates

Times (`ts`, `dur`) are microseconds since the trace's first record, written with three
decimals from whole nanoseconds, so nothing is rounded; readers that take them for doubles
keep nanoseconds apart for 104 days. Raw time stamps are strings. A slice whose end was not
seen, mostly since records are missing, has "cut" in its `args`; what is open at the end of the
trace ends there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracelib.clock import NO_RATE_HINT, Clock
from tracelib.columns import I64, NOBODY_KNOWN, U32, Columns, Flag, Mask
from tracelib.errors import UsageError
from tracelib.events.names import RUNSTATES, name_of
from tracelib.events.values import domain_name, vcpu_name
from tracelib.export.groups import Catalogue
from tracelib.export.timebase import TimeBase
from tracelib.gaps import Gap, gap_at, gap_rows
from tracelib.losses import Loss
from tracelib.selection import Selection

BEGIN = '{"displayTimeUnit":"ns","traceEvents":[\n'
END = '{"ph":"M","pid":1,"name":"process_name","args":{"name":"CPUs"}}\n]}\n'
"""The last event has no comma behind it, so it is one that is always there."""

_CPUS = 1
"""The process whose tracks are CPUs; domain d is process d + 2."""
_CUT = {"cut": True}
_RUNSTATE_MASK, _RUNSTATE = 0x0FFFF00F, 0x00021001
_CONTINUE = 0x00021002
_ENTRIES = frozenset({0x81001, 0x81401})
_EXITS = frozenset({0x81002, 0x81102, 0x81003, 0x81103, 0x81402, 0x81502, 0x81403, 0x81503})
_RUNNING = 0
_IDLE = 0x7FFF
"""The domain of idle vCPUs, of which only the CPUs' tracks tell."""
_OTHERS = np.array([_CONTINUE, *sorted(_ENTRIES | _EXITS)], np.uint32)


class _Track(NamedTuple):
    """Where slices go: `thread` is unique in the trace."""

    process: int
    thread: int


@dataclass(slots=True)
class _Slice:
    """One that has begun."""

    name: str
    start: int
    """Nanoseconds."""
    args: dict[str, object]


class Timeline:
    """One trace in, events out."""

    def __init__(self, times: TimeBase, catalogue: Catalogue, selection: Selection) -> None:
        """Raises UsageError without a clock rate."""
        if times.clock.rate is None:
            raise UsageError("a timeline needs the clock rate", hint=NO_RATE_HINT)
        self._clock: Clock = times.clock
        self._catalogue = catalogue
        self._selection = selection
        self._tracks: dict[tuple[str, int], _Track] = {}
        self._open: dict[_Track, _Slice] = {}
        self._who: dict[int, int] = {}
        """Who runs on each CPU, as far as known."""
        self._seen: set[int] = set()
        self._last = 0
        """The latest time seen."""
        self._lines: list[str] = []

    def rows(self, batch: Columns, stated: Sequence[Loss]) -> Iterator[bytes]:
        """The events that a batch completes."""
        elapsed = self._clock.elapsed(batch.tsc)
        dated = (batch.flags & Flag.DATED) != 0
        wanted = _of_interest(batch.event) & dated | gap_rows(batch)
        self._start(batch, elapsed)
        for row in np.flatnonzero(wanted).tolist():
            event, now = int(batch.event[row]), int(elapsed[row]) if dated[row] else self._last
            if event in _EXITS:
                self._exit(batch, row, now)
            elif event in _ENTRIES:
                self._entry(int(batch.running[row]), now)
            elif _is_runstate(event):
                self._runstate(batch, row, now)
            else:
                self._loss(self._selection.clip(gap_at(batch, row, stated)), now)
        if dated.any():
            self._last = max(self._last, int(elapsed[dated].max()))
        yield self._taken()

    def end(self) -> bytes:
        """The events that were still open."""
        for track in list(self._open):
            self._close(track, self._last)
        return self._taken()

    def _taken(self) -> bytes:
        lines, self._lines = self._lines, []
        return "".join(lines).encode()

    # What happens.

    def _start(self, batch: Columns, elapsed: I64) -> None:
        """Who runs on a CPU when its first record comes, if a segment's state says so."""
        for cpu in set(np.unique(batch.cpu).tolist()) - self._seen:
            self._seen.add(cpu)
            row = int(np.argmax(batch.cpu == cpu))
            who = int(batch.running[row])
            changes = _is_runstate(int(batch.event[row]))
            if who != NOBODY_KNOWN and batch.flags[row] & Flag.DATED and not changes:
                self._comes(cpu, who, int(elapsed[row]))

    def _exit(self, batch: Columns, row: int, now: int) -> None:
        who = int(batch.running[row])
        if who == NOBODY_KNOWN:
            return
        event, extra = int(batch.event[row]), int(batch.extra[row])
        form = self._catalogue.form(event, extra)
        if form is None:
            return
        words = tuple(batch.words[batch.at[row] : batch.at[row] + extra].tolist())
        values = form.decode(words)
        reason = next(field for field in form.fields if field.name == "reason")
        address = values.get("rip", values.get("eip", 0))
        name = reason.text(values["reason"])
        nested = "nested " if form.name.startswith("nested") else ""
        self._begin(self._vcpu("exits", who), now, nested + name, {"rip": hex(address)}, cut=True)

    def _entry(self, who: int, now: int) -> None:
        if who != NOBODY_KNOWN:
            self._close(self._vcpu("exits", who), now)

    def _runstate(self, batch: Columns, row: int, now: int) -> None:
        if not batch.extra[row]:
            return
        event, who = int(batch.event[row]), int(batch.words[batch.at[row]])
        old, new = (0, 0) if event == _CONTINUE else (event >> 8 & 15, event >> 4 & 15)
        if who >> 16 != _IDLE:
            track = self._vcpu("runstates", who)
            if event != _CONTINUE or track not in self._open:
                self._begin(track, now, name_of(RUNSTATES, new), {})
        cpu = int(batch.cpu[row])
        if new == _RUNNING:
            self._comes(cpu, who, now)
        elif old == _RUNNING:
            self._who.pop(cpu, None)
            self._close(self._cpu(cpu), now)

    def _comes(self, cpu: int, who: int, now: int) -> None:
        self._begin(self._cpu(cpu), now, _name(who), {}, cut=True)
        self._who[cpu] = who

    def _loss(self, gap: Gap, now: int) -> None:
        """Who ran on that CPU may have left it meanwhile, and his exit may have ended."""
        track = self._cpu(gap.cpu)
        first = now if gap.first_tsc is None else self._elapsed(gap.first_tsc)
        who = self._who.pop(gap.cpu, None)
        self._close(track, first, cut=True)
        if who is not None and who >> 16 != _IDLE:
            for kind in ("exits", "runstates"):
                self._close(self._vcpu(kind, who), first, cut=True)
        count = "?" if gap.records is None or gap.cut else str(gap.records)
        args: dict[str, object] = {"cause": str(gap.cause), "records": count}
        if gap.first_tsc is not None:
            args["first_tsc"] = str(gap.first_tsc)
        self._event("i", track, now, name=f"LOST {count} records", s="t", args=args)

    def _elapsed(self, tsc: int) -> int:
        return int(self._clock.elapsed(np.array([tsc], np.uint64))[0])

    # Slices.

    def _begin(
        self, track: _Track, now: int, name: str, args: dict[str, object], *, cut: bool = False
    ) -> None:
        """The next slice of a track. What should have ended before, if `cut`, lacks its end."""
        self._close(track, now, cut=cut)
        self._open[track] = _Slice(name, now, args)

    def _close(self, track: _Track, now: int, *, cut: bool = False) -> None:
        slice_ = self._open.pop(track, None)
        if slice_ is None:
            return
        args = slice_.args | (_CUT if cut else {})
        length = max(now - slice_.start, 0)
        self._event("X", track, slice_.start, dur=_Micros(length), name=slice_.name, args=args)

    def _event(self, phase: str, track: _Track, now: int, **members: object) -> None:
        head = f'{{"ph":"{phase}","pid":{track.process},"tid":{track.thread},"ts":{_micros(now)}'
        if isinstance(length := members.pop("dur", None), _Micros):
            head += f',"dur":{_micros(length)}'
        self._lines.append(f"{head},{json.dumps(members, separators=(',', ':'))[1:]},\n")

    # Tracks.

    def _cpu(self, cpu: int) -> _Track:
        return self._track("cpu", cpu, _CPUS, f"CPU {cpu}")

    def _vcpu(self, kind: str, who: int) -> _Track:
        return self._track(kind, who, (who >> 16) + 2, f"{_name(who)} {kind}")

    def _track(self, kind: str, number: int, process: int, name: str) -> _Track:
        track = self._tracks.get((kind, number))
        if track is None:
            track = self._tracks[kind, number] = _Track(process, len(self._tracks) + 1)
            place = {"pid": track.process, "tid": track.thread}
            self._describe(place, "thread_name", {"name": name})
            self._describe(place, "thread_sort_index", {"sort_index": number & 0xFFFF})
            if kind != "cpu":
                self._describe(place, "process_name", {"name": domain_name(number >> 16)})
        return track

    def _describe(self, place: dict[str, int], what: str, args: dict[str, object]) -> None:
        event = {"ph": "M", **place, "name": what, "args": args}
        self._lines.append(json.dumps(event, separators=(",", ":")) + ",\n")


class _Micros(int):
    """Nanoseconds, to be written as microseconds."""


def _micros(nanoseconds: int) -> str:
    whole, rest = divmod(abs(nanoseconds), 1000)
    return f"{'-' if nanoseconds < 0 else ''}{whole}.{rest:03}"


def _is_runstate(event: int) -> bool:
    return event & _RUNSTATE_MASK == _RUNSTATE or event == _CONTINUE


def _name(who: int) -> str:
    return vcpu_name(who >> 16, who & 0xFFFF)


def _of_interest(event: U32) -> Mask:
    mask: Mask = (event & np.uint32(_RUNSTATE_MASK)) == np.uint32(_RUNSTATE)
    return mask | np.isin(event, _OTHERS)
