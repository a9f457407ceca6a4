"""One connection to a simulated hypervisor: a request, its reply, in bounded time."""

from __future__ import annotations

import errno
import os
import select
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tracelib.errors import SourceError
from xtraced.sources.sim import abi
from xtraced.sources.sim.abi import Op
from xtraced.sources.sim.options import SimOptions, argv

START_TIMEOUT = 60.0
"""Seconds for the first answer: a replay reads its file through before it gives one."""
ANSWER_TIMEOUT = 5.0
"""Seconds for any other, which takes a tick. The drain loop stands still meanwhile."""
AGAIN_TIMEOUT = 1.0
"""Seconds for an answer when the one before it did not come: a stop asks several times."""
_END_TIMEOUT = 2.0
"""Seconds for a hypervisor to end by itself, and then for each way to insist."""


class Reply(NamedTuple):
    value: int
    payload: bytes
    fds: list[int]


class Connection:
    """One connection to a hypervisor. Requests raise SourceError if it has gone, or does
    not answer in time; a late answer is not taken for the next request's."""

    def __init__(self, peer: socket.socket, name: str) -> None:
        self._peer = peer
        self._name = name
        self.process: subprocess.Popen[bytes] | None = None
        """The hypervisor, if we started it."""
        self._patience = START_TIMEOUT
        self._owed = 0
        """Requests that have no reply yet; more than one when some were given up."""
        self._hangup = select.poll()
        self._hangup.register(peer, select.POLLRDHUP)

    @classmethod
    def to(cls, path: Path) -> Connection:
        """Attach to the hypervisor that listens at `path`. Raises SourceError."""
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        peer.settimeout(ANSWER_TIMEOUT)
        try:
            peer.connect(str(path))
        except OSError as exc:
            peer.close()
            raise SourceError(
                f"no simulated hypervisor at {path}: {exc.strerror or exc}", errno=exc.errno,
                hint=f"start one: python -m xtraced.sources.sim --socket {path}",
            ) from exc  # fmt: skip
        connection = cls(peer, f"the simulated hypervisor at {path}")
        connection._patience = ANSWER_TIMEOUT
        return connection

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
                    pass_fds=[theirs.fileno()], start_new_session=True, env=_environ(),
                )  # fmt: skip
            except OSError as exc:
                ours.close()
                raise SourceError(
                    f"cannot start the simulated hypervisor: {exc.strerror}", errno=exc.errno
                ) from exc
        connection = cls(ours, "the simulated hypervisor")
        connection.process = process
        return connection

    def fileno(self) -> int:
        return self._peer.fileno()

    @property
    def gone(self) -> bool:
        """Whether the other end is closed; costs a system call and never waits."""
        return bool(self._hangup.poll(0))

    @property
    def behind(self) -> bool:
        """Whether a request was given up: asking again would most likely take as long."""
        return self._owed > 0

    def gone_error(self) -> SourceError:
        return SourceError(f"{self._name} is gone", errno=errno.EPIPE)

    def ask(self, op: Op, value: int = 0, payload: bytes = b"") -> Reply:
        """Raises SourceError with the hypervisor's errno, or because it does not answer."""
        try:
            packet, fds = self._exchange(abi.HEADER.pack(op, 0, value) + payload)
        except ConnectionError as exc:
            raise self.gone_error() from exc
        except OSError as exc:
            raise SourceError(
                f"{op.name.lower()}: {self._name} does not answer: {exc.strerror or exc}",
                errno=exc.errno,
            ) from exc
        if len(packet) < abi.HEADER.size:
            raise self.gone_error()
        self._patience = ANSWER_TIMEOUT
        _, error, value = abi.HEADER.unpack_from(packet)
        if error:
            reason = packet[abi.HEADER.size :].decode()
            raise SourceError(reason or f"{op.name.lower()}: {os.strerror(error)}", errno=error)
        return Reply(value, packet[abi.HEADER.size :], fds)

    def _exchange(self, request: bytes) -> tuple[bytes, list[int]]:
        """The reply to this request, past those to requests that were given up."""
        patience = AGAIN_TIMEOUT if self.behind else self._patience
        deadline = time.monotonic() + patience
        self._peer.settimeout(patience)
        self._peer.send(request)
        self._owed += 1
        while True:
            # 0 would mean not to wait at all, and then another error.
            self._peer.settimeout(max(deadline - time.monotonic(), 0.001))
            packet, fds, _, _ = socket.recv_fds(self._peer, abi.PACKET_BYTES, 1)
            self._owed -= 1
            if not self._owed or not packet:
                return packet, fds
            for fd in fds:
                os.close(fd)

    def close(self) -> None:
        """A hypervisor that we started ends now; its truth file is written then. One that
        does not is made to."""
        self._peer.close()
        if self.process is not None:
            _end(self.process)
            self.process = None


def _end(process: subprocess.Popen[bytes]) -> None:
    for insist in (None, process.terminate, process.kill):
        if insist is not None:
            insist()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_TIMEOUT)
            return


def _environ() -> dict[str, str]:
    """Ours, and where we were imported from: the programs may lie in a folder of their own,
    which their starter alone knows."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
