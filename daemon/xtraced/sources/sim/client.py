"""The simulated hypervisor as a source: starts one, or attaches to one that runs."""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tracelib.errors import LockedError, SourceError
from tracelib.ring.layout import PAGE_BYTES, RingPages, data_bytes, parse_t_info
from tracelib.units import CpuId, Nanoseconds, Tsc
from xtraced.sources import HypervisorInfo, Masks, Ring
from xtraced.sources.sim import abi
from xtraced.sources.sim.abi import Op
from xtraced.sources.sim.options import SimOptions, argv

_ANSWER_TIMEOUT = 10.0
"""Seconds; an answer takes a tick, a start a fraction of a second."""


class Reply(NamedTuple):
    value: int
    payload: bytes
    fds: list[int]


class Connection:
    """One connection to a hypervisor: a request, its reply."""

    def __init__(self, peer: socket.socket, name: str) -> None:
        self._peer = peer
        self._name = name
        self.process: subprocess.Popen[bytes] | None = None
        """The hypervisor, if we started it."""
        peer.settimeout(_ANSWER_TIMEOUT)

    @classmethod
    def to(cls, path: Path) -> Connection:
        """Attach to the hypervisor that listens at `path`. Raises SourceError."""
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            peer.connect(str(path))
        except OSError as exc:
            peer.close()
            raise SourceError(
                f"no simulated hypervisor at {path}: {exc.strerror or exc}", errno=exc.errno,
                hint=f"start one: python -m xtraced.sources.sim --socket {path}",
            ) from exc  # fmt: skip
        return cls(peer, str(path))

    @classmethod
    def spawn(cls, options: SimOptions) -> Connection:
        """Start a hypervisor that ends with this connection. Raises SourceError.

        It has a session of its own, so a terminal's interrupt reaches the service only.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [
            sys.executable, "-m", "xtraced.sources.sim",
            f"--connection={theirs.fileno()}", *argv(options),
        ]  # fmt: skip
        with theirs:
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()], start_new_session=True,
                )  # fmt: skip
            except OSError as exc:
                ours.close()
                raise SourceError(
                    f"cannot start the simulated hypervisor: {exc.strerror}", errno=exc.errno
                ) from exc
        connection = cls(ours, "the simulated hypervisor")
        connection.process = process
        return connection

    def ask(self, op: Op, value: int = 0, payload: bytes = b"") -> Reply:
        """Raises SourceError with the hypervisor's errno, or because it does not answer."""
        try:
            self._peer.send(abi.HEADER.pack(op, 0, value) + payload)
            packet, fds, _, _ = socket.recv_fds(self._peer, abi.PACKET_BYTES, 1)
        except OSError as exc:
            raise SourceError(
                f"{op.name.lower()}: {self._name} does not answer: {exc.strerror or exc}",
                errno=exc.errno,
            ) from exc
        if len(packet) < abi.HEADER.size:
            raise SourceError(f"{op.name.lower()}: {self._name} has gone", errno=errno.EPIPE)
        _, error, value = abi.HEADER.unpack_from(packet)
        if error:
            reason = packet[abi.HEADER.size :].decode()
            raise SourceError(reason or f"{op.name.lower()}: {os.strerror(error)}", errno=error)
        return Reply(value, packet[abi.HEADER.size :], fds)

    def close(self) -> None:
        """A hypervisor that we started ends now; its truth file is written then."""
        self._peer.close()
        if self.process is not None:
            self.process.wait()
            self.process = None


class SimSource:
    """The simulated hypervisor's rings. A `Source`; see there for the methods."""

    def __init__(self, options: SimOptions, *, pages: int) -> None:
        """`pages` is the ring size to ask for. With `options.socket` it attaches to the
        hypervisor there, which has options of its own; without, it starts one."""
        self._options = options
        self._wanted_pages = pages
        self._connection: Connection | None = None
        self._info: HypervisorInfo | None = None
        self._rings: list[Ring] = []
        self._notifier = -1
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
        return self._notifier

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
            (self._notifier,) = self._ask(Op.BIND_VIRQ).fds
        except SourceError as error:
            if error.errno != errno.EEXIST:
                raise
            raise LockedError(
                "VIRQ_TBUF is bound already: somebody else consumes the trace buffers",
                errno=error.errno, hint="only one of xtraced and xentrace can run",
            ) from error  # fmt: skip

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
            return os.eventfd_read(self._notifier)
        except BlockingIOError:
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
        if shared.tsc_hz == 0:
            return None
        return Tsc(shared.tsc_at(Nanoseconds(time.monotonic_ns())))

    def finished(self) -> bool:
        if not self._read_shared().finished:
            return False
        return all(ring.words[0] == ring.words[1] for ring in self._rings)

    def close(self) -> None:
        if self._notifier >= 0:
            os.close(self._notifier)
            self._notifier = -1
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

    def _ask(self, op: Op, value: int = 0, payload: bytes = b"") -> Reply:
        assert self._connection is not None, "not open"
        return self._connection.ask(op, value, payload)

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
