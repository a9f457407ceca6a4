"""What the trace itself consists of: what to mask to make it smaller."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tracelib.analysis import codes
from tracelib.analysis.analyze import Analysis
from tracelib.analysis.forms import class_number
from tracelib.events.catalogue import event_name
from tracelib.events.classes import LEAVES
from tracelib.events.kvm import KVM_CLASSES
from tracelib.records import EVENT_MASK, record_bytes
from tracelib.units import CpuId, Tsc

_CLASSES = 12


@dataclass(slots=True)
class Amount:
    """Records and their bytes in the rings."""

    records: int = 0
    bytes: int = 0

    def add(self, records: int, size: int) -> None:
        self.records += records
        self.bytes += size


@dataclass(frozen=True, slots=True)
class Bin:
    """A piece of the span."""

    start: Tsc
    amounts: dict[str, Amount]
    """By class; those that occur."""


@dataclass(slots=True)
class Volume:
    """The section."""

    total: Amount = field(default_factory=Amount)
    events: dict[int, Amount] = field(default_factory=lambda: defaultdict(Amount))
    classes: dict[str, Amount] = field(default_factory=lambda: defaultdict(Amount))
    """By class and subclass, as `xtracectl mask` names them."""
    cpus: dict[CpuId, Amount] = field(default_factory=lambda: defaultdict(Amount))
    bins: list[Bin] = field(default_factory=list)
    bin_cycles: int = 0
    wraps: Counter[CpuId] = field(default_factory=Counter)
    unknown_events: int = 0
    """Records of events that are not in the catalogue; `events` has them by number."""
    unseen: float | None = None
    """Share of the CPUs' time in which records were lost; None if that cannot be told."""


def volume(analysis: Analysis) -> Volume:
    """The section."""
    found = Volume(bin_cycles=analysis.engine.bin_cycles)
    for cpu, header, counters in analysis.engine.volume.items():
        records = counters[codes.COUNT]
        if not records:
            continue
        event, size = header & EVENT_MASK, records * record_bytes(header)
        for amount in (
            found.total, found.events[event], found.classes[class_name(event)],
            found.cpus[CpuId(cpu)],
        ):
            amount.add(records, size)
        if event_name(event).startswith("0x"):
            found.unknown_events += records
    for number, state in analysis.engine.cpus.items():
        found.wraps[CpuId(number)] = state.wraps
    found.bins = list(_bins(analysis))
    lost = sum(
        cycles for _, who, (cycles,) in analysis.engine.states.occupied.items()
        if who == codes.CPU_LOST
    )
    whole = analysis.span * len(analysis.engine.cpus)
    known = whole and not analysis.forms.kvm
    found.unseen = lost / whole if known else None
    return found


def class_name(event: int) -> str:
    """Class and subclass, such as "sched.min"; "class 0x0004f000" for unknown ones."""
    part = event & ALL_PARTS
    return _PARTS.get(part, f"class 0x{part:08x}")


ALL_PARTS = 0x0FFFF000
_LEAVES = {**LEAVES, **KVM_CLASSES}
_PARTS = {mask: name for name, mask in _LEAVES.items()}
_NAMES = {class_number(mask): name.partition(".")[0] for name, mask in _LEAVES.items()}


def _bins(analysis: Analysis) -> list[Bin]:
    numbers = memoryview(analysis.engine.bins).tolist()
    width = 2 * _CLASSES
    found = []
    for at in range(0, len(numbers), width):
        start = analysis.first + at // width * analysis.engine.bin_cycles
        if start > analysis.last:
            break
        amounts = {
            _NAMES.get(number, f"bit {16 + number}"): Amount(*numbers[place : place + 2])
            for number in range(_CLASSES)
            if numbers[place := at + 2 * number]
        }
        found.append(Bin(Tsc(start), amounts))
    return found
