"""The functions of Xen's stable libraries that are used, with their types.

Sources: xencall.h, xenforeignmemory.h, xenevtchn.h and xentoollog.h of Xen 4.17. These
interfaces keep their sonames from release to release, unlike libxenctrl.
"""

from __future__ import annotations

import ctypes
from ctypes import CDLL, POINTER, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_ulong, c_void_p
from typing import Any, NamedTuple

from tracelib.errors import SourceError
from xtraced.sources.xen.refusals import refused

Declarations = dict[str, tuple[Any, list[Any]]]
"""Result type and argument types by function."""

_CALL: Declarations = {
    "xencall_open": (c_void_p, [c_void_p, c_uint]),
    "xencall_close": (c_int, [c_void_p]),
    "xencall_alloc_buffer": (c_void_p, [c_void_p, c_size_t]),
    "xencall_free_buffer": (None, [c_void_p, c_void_p]),
    "xencall1": (c_int, [c_void_p, c_uint, c_uint64]),
    "xencall2": (c_int, [c_void_p, c_uint, c_uint64, c_uint64]),
}
_MEMORY: Declarations = {
    "xenforeignmemory_open": (c_void_p, [c_void_p, c_uint]),
    "xenforeignmemory_close": (c_int, [c_void_p]),
    "xenforeignmemory_map": (
        c_void_p,
        [c_void_p, c_uint32, c_int, c_size_t, POINTER(c_ulong), POINTER(c_int)],
    ),
    # Counts pages, not bytes.
    "xenforeignmemory_unmap": (c_int, [c_void_p, c_void_p, c_size_t]),
}
_EVENTS: Declarations = {
    "xenevtchn_open": (c_void_p, [c_void_p, c_uint]),
    "xenevtchn_close": (c_int, [c_void_p]),
    "xenevtchn_fd": (c_int, [c_void_p]),
    "xenevtchn_bind_virq": (c_int, [c_void_p, c_uint]),
    "xenevtchn_pending": (c_int, [c_void_p]),
    "xenevtchn_unmask": (c_int, [c_void_p, c_uint32]),
}


class Libraries(NamedTuple):
    call: CDLL
    memory: CDLL
    events: CDLL


def load() -> Libraries:
    """Load the three. Raises SourceError for one that is missing or is not what it should be."""
    return Libraries(
        _load("libxencall.so.1", _CALL),
        _load("libxenforeignmemory.so.1", _MEMORY),
        _load("libxenevtchn.so.1", _EVENTS),
    )


def _load(soname: str, declarations: Declarations) -> CDLL:
    try:
        library = CDLL(soname, use_errno=True)
        for name, (result, arguments) in declarations.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as exc:
        raise SourceError(
            f"cannot load {soname}: {exc}",
            hint="install Xen's run-time libraries (Debian: libxencall1 "
            "libxenforeignmemory1 libxenevtchn1), or try --source sim",
        ) from exc
    return library


def open_handle(library: CDLL, name: str) -> int:
    """The handle that the library's open function gives. Raises SourceError."""
    ctypes.set_errno(0)
    handle = getattr(library, name)(ctypes.addressof(_SILENT), 0)
    if not handle:
        raise refused(name, ctypes.get_errno())
    return int(handle)


# struct xentoollog_logger is three functions: vmessage, progress, destroy. Without a logger of
# ours, the libraries make their own and print to stderr what the errors here say already. The
# functions of ours do nothing: getpid(2) ignores arguments. (A Python callback would need
# memory that is both writable and executable, which the service's unit forbids.)
_NOTHING = ctypes.cast(CDLL(None).getpid, c_void_p)
_SILENT = (c_void_p * 3)(_NOTHING, _NOTHING, _NOTHING)
