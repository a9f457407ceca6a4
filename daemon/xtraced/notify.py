"""Messages to systemd (sd_notify(3)), and the watchdog interval it asks for.

Written here because it is one datagram: no library, nothing to import. A message is never
worth a stop, so nothing here blocks or raises.
"""

from __future__ import annotations

import contextlib
import os
import socket
from array import array
from collections.abc import Mapping, Sequence

from tracelib.units import Nanoseconds


class Notifier:
    """Sends state to the service manager; does nothing where there is none."""

    def __init__(self, address: str | None) -> None:
        """`address`: what NOTIFY_SOCKET holds: a path, or "@name" for an abstract socket."""
        self._address = _socket_address(address)
        self._socket: socket.socket | None = None
        if self._address is not None:
            with contextlib.suppress(OSError):
                self._socket = socket.socket(
                    socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
                )

    @property
    def active(self) -> bool:
        """Is there a manager?"""
        return self._socket is not None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Notifier:
        """The notifier for this process's environment."""
        return cls(environ.get("NOTIFY_SOCKET"))

    def ready(self, status: str) -> bool:
        """Rings are mapped and the first segment is open (or: the reload is done)."""
        return self._send("READY=1", _status(status))

    def status(self, status: str) -> bool:
        """One line for `systemctl status`."""
        return self._send(_status(status))

    def reloading(self, monotonic: Nanoseconds) -> bool:
        """A reload begins now, at `monotonic`; `ready` ends it."""
        return self._send("RELOADING=1", f"MONOTONIC_USEC={monotonic // 1000}")

    def stopping(self, status: str, *, within: Nanoseconds) -> bool:
        """The service is on its way out and will be gone within that time, which may be more
        than the unit's TimeoutStopSec."""
        extend = f"EXTEND_TIMEOUT_USEC={within // 1000}"
        return self._send("STOPPING=1", extend, _status(status))

    def keep(self, fd: int, name: str) -> bool:
        """Have the manager keep a descriptor over a crash, and hand it to the successor."""
        # It need not be watched for an end: a memfd has none.
        return self._send("FDSTORE=1", f"FDNAME={name}", "FDPOLL=0", fds=(fd,))

    def watchdog(self) -> bool:
        """The drain loop makes progress."""
        return self._send("WATCHDOG=1")

    def close(self) -> None:
        """Idempotent; later messages go nowhere."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, *lines: str, fds: Sequence[int] = ()) -> bool:
        """Whether the message was taken. A full queue, a socket that is gone or not ours to
        write to: the message is dropped, since the next one says more anyway."""
        if self._socket is None or self._address is None:
            return False
        try:
            text = "\n".join(lines).encode(errors="replace")
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
            self._socket.sendmsg([text], rights, 0, self._address)
        except OSError:
            return False
        return True


def watchdog_interval(
    environ: Mapping[str, str] = os.environ, pid: int | None = None
) -> Nanoseconds | None:
    """How often systemd expects a sign of life (sd_watchdog_enabled(3)); None if it does not.

    Send at half of it. The variable may be meant for another process (WATCHDOG_PID).
    """
    mine = environ.get("WATCHDOG_PID", "")
    if mine and mine != str(os.getpid() if pid is None else pid):
        return None
    text = environ.get("WATCHDOG_USEC", "")
    if not (text.isascii() and text.isdigit()) or int(text) == 0:
        return None
    return Nanoseconds(int(text) * 1000)


def _socket_address(text: str | None) -> bytes | None:
    """A leading "@" stands for the NUL byte of the abstract name space."""
    if not text or text[0] not in "/@" or len(text) == 1:
        return None
    address = os.fsencode(text)
    return b"\0" + address[1:] if address[:1] == b"@" else address


def _status(status: str) -> str:
    """One line, whatever the text holds: a newline would begin another variable."""
    return "STATUS=" + " ".join(status.split())
