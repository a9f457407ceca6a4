"""Where records come from: one protocol, spoken by every source.

    sim     a simulated hypervisor, in a process of its own
    file    an xentrace file or a segment, replayed through the simulated hypervisor's rings

A source is blocking and short: every call returns within microseconds to milliseconds, so
the drain loop calls it directly. tests/aio/test_source_conformance.py is the contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tracelib.masks import passes
from tracelib.units import CpuId, Tsc

RUNSTATE_CHANGE = 0x00021001
"""TRC_SCHED_RUNSTATE_CHANGE, without its state bits."""


@dataclass(frozen=True, slots=True)
class HypervisorInfo:
    """What a segment's metadata has to say about the machine. Unknown is None, never a guess."""

    name: str
    """ "xen", "sim" or "file"."""
    version: str | None
    changeset: str | None
    capabilities: str | None
    cpu_vendor: str | None
    """As CPUID has it: "GenuineIntel", "AuthenticAMD"; "arm"."""
    cpu_model: str | None
    exit_family: str | None
    """ "vmx", "svm" or "arm"."""
    tsc_hz: int | None
    tsc_source: str | None
    """Where the rate came from: "physinfo", "simulated", "option", "file"."""
    boot_id: str | None
    cpus: int
    """Highest possible CPU number plus one."""


@dataclass(frozen=True, slots=True)
class Ring:
    """One CPU's ring, mapped. `words` is the whole mapping as 32-bit words:
    word 0 cons, word 1 prod, then the data (tracelib.ring.layout)."""

    cpu: CpuId
    words: memoryview
    data_bytes: int
    identity: int
    """Unsigned 64 bit; the same as long as these pages are this CPU's ring, across
    restarts of the service, and different after a reboot of the hypervisor."""


@dataclass(frozen=True, slots=True)
class Masks:
    """What is traced. `cpus` is None for all of them."""

    events: int
    cpus: frozenset[CpuId] | None

    def shows_who_runs(self, cpu: CpuId) -> bool:
        """Whether a CPU's runstate changes are traced."""
        return passes(self.events, RUNSTATE_CHANGE) and (self.cpus is None or cpu in self.cpus)


class Source(Protocol):
    """A hypervisor's trace buffers, seen from the one consumer."""

    @property
    def hypervisor(self) -> HypervisorInfo: ...

    @property
    def rings(self) -> Sequence[Ring]:
        """By CPU number; CPUs without a ring are not there."""

    @property
    def ring_pages(self) -> int:
        """The real number of pages of each ring, whatever was asked for."""

    @property
    def notifier(self) -> int:
        """A descriptor that is readable when an event waits."""

    def open(self) -> None:
        """Bind the notifier, have the rings allocated, map them. Tracing is not switched on.

        Raises SourceError naming call, errno and what to do; LockedError if another
        consumer holds the notifier. Nothing stays bound or mapped after an error.
        """

    def acknowledge(self) -> int:
        """Take the waiting events (their number) and unmask; 0 if none waits. Never blocks.
        The caller drains afterwards, since nothing is said of what came in between."""

    def set_masks(self, masks: Masks) -> None:
        """Set both masks, always both: Xen keeps what the last consumer left."""

    def masks_in_force(self) -> Masks:
        """What the hypervisor says it traces now."""

    def enable(self) -> None:
        """Switch tracing on."""

    def disable(self) -> None:
        """Switch tracing off; what is in the rings stays there. Xen forgets its count of
        losses that no lost record has reported yet."""

    def read_tsc(self) -> Tsc | None:
        """The hypervisor's time stamp now; None where that cannot be known."""

    def finished(self) -> bool:
        """True when nothing will ever come any more (the end of a replayed file)."""

    def close(self) -> None:
        """Unmap and unbind; idempotent. Does not switch tracing off."""
