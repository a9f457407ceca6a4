"""What the guests did, event by event: durations and values, as columns.

An interval that the trace does not show from its beginning to its end, or in which records
were lost, is not among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from tracelib.analysis import codes
from tracelib.analysis.analyze import NEVER, Analysis
from tracelib.analysis.families import Verdict, judge
from tracelib.analysis.labels import value_text
from tracelib.analysis.results import Owner, owner_of
from tracelib.columns import I64, U64
from tracelib.events.catalogue import event_name, lookup
from tracelib.events.exits import exit_name
from tracelib.records import EVENT_MASK, EXTRA_MASK, EXTRA_SHIFT


class What(NamedTuple):
    """Something that has a distribution."""

    about: str
    """For people."""
    noted: int
    """What the engine has to note: a codes.WANT_ bit."""
    events: tuple[str, ...] = ()
    """Handlers whose exits it is, or records."""
    whole: bool = False
    """Of exits: all the time until the guest went on, also that off the CPU."""
    field: str = ""
    """Of records: what is taken of them; "" is the difference of two short time stamps."""

    @property
    def timed(self) -> bool:
        """Whether it is cycles, not any value."""
        return not self.field


_UNTIL_ENTRY = "from the exit until the guest goes on, time off the CPU included"
_COST = "time in the hypervisor, on a CPU, from the exit to the entry"

WHATS: MappingProxyType[str, What] = MappingProxyType({
    "exit": What(f"VM exits by reason: {_COST}", codes.WANT_EXITS),
    "interrupt": What(f"external interrupts by vector: {_COST}", codes.WANT_EXITS, ("intr",)),
    "io": What(
        f"I/O by port: {_UNTIL_ENTRY}", codes.WANT_EXITS,
        ("io_read", "io_write", "ioport_read", "ioport_write"), whole=True,
    ),
    "mmio": What(
        f"accesses to device memory by page: {_UNTIL_ENTRY}", codes.WANT_EXITS,
        ("iomem_read", "iomem_write"), whole=True,
    ),
    "msr": What(f"accesses to MSRs: {_COST}", codes.WANT_EXITS, ("msr_read", "msr_write")),
    "hypercall": What(
        f"hypercalls of HVM guests by name: {_UNTIL_ENTRY}", codes.WANT_EXITS, ("vmmcall",),
        whole=True,
    ),
    "wake": What("from being woken to running", codes.WANT_SPELLS),
    "wait": What("waits for a CPU, after a wake-up or having been put off", codes.WANT_SPELLS),
    "runstate": What("uninterrupted times in a runstate", codes.WANT_SPELLS),
    "halt": What("from being woken to blocking again", codes.WANT_SPELLS),
    "irq": What("Xen's handling of device interrupts", codes.WANT_RECORDS, ("irq_handled",)),
    "rdtsc": What("what guests read as time stamp", codes.WANT_RECORDS, ("rdtsc",), field="value"),
    "cr3": What("page tables switched to", codes.WANT_RECORDS, ("cr_write",), field="value"),
})
"""By the name that users give."""

_SPELLS: MappingProxyType[str, tuple[str, ...]] = MappingProxyType({
    "wake": ("woken",), "wait": ("woken", "preempted"),
    "runstate": ("ran", "woken", "preempted", "slept"),
})


@dataclass(frozen=True, slots=True)
class Points:
    """Events as columns of the same length, in the order of their ends."""

    tsc: U64
    """When it began, or was."""
    value: U64
    """Cycles, or the value."""
    vcpu: I64
    """The vCPU's index in the analysis."""
    cpu: I64
    """Where it ended."""
    label: I64
    """Index of Distribution.labels."""
    address: U64
    """Where the guest was; 0 if that is not known."""

    def __len__(self) -> int:
        return len(self.tsc)

    def take(self, rows: I64) -> Points:
        """Some of them."""
        return Points(
            self.tsc[rows], self.value[rows], self.vcpu[rows], self.cpu[rows], self.label[rows],
            self.address[rows],
        )


