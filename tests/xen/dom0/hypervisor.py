"""Asks Xen itself what it traces: the second opinion, written apart from the service's code.

Only reads: get_info, and the ring's indexes through a mapping that cannot be written to.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import time
from typing import NamedTuple

_DOMID_XEN = 0x7FF2
_SYSCTL, _TBUF_OP, _PHYSINFO, _GET_INFO = 35, 2, 3, 0
_VERSION = 0x15
"""Of the sysctl interface, in Xen 4.17."""
_TBUF = struct.Struct("<I4xQI4xI4xQI")


class Info(NamedTuple):
    event_mask: int
    mfn: int
    """Of t_info; 0 if there are no rings."""
    size: int


class Hypervisor:
    """A handle of its own; the service's are not touched."""

    def __init__(self) -> None:
        self._calls = ctypes.CDLL("libxencall.so.1", use_errno=True)
        self._calls.xencall_open.restype = ctypes.c_void_p
        self._calls.xencall_open.argtypes = [ctypes.c_void_p, ctypes.c_uint]
        self._calls.xencall_alloc_buffer.restype = ctypes.c_void_p
        self._calls.xencall_alloc_buffer.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._calls.xencall1.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint64]
        self._handle = self._calls.xencall_open(None, 0)
        self._buffer = self._calls.xencall_alloc_buffer(self._handle, 136)
        self._memory = ctypes.CDLL("libxenforeignmemory.so.1", use_errno=True)
        self._memory.xenforeignmemory_open.restype = ctypes.c_void_p
        self._memory.xenforeignmemory_open.argtypes = [ctypes.c_void_p, ctypes.c_uint]
        self._memory.xenforeignmemory_map.restype = ctypes.c_void_p
        self._memory.xenforeignmemory_map.argtypes = [
            ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_size_t,
            ctypes.POINTER(ctypes.c_ulong), ctypes.POINTER(ctypes.c_int),
        ]
        self._foreign = self._memory.xenforeignmemory_open(None, 0)
        self._heads: dict[int, ctypes.Array[ctypes.c_uint32]] = {}

    def info(self) -> Info:
        """tbuf get_info: the event mask in force, and where t_info is."""
        _, _, _, mask, mfn, size = _TBUF.unpack_from(
            self._sysctl(_TBUF_OP, _TBUF.pack(_GET_INFO, 0, 0, 0, 0, 0))
        )
        return Info(mask, mfn, size)

    def pages(self) -> int:
        """Of each CPU's ring."""
        return int(self._t_info()[0])

    def produced(self) -> dict[int, int]:
        """Every CPU's producer index: it moves when Xen writes a record."""
        if not self._heads:
            self._map_heads()
        return {cpu: head[1] for cpu, head in self._heads.items()}

    def busy(self, seconds: float = 3) -> set[int]:
        """The CPUs for which records are written within so many seconds."""
        before = self.produced()
        time.sleep(seconds)
        after = self.produced()
        return {cpu for cpu in before if before[cpu] != after[cpu]}

    def _sysctl(self, command: int, body: bytes) -> bytes:
        request = struct.pack("<II", command, _VERSION) + body.ljust(128, b"\0")
        ctypes.memmove(self._buffer, request, len(request))
        if self._calls.xencall1(self._handle, _SYSCTL, self._buffer) < 0:
            raise OSError(ctypes.get_errno(), f"sysctl {command}")
        return ctypes.string_at(self._buffer + 8, 128)

    def _map_heads(self) -> None:
        """The first page of each ring: cons, prod, records."""
        (last_cpu,) = struct.unpack_from("<I", self._sysctl(_PHYSINFO, b""), 12)
        t_info = self._t_info()
        for cpu in range(last_cpu + 1):
            (offset,) = struct.unpack_from("<H", bytes(t_info), 2 + 2 * cpu)
            if offset:
                (mfn,) = struct.unpack_from("<I", bytes(t_info), 4 * offset)
                address = self._map(mfn, 1)
                self._heads[cpu] = (ctypes.c_uint32 * 2).from_address(address)

    def _t_info(self) -> ctypes.Array[ctypes.c_uint16]:
        info = self.info()
        address = self._map(info.mfn, -(-info.size // 4096))
        return (ctypes.c_uint16 * (info.size // 2)).from_address(address)

    def _map(self, mfn: int, pages: int) -> int:
        mfns = (ctypes.c_ulong * pages)(*range(mfn, mfn + pages))
        errors = (ctypes.c_int * pages)()
        address = self._memory.xenforeignmemory_map(
            self._foreign, _DOMID_XEN, mmap.PROT_READ, pages, mfns, errors
        )
        if not address:
            raise OSError(ctypes.get_errno(), f"mapping {pages} pages of Xen's at {mfn:#x}")
        return int(address)
