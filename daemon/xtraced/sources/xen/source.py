"""This host's hypervisor as a source."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Sequence
from contextlib import suppress

from tracelib.errors import SourceError
from tracelib.ring import cycles
from tracelib.ring.layout import PAGE_BYTES, RingPages, data_bytes, parse_t_info
from tracelib.units import CpuId, Tsc
from xtraced.sources import HypervisorInfo, Masks, Ring
from xtraced.sources.xen import libraries
from xtraced.sources.xen.events import EventChannel
from xtraced.sources.xen.host import Host, read_host
from xtraced.sources.xen.hypercalls import Hypercalls, PhysInfo, TbufInfo, XenVersion
from xtraced.sources.xen.memory import ForeignMemory
from xtraced.sources.xen.refusals import refused

_MAX_T_INFO_BYTES = 1 << 20
"""Its offsets are 16 bits of 32-bit words, and as many mfns follow the last at most."""


class XenSource:
    """Xen's rings. A `Source`; see there for the methods.

    tracelib.ring.fastpath drains them in the order that xen/common/trace.c relies on and
    tools/xentrace/xentrace.c keeps (xen_rmb, xen_mb): read prod, then the records; copy the
    records, then publish cons. x86 keeps loads in order, and stores behind the loads before
    them, so there the two barriers only hold the compiler; arm64 needs the instructions.
    tracelib.ring.shared has both.
    """

    def __init__(self, *, pages: int, host: Host | None = None) -> None:
        """`pages` is the ring size to ask for; `host` is for tests."""
        self._wanted_pages = pages
        self._host = host or read_host()
        self._hypercalls: Hypercalls | None = None
        self._memory: ForeignMemory | None = None
        self._events: EventChannel | None = None
        self._info: HypervisorInfo | None = None
        self._rings: list[Ring] = []
        self._traced_cpus: frozenset[CpuId] | None = None

    @property
    def hypervisor(self) -> HypervisorInfo:
        assert self._info is not None, "not open"
        return self._info

    @property
    def rings(self) -> Sequence[Ring]:
        return self._rings

    @property
    def ring_pages(self) -> int:
        return self._rings[0].words.nbytes // PAGE_BYTES if self._rings else 0

    @property
    def notifier(self) -> int:
        return -1 if self._events is None else self._events.fd

    # Opening

    def open(self) -> None:
        loaded = libraries.load()
        try:
            # Before any sysctl: a second consumer then changes nothing.
            self._events = EventChannel(loaded.events)
            self._hypercalls = Hypercalls(loaded.call)
            physinfo = self._hypercalls.physinfo()
            self._info = describe(physinfo, self._hypercalls.xen_version(), self._host)
            self._memory = ForeignMemory(loaded.memory)
            for pages in self._ring_pages(self._allocate()):
                self._rings.append(self._map_ring(pages))
        except BaseException:
            self.close()
            raise

    def _allocate(self) -> TbufInfo:
        """Have the rings made, unless they are there: then they keep their size."""
        info = self._calls.tbuf_info()
        if info.buffer_mfn:
            return info
        # Xen switches tracing on together with the allocation; nothing must come of it.
        self._calls.set_event_mask(0)
        try:
            self._set_size()
        finally:
            self._calls.set_event_mask(info.evt_mask)
        return self._calls.tbuf_info()

    def _set_size(self) -> None:
        try:
            self._calls.set_size(self._wanted_pages)
        except SourceError as error:
            # Somebody else may just have been faster.
            if not self._calls.tbuf_info().buffer_mfn:
                raise self._allocation_refused(error) from error
        else:
            self._calls.disable()

    def _allocation_refused(self, error: SourceError) -> SourceError:
        if error.errno not in (errno.EINVAL, errno.ENOMEM):
            return error
        return refused(
            f"sysctl tbuf_op set_size({self._wanted_pages} pages for each of "
            f"{self.hypervisor.cpus} CPUs)", error.errno,
            "Xen has not so much memory to give: ask for smaller rings (source.pages), or have "
            "them made at boot (tbuf_size= on Xen's command line)",
        )  # fmt: skip

    def _ring_pages(self, info: TbufInfo) -> list[RingPages]:
        """Which pages the rings are, by t_info."""
        if not info.buffer_mfn or not 0 < info.size <= _MAX_T_INFO_BYTES:
            raise SourceError(
                f"sysctl tbuf_op get_info: t_info of {info.size} bytes at page "
                f"{info.buffer_mfn:#x} cannot be"
            )
        pages = -(-info.size // PAGE_BYTES)
        mfns = range(info.buffer_mfn, info.buffer_mfn + pages)
        with self._foreign.map(mfns, "t_info", writable=False) as mapped:
            # A copy: the pages are shared, and an error's traceback would keep them mapped.
            t_info = bytes(mapped[: info.size])
        return parse_t_info(t_info, self.hypervisor.cpus)

    def _map_ring(self, pages: RingPages) -> Ring:
        mapped = self._foreign.map(pages.mfns, f"CPU {pages.cpu}'s ring", writable=True)
        name = f"{self._host.boot_id}/{pages.cpu}/{pages.mfns[0]}".encode()
        identity = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little")
        return Ring(pages.cpu, mapped.cast("I"), data_bytes(len(pages.mfns)), identity)

    def close(self) -> None:
        # Whoever still looks into a ring keeps its mapping alive until he lets go.
        for ring in self._rings:
            with suppress(BufferError):
                ring.words.release()
        self._rings = []
        for held in (self._events, self._memory, self._hypercalls):
            if held is not None:
                held.close()
        self._events = self._memory = self._hypercalls = None

    # While it is open

    def acknowledge(self) -> int:
        assert self._events is not None, "not open"
        return self._events.acknowledge()

    def set_masks(self, masks: Masks) -> None:
        possible = self.hypervisor.cpus
        cpus = masks.cpus
        if cpus is not None:
            cpus = frozenset(cpu for cpu in cpus if cpu < possible)
        bits = (1 << possible) - 1 if cpus is None else sum(1 << cpu for cpu in cpus)
        self._calls.set_event_mask(masks.events)
        self._calls.set_cpu_mask(bits, possible)
        self._traced_cpus = cpus

    def masks_in_force(self) -> Masks:
        """Xen tells its event mask only; the CPU mask is what it took from us last."""
        return Masks(self._calls.tbuf_info().evt_mask, self._traced_cpus)

    def enable(self) -> None:
        self._calls.enable()

    def disable(self) -> None:
        self._calls.disable()

    def read_tsc(self) -> Tsc | None:
        if not self._host.shares_xens_tsc:
            return None
        tsc = cycles.read_tsc()
        return None if tsc is None else Tsc(tsc)

    def finished(self) -> bool:
        return False

    @property
    def _calls(self) -> Hypercalls:
        assert self._hypercalls is not None, "not open"
        return self._hypercalls

    @property
    def _foreign(self) -> ForeignMemory:
        assert self._memory is not None, "not open"
        return self._memory


def describe(physinfo: PhysInfo, version: XenVersion, host: Host) -> HypervisorInfo:
    """What the metadata says. Exits have a family where there can be any: on a host whose
    capabilities name hvm, or that does not tell them; Arm's guests all exit."""
    capabilities = version.capabilities
    hardware_guests = capabilities is None or "hvm-" in capabilities or host.cpu_vendor == "arm"
    return HypervisorInfo(
        name="xen",
        version=version.version,
        changeset=version.changeset,
        capabilities=capabilities,
        cpu_vendor=host.cpu_vendor,
        cpu_model=host.cpu_model,
        exit_family=host.exit_family if hardware_guests else None,
        tsc_hz=physinfo.cpu_khz * 1000 or None,
        tsc_source="physinfo" if physinfo.cpu_khz else None,
        boot_id=host.boot_id,
        cpus=physinfo.max_cpu_id + 1,
    )
