"""What to say when Xen, its libraries or dom0's kernel refuse."""

from __future__ import annotations

import errno
import os

from tracelib.errors import SourceError


def refused(call: str, number: int, hint: str | None = None) -> SourceError:
    """The error for a call that failed with this errno. A hint of the caller's own beats
    the general one."""
    name = errno.errorcode.get(number, str(number))
    return SourceError(
        f"{call}: {os.strerror(number)} ({name})", errno=number, hint=hint or _hint(number)
    )


def _hint(number: int) -> str | None:
    if number in (errno.EPERM, errno.EACCES) and os.geteuid() != 0:
        return "run it as root: only root may speak to the hypervisor"
    return _HINTS.get(number)


_NOT_XEN = (
    "no Xen device here: run in dom0 of a Xen host with xen_privcmd and xen_evtchn loaded, "
    "or try --source sim"
)
_NOT_ALLOWED = "only dom0 may do this, and there an XSM policy can forbid it"
_HINTS = {
    errno.ENOENT: _NOT_XEN,
    errno.ENXIO: _NOT_XEN,
    errno.ENODEV: _NOT_XEN,
    errno.EPERM: _NOT_ALLOWED,
    errno.EACCES: _NOT_ALLOWED,
    errno.ENOSYS: "this hypervisor was built without trace buffers (CONFIG_TRACEBUFFER)",
    errno.ENOMEM: "no memory left: ask for smaller rings (source.pages)",
}
