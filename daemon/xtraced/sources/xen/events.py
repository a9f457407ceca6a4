"""VIRQ_TBUF: how Xen says that a ring got half full.

Xen raises it at the 50 % crossing, for all rings alike; dom0's kernel masks the event
channel when it passes an event on, until it is unmasked here. An event that comes meanwhile
is delivered at the unmasking.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from ctypes import CDLL

from tracelib.errors import LockedError
from xtraced.sources.xen.libraries import open_handle
from xtraced.sources.xen.refusals import refused

VIRQ_TBUF = 4
_IOCTL_EVTCHN_RESET = 0x4505
"""_IOC(_IOC_NONE, 'E', 5, 0), include/uapi/xen/evtchn.h: empty the driver's queue."""


class EventChannel:
    """An event channel of our own with VIRQ_TBUF bound to it, which only one can have."""

    def __init__(self, library: CDLL) -> None:
        """Raises LockedError if somebody else has it, SourceError for everything else."""
        self._library = library
        self._handle: int | None = open_handle(library, "xenevtchn_open")
        try:
            self._port = self._bind()
            self.fd = int(library.xenevtchn_fd(self._handle))
            # So that taking an event never waits, whatever woke us.
            os.set_blocking(self.fd, False)
        except BaseException:
            self.close()
            raise

    def _bind(self) -> int:
        ctypes.set_errno(0)
        port = int(self._library.xenevtchn_bind_virq(self._handle, VIRQ_TBUF))
        if port >= 0:
            return port
        number = ctypes.get_errno()
        if number != errno.EEXIST:
            raise refused("xenevtchn_bind_virq(VIRQ_TBUF)", number)
        raise LockedError(
            "VIRQ_TBUF is bound already: somebody else consumes the trace buffers", errno=number,
            hint="only one of xtraced and xentrace can run; Xen does not tell which it is",
        )  # fmt: skip

    def acknowledge(self) -> int:
        """Take the event that waits and unmask the channel: 1, or 0 if none waits.

        Raises SourceError if the kernel's driver refuses.
        """
        port = self._library.xenevtchn_pending(self._handle)
        if port >= 0:
            self._unmask(port)
            return 1
        number = ctypes.get_errno()
        if number in (errno.EAGAIN, errno.EINTR):
            return 0
        if number != errno.EFBIG:
            raise refused("xenevtchn_pending", number)
        self._reset()
        return 1

    def _reset(self) -> None:
        """The driver's queue overflowed: it says nothing more until it is emptied, and the
        channel of an event that was in it is left masked."""
        try:
            fcntl.ioctl(self.fd, _IOCTL_EVTCHN_RESET)
        except OSError as exc:
            raise refused("ioctl(IOCTL_EVTCHN_RESET)", exc.errno or errno.EIO) from exc
        self._unmask(self._port)

    def _unmask(self, port: int) -> None:
        if self._library.xenevtchn_unmask(self._handle, port) < 0:
            raise refused("xenevtchn_unmask", ctypes.get_errno())

    def close(self) -> None:
        """Unbind and close; idempotent."""
        if self._handle is not None:
            self._library.xenevtchn_close(self._handle)
            self._handle = None
            self.fd = -1
