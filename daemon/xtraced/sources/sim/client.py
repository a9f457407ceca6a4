"""The simulated hypervisor as a source: starts one, or attaches to one that runs."""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import select
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from tracelib.errors import LockedError, SourceError
from tracelib.ring.layout import PAGE_BYTES, RingPages, data_bytes, parse_t_info
from tracelib.units import CpuId, Nanoseconds, Tsc
from xtraced.sources import HypervisorInfo, Masks, Ring
from xtraced.sources.sim import abi
from xtraced.sources.sim.abi import Op
from xtraced.sources.sim.connection import Connection, Reply
from xtraced.sources.sim.options import SimOptions


class SimSource:
    """The simulated hypervisor's rings. A `Source`; see there for the methods."""

    def __init__(
        self, options: SimOptions, *, pages: int,
        on_end: Callable[[abi.Wrong], None] | None = None,
    ) -> None:
        """`pages` is the ring size to ask for. With `options.socket` it attaches to the
        hypervisor there, which has options of its own; without, it starts one. `on_end` is
        told what was wrong when it has finished, or is closed before that."""
        self._on_end = on_end
        self._options = options
        self._wanted_pages = pages
        self._connection: Connection | None = None
        self._info: HypervisorInfo | None = None
        self._rings: list[Ring] = []
        self._event = -1
        self._notifier: select.epoll | None = None
        """Readable for an event, and for the hypervisor's end, which nothing else tells."""
        self._shared: memoryview | None = None

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
        return -1 if self._notifier is None else self._notifier.fileno()

    @property
    def pid(self) -> int | None:
        """The process that we started; None if there is none."""
        process = None if self._connection is None else self._connection.process
        return None if process is None else process.pid

    def open(self) -> None:
        socket_path = self._options.socket
        if socket_path is not None:
            self._connection = Connection.to(socket_path)
        else:
            self._connection = Connection.spawn(self._options)
        try:
            self._bind()
            self._info = self._ask_physinfo()
            self._allocate()
            self._map()
        except BaseException:
            self.close()
            raise

    def _bind(self) -> None:
        # Before anything else: a second consumer then changes nothing.
        try:
            (self._event,) = self._ask(Op.BIND_VIRQ).fds
        except SourceError as error:
            if error.errno != errno.EEXIST:
                raise
            raise LockedError(
                "VIRQ_TBUF is bound already: somebody else consumes the trace buffers",
                errno=error.errno, hint="only one of xtraced and xentrace can run",
            ) from error  # fmt: skip
        self._notifier = select.epoll()
        self._notifier.register(self._event, select.EPOLLIN)
        self._notifier.register(self._connected, select.EPOLLRDHUP)

    def _ask_physinfo(self) -> HypervisorInfo:
        try:
            physinfo = abi.PhysInfo.decode(self._ask(Op.PHYSINFO).payload)
        except (struct.error, ValueError) as exc:
            raise SourceError(f"physinfo: the simulated hypervisor {exc}") from exc
        return HypervisorInfo(
            name=physinfo.name,
            version=physinfo.version or None,
            changeset=None,
            capabilities=physinfo.capabilities or None,
            cpu_vendor=physinfo.cpu_vendor or None,
            cpu_model=physinfo.cpu_model or None,
            exit_family=physinfo.exit_family or None,
            tsc_hz=physinfo.tsc_hz or None,
            tsc_source=physinfo.tsc_source or None,
            boot_id=physinfo.boot_id or None,
            cpus=physinfo.max_cpu_id + 1,
        )

    def _allocate(self) -> None:
        """Have the rings made, unless they are there: then they keep their size."""
        info = self._tbuf_info()
        if info.buffer_mfn == 0:
            # Xen switches tracing on together with the allocation; nothing must come of it.
            self._ask(Op.SET_EVT_MASK, 0)
            try:
                self._ask(Op.SET_SIZE, self._wanted_pages)
                self.disable()
            finally:
                self._ask(Op.SET_EVT_MASK, info.evt_mask)

    def _map(self) -> None:
        reply = self._ask(Op.MAP)
        (memfd,) = reply.fds
        try:
            info = self._tbuf_info()
            self._shared = _mapped(memfd, 0, PAGE_BYTES)
            t_info = _mapped(memfd, info.buffer_mfn, info.size)
            for pages in parse_t_info(t_info, self.hypervisor.cpus):
                self._rings.append(self._map_ring(memfd, pages))
        finally:
            os.close(memfd)

    def _map_ring(self, memfd: int, pages: RingPages) -> Ring:
        first, count = pages.mfns[0], len(pages.mfns)
        if pages.mfns != tuple(range(first, first + count)):
            raise SourceError(f"CPU {pages.cpu}'s ring is scattered over the simulated memory")
        words = _mapped(memfd, first, count * PAGE_BYTES).cast("I")
        name = f"{self.hypervisor.boot_id}/{pages.cpu}/{first}".encode()
        identity = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little")
        return Ring(pages.cpu, words, data_bytes(count), identity)

    def acknowledge(self) -> int:
        try:
            return os.eventfd_read(self._event)
        except BlockingIOError:
            self._check_alive()
            return 0

    def set_masks(self, masks: Masks) -> None:
        self._ask(Op.SET_EVT_MASK, masks.events)
        self._ask(Op.SET_CPU_MASK, payload=abi.encode_bitmap(masks.cpus))

    def masks_in_force(self) -> Masks:
        info = self._tbuf_info()
        cpus = info.cpus
        return Masks(info.evt_mask, None if cpus is None else frozenset(map(CpuId, cpus)))

    def enable(self) -> None:
        self._ask(Op.ENABLE)

    def disable(self) -> None:
        self._ask(Op.DISABLE)

    def read_tsc(self) -> Tsc | None:
        shared = self._read_shared()
        # Pages of a hypervisor that is gone stay mapped; its clock would seem to go on.
        if shared.tsc_hz == 0 or self._connected.gone:
            return None
        return Tsc(shared.tsc_at(Nanoseconds(time.monotonic_ns())))

    def finished(self) -> bool:
        if not self._read_shared().finished:
            self._check_alive()
            return False
        if any(ring.words[0] != ring.words[1] for ring in self._rings):
            return False
        self._tell_end()
        return True

    def _tell_end(self) -> None:
        """Once. Raises SourceError if the hypervisor cannot tell any more."""
        told, self._on_end = self._on_end, None
        if told is not None:
            told(self._ask_wrong())

    def _ask_wrong(self) -> abi.Wrong:
        try:
            return abi.Wrong.decode(self._ask(Op.WRONG).payload)
        except (ValueError, TypeError) as exc:
            raise SourceError(f"wrong: the simulated hypervisor makes no sense: {exc}") from exc

    def close(self) -> None:
        if self._rings and not self._connected.behind:
            with suppress(SourceError):
                self._tell_end()
        if self._notifier is not None:
            self._notifier.close()
            self._notifier = None
        if self._event >= 0:
            os.close(self._event)
            self._event = -1
        # Whoever still looks into a ring keeps its mapping alive until he lets go.
        for ring in self._rings:
            with suppress(BufferError):
                ring.words.release()
        self._rings = []
        self._shared = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, op: Op, value: int = 0) -> Reply:
        """A request that other hypervisors do not know: TRUTH, FAULT, SHUTDOWN."""
        return self._ask(op, value)

    @property
    def _connected(self) -> Connection:
        assert self._connection is not None, "not open"
        return self._connection

    def _ask(self, op: Op, value: int = 0, payload: bytes = b"") -> Reply:
        return self._connected.ask(op, value, payload)

    def _check_alive(self) -> None:
        """Raises SourceError if no record can come any more, since nobody is there."""
        if self._connected.gone:
            raise self._connected.gone_error()

    def _tbuf_info(self) -> abi.TbufInfo:
        return abi.TbufInfo.decode(self._ask(Op.GET_INFO).payload)

    def _read_shared(self) -> abi.Shared:
        assert self._shared is not None, "not open"
        return abi.Shared.read(self._shared)


def _mapped(memfd: int, first: int, size: int) -> memoryview:
    try:
        return memoryview(mmap.mmap(memfd, size, offset=first * PAGE_BYTES))
    except (OSError, ValueError) as exc:
        raise SourceError(f"cannot map {size} bytes at page {first}: {exc}") from exc
