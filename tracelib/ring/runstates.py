"""Who runs where, as the drained records tell it: the state preamble of each segment.

The table is filled by fastpath.drain and fastpath.scan, record by record, and read here.
Each CPU's ring is drained on its own, so "who runs on a CPU" is as of the last record
drained from that CPU's ring, and a vCPU's state is the newest, by time stamp, of all.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tracelib.ring import fastpath, runstate_words
from tracelib.ring.runstate_words import FIRST_CPU, NOBODY, SLOT_WORDS
from tracelib.units import CpuId, DomId, Tsc, VcpuId


class VcpuState(NamedTuple):
    """One vCPU's runstate."""

    dom: DomId
    vcpu: VcpuId
    state: int
    """Xen's number: 0 running, 1 runnable, 2 blocked, 3 offline."""
    cpu: CpuId | None
    """Where it runs or ran last; None if it was never seen to run."""
    tsc: Tsc
    """Since when it is in this state, as far as seen."""


@dataclass(frozen=True, slots=True)
class RunstateSnapshot:
    """All that is known at one moment. What is unknown is left out."""

    cpus: dict[CpuId, tuple[DomId, VcpuId]]
    """The vCPU that runs on each CPU."""
    vcpus: tuple[VcpuState, ...]
    """By domain and vCPU number."""
    overflow: int
    """Records about vCPUs that the table had no room for."""


class RunstateTable:
    """Room for `max_cpus` CPUs (highest possible number plus one) and `capacity` vCPUs.

    Memory is fixed: 20 bytes for each of 2-4 slots a vCPU. A vCPU that finds no room is
    counted, not an error; what a CPU beyond `max_cpus` says is not noted.
    """

    def __init__(self, max_cpus: int, capacity: int = 8192) -> None:
        bits = max(1, (2 * capacity - 1).bit_length())
        first_slot = FIRST_CPU + max_cpus
        self.words = memoryview(array("I", bytes(4 * (first_slot + (SLOT_WORDS << bits)))))
        """Laid out by runstate_words.py; compiled code works in it."""
        self.words[runstate_words.CPUS] = max_cpus
        self.words[runstate_words.CAPACITY] = capacity
        self.words[runstate_words.SLOTS] = 1 << bits
        self.words[runstate_words.HASH_SHIFT] = 32 - bits
        self.words[runstate_words.FIRST_SLOT] = first_slot
        self.forget()

    def forget(self) -> None:
        """Know nothing any more: after a gap in the records that no lost record tells of."""
        first_slot = self.words[runstate_words.FIRST_SLOT]
        for cpu in range(FIRST_CPU, first_slot):
            self.words[cpu] = NOBODY
        empty = array("I", (NOBODY, runstate_words.UNKNOWN, NOBODY, 0, 0))
        self.words[first_slot:] = memoryview(empty * self.words[runstate_words.SLOTS])
        self.words[runstate_words.USED] = 0
        self.words[runstate_words.OVERFLOW] = 0

    def snapshot(self) -> RunstateSnapshot:
        """What is known now. Room taken by vCPUs that are gone is freed on the way."""
        running = self.words[FIRST_CPU : self.words[runstate_words.FIRST_SLOT]]
        cpus = {CpuId(cpu): _split(word) for cpu, word in enumerate(running) if word != NOBODY}
        vcpus = tuple(sorted(self._known()))
        overflow = self.words[runstate_words.OVERFLOW]
        if 2 * self.words[runstate_words.USED] > self.words[runstate_words.CAPACITY]:
            self._compact()
        return RunstateSnapshot(cpus, vcpus, overflow)

    def _slots(self) -> Iterator[list[int]]:
        first = self.words[runstate_words.FIRST_SLOT]
        for at in range(first, len(self.words), SLOT_WORDS):
            if self.words[at] != NOBODY:
                yield self.words[at : at + SLOT_WORDS].tolist()

    def _known(self) -> Iterator[VcpuState]:
        for name, state, place, low, high in self._slots():
            if state != runstate_words.UNKNOWN:
                cpu = None if place == NOBODY else CpuId(place)
                yield VcpuState(*_split(name), state, cpu, Tsc(low | high << 32))

    def _compact(self) -> None:
        """Free the slots of vCPUs in unknown state or offline, as those of a domain that is
        gone are. A paused domain's are offline too: they come back when they run again."""
        gone = (runstate_words.UNKNOWN, runstate_words.OFFLINE)
        kept = [slot for slot in self._slots() if slot[runstate_words.STATE] not in gone]
        running = self.words[FIRST_CPU : self.words[runstate_words.FIRST_SLOT]].tolist()
        self.forget()
        for cpu, vcpu in enumerate(running):
            self.words[FIRST_CPU + cpu] = vcpu
        for slot in kept:
            at = fastpath.vcpu_entry(self.words, slot[0])
            self.words[at : at + SLOT_WORDS] = memoryview(array("I", slot))


def _split(word: int) -> tuple[DomId, VcpuId]:
    return DomId(word >> 16), VcpuId(word & 0xFFFF)
