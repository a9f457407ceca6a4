"""The hypervisor's side of trace control: what the sysctl and the event channel do.

No sockets here and no clock; refusals are OSError with Xen's errno.
"""

from __future__ import annotations

import errno
import os

from tracelib.ring.producer import Host, RingProducer
from tracelib.units import CpuId
from xtraced.sources.sim.abi import Fault, TbufInfo
from xtraced.sources.sim.memory import Memory

_BOGUS_PROD = 0xFFFFFFFC


class Hypervisor:
    """One machine. `rings` has a producer for every CPU that is online, ring or not.

    Xen begins to trace as soon as the rings are allocated. With `patient` it waits until it
    is asked to, since a file's records would not come again.
    """

    def __init__(self, online: list[int], cpus: int, *, patient: bool = False) -> None:
        self.online = [CpuId(cpu) for cpu in online]
        self.cpus = cpus
        self.memory = Memory()
        self.host = Host()
        self.rings = {cpu: RingProducer(self.host) for cpu in self.online}
        self.virq: int | None = None
        """The eventfd of whoever bound VIRQ_TBUF; None if nobody has."""
        self.delivered = 0
        """Events that reached it."""
        self.stuck = False
        self._patient = patient
        self._cpu_mask: frozenset[int] | None = None
        self._raised = 0
        self._mute = False

    # Trace control

    def info(self) -> TbufInfo:
        memory = self.memory
        return TbufInfo(
            self.host.event_mask, memory.t_info_bytes, memory.t_info_mfn,
            bool(self.host.enabled), memory.pages_per_ring, self._cpu_mask,
        )  # fmt: skip

    def set_size(self, pages: int) -> None:
        """Allocate the rings, once per boot. Tracing is on afterwards, as in Xen."""
        memory = self.memory
        if memory.rings:
            raise _refusal(errno.EBUSY if pages == memory.pages_per_ring else errno.EINVAL)
        if pages <= 0:
            raise _refusal(errno.EINVAL)
        memory.allocate(pages, self.online, self.cpus)
        for cpu, words in memory.rings.items():
            self.rings[cpu].attach(words)
        self.host.enabled = not self._patient

    def set_event_mask(self, mask: int) -> None:
        self.host.event_mask = mask & 0xFFFFFFFF

    def set_cpu_mask(self, cpus: frozenset[int] | None) -> None:
        self._cpu_mask = cpus
        for cpu, ring in self.rings.items():
            ring.traced = cpus is None or cpu in cpus

    def enable(self) -> None:
        if not self.memory.rings:
            raise _refusal(errno.EINVAL)
        self.host.enabled = True

    def disable(self) -> None:
        """Stop tracing; losses that no lost record has told are forgotten."""
        self.host.enabled = False
        for ring in self.rings.values():
            ring.forget_lost()

    # The event channel

    def bind_virq(self) -> int:
        """A new eventfd for VIRQ_TBUF. What was raised before is gone."""
        if self.virq is not None:
            raise _refusal(errno.EEXIST)
        self._raised = self.host.raised
        self.virq = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        return self.virq

    def release_virq(self) -> None:
        if self.virq is not None:
            os.close(self.virq)
            self.virq = None

    def deliver(self) -> None:
        """Pass on what the rings raised: one event, however many rings (Xen's tasklet)."""
        raised = self.host.raised
        if raised != self._raised and self.virq is not None and not self._mute:
            os.eventfd_write(self.virq, 1)
            self.delivered += 1
        self._raised = raised

    # Faults

    def inject(self, fault: Fault, cpu: int) -> None:
        if fault is Fault.NO_NOTIFY:
            self._mute = True
        elif fault is Fault.STUCK:
            self.stuck = True
        else:
            ring = self.memory.rings.get(CpuId(cpu))
            if ring is None:
                raise _refusal(errno.EINVAL)
            ring[1] = _BOGUS_PROD


def _refusal(number: int) -> OSError:
    return OSError(number, os.strerror(number))
