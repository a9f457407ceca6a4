"""The two hypercalls: sysctl, for trace control and physinfo, and xen_version.

struct xen_sysctl (xen/include/public/sysctl.h) is u32 cmd, u32 interface_version and a union
of 128 bytes. The version differs from release to release, and a hypervisor takes exactly
one; struct xen_sysctl_tbuf_op and the start of physinfo are the same from 4.14 to 4.21.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CDLL
from typing import NamedTuple

from tracelib.errors import SourceError
from xtraced.sources.xen.libraries import open_handle
from xtraced.sources.xen.refusals import refused

_XEN_VERSION = 17
_SYSCTL = 35

_TBUF_OP = 2
_PHYSINFO = 3
_GET_INFO, _SET_CPU_MASK, _SET_EVT_MASK, _SET_SIZE, _ENABLE, _DISABLE = range(6)

_HEAD = struct.Struct("<II")
_UNION_BYTES = 128
_SYSCTL_BYTES = _HEAD.size + _UNION_BYTES
_TBUF = struct.Struct("<IxxxxQIxxxxIxxxxQI")
"""u32 op, {u64 bitmap, u32 nr_bits} cpu_mask, u32 evt_mask, u64 buffer_mfn, u32 size."""
_PHYS = struct.Struct("<8xIIxxxxxxxxI")
"""Of physinfo: u32 nr_cpus at 8, max_cpu_id at 12, cpu_khz at 24."""

VERSIONS = (*range(0x16, 0x11, -1), *range(0x17, 0x21))
"""Interface versions to try: those of Xen 4.21 back to 4.13, then what may come."""

_VERSION, _EXTRAVERSION, _CAPABILITIES, _CHANGESET = 0, 1, 3, 4
_STRING_BYTES = {_EXTRAVERSION: 16, _CAPABILITIES: 1024, _CHANGESET: 64}


class PhysInfo(NamedTuple):
    nr_cpus: int
    """How many are online."""
    max_cpu_id: int
    """Highest possible number."""
    cpu_khz: int


class TbufInfo(NamedTuple):
    evt_mask: int
    buffer_mfn: int
    """First page of t_info, whose pages follow each other; 0 before there are rings."""
    size: int
    """Of t_info, in bytes."""


class XenVersion(NamedTuple):
    version: str
    changeset: str | None
    capabilities: str | None


class Hypercalls:
    """A handle for hypercalls. Every method raises SourceError with call and errno."""

    def __init__(self, library: CDLL) -> None:
        self._library = library
        self._handle: int | None = open_handle(library, "xencall_open")
        self._interface: int | None = None

    def close(self) -> None:
        """Idempotent."""
        if self._handle is not None:
            self._library.xencall_close(self._handle)
            self._handle = None

    # What there is

    def physinfo(self) -> PhysInfo:
        """Also finds the interface version that everything else needs; has no side effects."""
        return PhysInfo(*_PHYS.unpack_from(self._find_interface()))

    def _find_interface(self) -> bytes:
        for version in VERSIONS:
            self._interface = version
            try:
                return self._sysctl("physinfo", _PHYSINFO, b"")
            except SourceError as error:
                # The answer to another version than its own (and to what FLASK forbids).
                if error.errno != errno.EACCES:
                    raise
                refusal = error
        self._interface = None
        hint = (
            f"{refusal.hint}; or this Xen is of a release that speaks none of the sysctl "
            f"versions {min(VERSIONS):#x} to {max(VERSIONS):#x}"
        )
        raise refused("sysctl physinfo", errno.EACCES, hint)

    def xen_version(self) -> XenVersion:
        number = self._ask_version("version", _VERSION, 0)
        extra = self._string("extraversion", _EXTRAVERSION) or ""
        return XenVersion(
            f"{number >> 16}.{number & 0xFFFF}{extra}",
            self._string("changeset", _CHANGESET),
            self._string("capabilities", _CAPABILITIES),
        )

    def _string(self, name: str, which: int) -> str | None:
        size = _STRING_BYTES[which]
        with self._buffer(bytes(size)) as address:
            self._ask_version(name, which, address)
            text = ctypes.string_at(address, size).partition(b"\0")[0].decode("ascii", "replace")
        # What XSM puts there for those who may not know.
        return None if text in ("", "<denied>") else text.strip()

    def _ask_version(self, name: str, which: int, argument: int) -> int:
        ctypes.set_errno(0)
        answer = int(self._library.xencall2(self._handle, _XEN_VERSION, which, argument))
        if answer < 0:
            raise refused(f"xen_version {name}", ctypes.get_errno())
        return answer

    # Trace control

    def tbuf_info(self) -> TbufInfo:
        answer = self._tbuf("get_info", _GET_INFO)
        _, _, _, mask, mfn, size = _TBUF.unpack_from(answer)
        return TbufInfo(mask, mfn, size)

    def set_size(self, pages: int) -> None:
        """Allocate rings of so many pages, once per boot: EBUSY or EINVAL afterwards, and
        EINVAL if there is no memory for them."""
        self._tbuf("set_size", _SET_SIZE, size=pages)

    def set_event_mask(self, mask: int) -> None:
        self._tbuf("set_evt_mask", _SET_EVT_MASK, mask=mask)

    def set_cpu_mask(self, bits: int, cpus: int) -> None:
        """Bit n is CPU n; Xen takes the bits beyond `cpus` for 0."""
        with self._buffer(bits.to_bytes((cpus + 7) // 8, "little")) as address:
            self._tbuf("set_cpu_mask", _SET_CPU_MASK, bitmap=address, nr_bits=cpus)

    def enable(self) -> None:
        self._tbuf("enable", _ENABLE)

    def disable(self) -> None:
        self._tbuf("disable", _DISABLE)

    def _tbuf(
        self, name: str, op: int, *, bitmap: int = 0, nr_bits: int = 0, mask: int = 0, size: int = 0
    ) -> bytes:
        body = _TBUF.pack(op, bitmap, nr_bits, mask, 0, size)
        return self._sysctl(f"tbuf_op {name}", _TBUF_OP, body)

    # How

    def _sysctl(self, name: str, command: int, body: bytes) -> bytes:
        """The union as it is after the call."""
        assert self._interface is not None, "physinfo first"
        request = _HEAD.pack(command, self._interface) + body.ljust(_UNION_BYTES, b"\0")
        with self._buffer(request) as address:
            ctypes.set_errno(0)
            if self._library.xencall1(self._handle, _SYSCTL, address) < 0:
                raise refused(f"sysctl {name}", ctypes.get_errno())
            return ctypes.string_at(address + _HEAD.size, _UNION_BYTES)

    @contextmanager
    def _buffer(self, content: bytes) -> Iterator[int]:
        """A copy of the bytes where the hypervisor can get at them: locked in memory."""
        ctypes.set_errno(0)
        address = self._library.xencall_alloc_buffer(self._handle, len(content))
        if not address:
            raise refused("xencall_alloc_buffer", ctypes.get_errno() or errno.ENOMEM)
        try:
            ctypes.memmove(address, content, len(content))
            yield int(address)
        finally:
            self._library.xencall_free_buffer(self._handle, address)
