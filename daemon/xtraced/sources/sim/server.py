"""The hypervisor process: its socket, its clock ticks, its end.

One thread. It sleeps until a request or the next tick, whichever comes first; without
tracing or work there are no ticks.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from tracelib.units import Nanoseconds
from xtraced.sources.sim import abi, truth
from xtraced.sources.sim.abi import Fault, Op
from xtraced.sources.sim.engine import Engine
from xtraced.sources.sim.hypervisor import Hypervisor
from xtraced.sources.sim.options import SimOptions
from xtraced.sources.sim.workload import GuestWorkload, Workload

Answer = tuple[int, bytes, list[int]] | None
"""Value, payload, descriptors; None for a bare success."""


class Server:
    """Answers connections and drives the workload until it is told to stop.

    Without `keep` it ends when its last connection has gone.
    """

    def __init__(
        self, options: SimOptions, hypervisor: Hypervisor, workload: Workload,
        physinfo: abi.PhysInfo, *, keep: bool,
    ) -> None:  # fmt: skip
        self._options = options
        self._hypervisor = hypervisor
        self._workload = workload
        self._physinfo = physinfo
        self._keep = keep
        self._listener: socket.socket | None = None
        self._connections: list[socket.socket] = []
        self._virq_owner: socket.socket | None = None
        self._next_tick = now_ns()
        self._was_enabled = False
        self._sequence = 0
        self._ending = False
        self._requests: dict[Op, Callable[[socket.socket, int, bytes], Answer]] = {
            Op.PHYSINFO: lambda *_: (0, self._physinfo.encode(), []),
            Op.BIND_VIRQ: self._bind_virq,
            Op.MAP: lambda *_: (hypervisor.memory.size, b"", [hypervisor.memory.fd]),
            Op.GET_INFO: lambda *_: (0, hypervisor.info().encode(), []),
            Op.SET_CPU_MASK: self._set_cpu_mask,
            Op.SET_EVT_MASK: lambda _, value, __: hypervisor.set_event_mask(value),
            Op.SET_SIZE: lambda _, pages, __: hypervisor.set_size(pages),
            Op.ENABLE: lambda *_: hypervisor.enable(),
            Op.DISABLE: lambda *_: hypervisor.disable(),
            Op.READ_CLOCK: self._read_clock,
            Op.TRUTH: self._truth,
            Op.FAULT: self._fault,
            Op.SHUTDOWN: self._shutdown,
            Op.WRONG: lambda *_: (0, self._workload.wrong().encode(), []),
        }
        if options.tbuf_pages:
            hypervisor.set_size(options.tbuf_pages)
        for fault, kind in (("no-notify", Fault.NO_NOTIFY), ("stuck", Fault.STUCK)):
            if fault in options.faults:
                hypervisor.inject(kind, 0)
        self._publish()

    def listen(self, listener: socket.socket) -> None:
        """Take connections from this listening socket."""
        listener.setblocking(False)
        self._listener = listener

    def add(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connections.append(connection)

    def run(self) -> None:
        """Serve until a SHUTDOWN, SIGTERM, SIGINT or the last connection's end."""
        wakeup, trigger = socket.socketpair()
        wakeup.setblocking(False)
        trigger.setblocking(False)
        signal.set_wakeup_fd(trigger.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        poll: list[socket.socket] = [wakeup]
        while not self._ending:
            listening = [self._listener] if self._listener is not None else []
            # select, since epoll and poll round time-outs up to whole milliseconds.
            ready, _, _ = select.select(
                [*poll, *listening, *self._connections], [], [], self._patience()
            )
            if wakeup in ready:
                break
            if self._listener in ready:
                self._accept()
            for connection in [peer for peer in self._connections if peer in ready]:
                self._serve(connection)
            self._tick()
        self._finish()

    def _patience(self) -> float | None:
        """Seconds until the next tick; None if there will be none."""
        enabled = self._hypervisor.host.enabled
        if not enabled or self._workload.finished or self._hypervisor.stuck:
            return None
        return max(0, self._next_tick - now_ns()) / 1e9

    def _tick(self) -> None:
        now = now_ns()
        enabled = bool(self._hypervisor.host.enabled)
        if enabled and not self._was_enabled:
            self._start(now)
        self._was_enabled = enabled
        if enabled and now >= self._next_tick and not self._workload.finished:
            before = self._workload.clock()
            self._workload.advance(now)
            self._hypervisor.deliver()
            self._next_tick = Nanoseconds(max(self._next_tick, now) + self._workload.tick)
            if self._workload.finished or self._workload.clock() != before:
                self._publish()

    def _start(self, now: Nanoseconds) -> None:
        self._workload.start(now)
        self._next_tick = now
        if "bogus-prod" in self._options.faults:
            self._hypervisor.inject(Fault.BOGUS_PROD, self._hypervisor.online[0])
        self._publish()

    def _publish(self) -> None:
        """What readers may see without asking."""
        tsc, monotonic, hz = self._workload.clock()
        shared = abi.Shared(self._sequence, self._workload.finished, tsc, monotonic, hz)
        shared.write(self._hypervisor.memory.shared)
        self._sequence += 2

    # Connections

    def _accept(self) -> None:
        assert self._listener is not None
        with suppress(BlockingIOError):
            self.add(self._listener.accept()[0])

    def _serve(self, connection: socket.socket) -> None:
        """Answer one request."""
        try:
            packet = connection.recv(abi.PACKET_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            packet = b""
        if not packet:
            self._drop(connection)
            return
        reply, fds = self._answer(connection, packet)
        try:
            socket.send_fds(connection, [reply], fds)
        except OSError:  # A peer that does not read, or has gone.
            self._drop(connection)

    def _answer(self, connection: socket.socket, packet: bytes) -> tuple[bytes, list[int]]:
        if len(packet) < abi.HEADER.size:
            return abi.HEADER.pack(0, errno.EINVAL, 0), []
        number, _, value = abi.HEADER.unpack_from(packet)
        try:
            handler = self._requests[Op(number)]
        except ValueError:
            return abi.HEADER.pack(number, errno.ENOSYS, 0), []
        try:
            answer = handler(connection, value, packet[abi.HEADER.size :])
        except OSError as refusal:
            return abi.HEADER.pack(number, refusal.errno or errno.EIO, 0), []
        value, payload, fds = answer or (0, b"", [])
        return abi.HEADER.pack(number, 0, value) + payload, fds

    def _drop(self, connection: socket.socket) -> None:
        self._connections.remove(connection)
        connection.close()
        if connection is self._virq_owner:
            self._virq_owner = None
            self._hypervisor.release_virq()
        if not self._connections and not self._keep:
            self._ending = True

    # Requests

    def _bind_virq(self, connection: socket.socket, _: int, __: bytes) -> Answer:
        fd = self._hypervisor.bind_virq()
        self._virq_owner = connection
        return abi.VIRQ_TBUF, b"", [fd]

    def _set_cpu_mask(self, _: socket.socket, __: int, payload: bytes) -> None:
        self._hypervisor.set_cpu_mask(abi.decode_bitmap(payload))

    def _read_clock(self, *_: object) -> Answer:
        tsc, monotonic, hz = self._workload.clock()
        now = now_ns()
        tsc_now = tsc + (now - monotonic) * hz // 10**9
        return tsc_now, abi.CLOCK.pack(tsc_now, time.time_ns(), now), []

    def _truth(self, _: socket.socket, anew: int, __: bytes) -> Answer:
        what = truth.encode(self._write_truth())
        if anew:
            truth.reset(self._hypervisor, self._engine)
        room = abi.PACKET_BYTES - abi.HEADER.size
        return len(what), what if len(what) <= room else b"", []

    def _fault(self, _: socket.socket, value: int, __: bytes) -> None:
        try:
            fault = Fault(value >> 32)
        except ValueError:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL)) from None
        self._hypervisor.inject(fault, value & 0xFFFFFFFF)

    def _shutdown(self, *_: object) -> None:
        self._ending = True

    # The end

    @property
    def _engine(self) -> Engine | None:
        return self._workload.engine if isinstance(self._workload, GuestWorkload) else None

    def _write_truth(self) -> dict[str, object]:
        what = truth.truth(self._options, self._hypervisor, self._engine)
        if self._options.truth is not None:
            truth.write(what, self._options.truth)
        return what

    def _finish(self) -> None:
        self._write_truth()
        if self._listener is not None:
            self._listener.close()
        for connection in self._connections:
            connection.close()
        self._hypervisor.release_virq()


def now_ns() -> Nanoseconds:
    return Nanoseconds(time.monotonic_ns())