class Distribution:
    """Makes points of one kind out of an analysis' notes, as they come."""

    def __init__(
        self, name: str, analysis: Analysis, *, vendor: str | None = None,
        stated: str | None = None,
    ) -> None:
        """`name` is one of WHATS; `vendor` and `stated` as for `exits.exits`."""
        self.what = WHATS[name]
        self.labels: list[str] = []
        self._name = name
        self._analysis = analysis
        self._vendor = vendor
        self._stated = stated
        self._numbers: dict[str, int] = {}
        self._rows: dict[int, int] = {}
        self._awake: dict[int, tuple[int, int]] = {}

    @cached_property
    def verdict(self) -> Verdict:
        """Whose exit reasons these are, by the exits up to the first time that it is asked."""
        exits = self._analysis.engine.pairs.exits.items()
        seen = ((key & codes.SVM_EVENT, reason) for key, reason, row in exits if row[0])
        return judge(seen, vendor=self._vendor, stated=self._stated)

    def owner(self, index: int) -> Owner:
        """The vCPU of an index; "d?v?" where no record says who ran."""
        vcpu = self._analysis.engine.states.vcpus[index]
        return owner_of(vcpu, "vcpu")._replace(cpu=None)

    def points(self, notes: bytes) -> Points:
        """Those of some notes."""
        rows = np.frombuffer(notes, np.uint64).reshape(-1, codes.NOTE_COLUMNS)
        if self.what.noted == codes.WANT_SPELLS:
            rows = rows[rows[:, 0] == codes.SPELL]
            return self._halts(rows) if self._name == "halt" else self._spells(rows)
        if self.what.noted == codes.WANT_RECORDS:
            return self._records(rows[rows[:, 0] == codes.RECORD])
        tag = codes.HANDLED if self.what.events else codes.EXITED
        return self._exits(rows[rows[:, 0] == tag])

    # Exits

    def _exits(self, rows: U64) -> Points:
        label = np.empty(len(rows), np.int64)
        for row in np.unique(rows[:, 3]).tolist():
            label[rows[:, 3] == row] = self._exit_label(row)
        kept = label >= 0
        rows = rows[kept]
        value = rows[:, 5] - rows[:, 4] if self.what.whole else rows[:, 6]
        return _points(rows, value, label[kept], rows[:, 7])

    def _exit_label(self, row: int) -> int:
        """The number of the label for a row of exits or of handlers; -1 if it is not wanted."""
        if row not in self._rows:
            text = self._handler(row) if self.what.events else self._reason(row)
            self._rows[row] = -1 if text is None else self._number(text)
        return self._rows[row]

    def _reason(self, row: int) -> str:
        if row == codes.OTHERS:
            return "other"
        key, reason = self._analysis.engine.pairs.exits.keys(row)
        family = "svm" if key & codes.SVM_EVENT else self.verdict.family
        return exit_name(family, reason) + (" (nested)" if key & codes.NESTED else "")

    def _handler(self, row: int) -> str | None:
        if row == codes.OTHERS:
            return "other"
        key, value = self._analysis.engine.pairs.tallies.keys(row)
        event = self._analysis.forms.kinds[key & 0xFFFFFFFF].event
        if event not in self.what.events:
            return None
        return f"{event} {value_text(event, None if value == NEVER else value)}".rstrip()

    def _number(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.labels))
        if number == len(self.labels):
            self.labels.append(text)
        return number

    # Runstates

    def _spells(self, rows: U64) -> Points:
        before, old = rows[:, 3] >> np.uint64(8), rows[:, 3] >> np.uint64(4) & np.uint64(15)
        label = np.full(len(rows), -1, np.int64)
        for name in _SPELLS[self._name]:
            chosen = {
                "ran": old == codes.RUNNING,
                "slept": old == codes.BLOCKED,
                "woken": (old == codes.RUNNABLE) & (before != codes.RUNNING),
                "preempted": (old == codes.RUNNABLE) & (before == codes.RUNNING),
            }[name]
            label[chosen] = self._number(name)
        rows, label = rows[label >= 0], label[label >= 0]
        return _points(rows, rows[:, 5] - rows[:, 4], label)

    def _halts(self, rows: U64) -> Points:
        """Spells on end, from the end of one blocked to the beginning of the next."""
        found = list(self._awake_times(rows))
        chosen = rows[np.array([place for place, _ in found], np.int64)].copy()
        chosen[:, 4] = [woken for _, woken in found]
        label = np.full(len(chosen), self._number("awake"), np.int64)
        return _points(chosen, chosen[:, 5] - chosen[:, 4], label)

    def _awake_times(self, rows: U64) -> Iterator[tuple[int, int]]:
        """Rows at whose end a vCPU blocked, and when it had been woken."""
        columns = (rows[:, column].tolist() for column in (1, 3, 4, 5))
        for place, (vcpu, states, since, until) in enumerate(zip(*columns, strict=True)):
            old, new = states >> 4 & 15, states & 15
            woken, reached = self._awake.pop(vcpu, (0, -1))
            if old == codes.BLOCKED:
                self._awake[vcpu] = until, until
            elif reached == since:
                if new == codes.BLOCKED:
                    yield place, woken
                else:
                    self._awake[vcpu] = woken, until

    # Records

    def _records(self, rows: U64) -> Points:
        parts = [
            self._of_form(rows[rows[:, 3] == header], header)
            for header in np.unique(rows[:, 3]).tolist()
            if event_name(header & EVENT_MASK) in self.what.events
        ]
        return _joined([part for part in parts if part is not None])

    def _of_form(self, rows: U64, header: int) -> Points | None:
        event, extra = header & EVENT_MASK, header >> EXTRA_SHIFT & EXTRA_MASK
        form = lookup(event, extra)
        if form is None:
            return None
        words = np.ascontiguousarray(rows[:, 5:]).view(np.uint32).astype(np.uint64)
        fields = {field.name: field for field in form.fields}
        if self._name == "irq":
            value = words[:, 2] - words[:, 1] & np.uint64(0xFFFFFFFF)
            names = [f"irq {number}" for number in words[:, 0].tolist()]
            return _points(rows, value, np.array(list(map(self._number, names)), np.int64))
        if self._name == "cr3":
            chosen = words[:, 0] == 3
            rows, words = rows[chosen], words[chosen]
        field = fields[self.what.field]
        value = words[:, field.word]
        if field.width > 32:
            value = value | words[:, field.word + 1] << np.uint64(32)
        return _points(rows, value, np.full(len(rows), self._number(self._name), np.int64))


def _points(rows: U64, value: U64, label: I64, address: U64 | None = None) -> Points:
    return Points(
        rows[:, 4], value, rows[:, 1].astype(np.int64), rows[:, 2].astype(np.int64), label,
        np.zeros(len(rows), np.uint64) if address is None else address,
    )


def _joined(parts: list[Points]) -> Points:
    """In the order of their time stamps."""
    if not parts:
        return _points(np.empty((0, codes.NOTE_COLUMNS), np.uint64), _NONE, _NONE.view(np.int64))
    whole = Points(*(
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("tsc", "value", "vcpu", "cpu", "label", "address")
    ))
    return whole.take(np.argsort(whole.tsc, kind="stable"))


_NONE: U64 = np.empty(0, np.uint64)
