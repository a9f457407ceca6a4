"""Pages of the hypervisor, mapped into this process."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Sequence
from ctypes import CDLL, c_ubyte, c_ulong

from tracelib.ring.layout import PAGE_BYTES
from xtraced.sources.xen.libraries import open_handle
from xtraced.sources.xen.refusals import refused

DOMID_XEN = 0x7FF2
"""Owner of the hypervisor's own pages (xen/include/public/xen.h)."""


class ForeignMemory:
    """Maps pages; a mapping lasts as long as somebody holds a view of it.

    Unmapping under a view that is still in somebody's hands would be a crash at his next
    look, so it is the end of the last view that unmaps, and the end of the last mapping
    after `close` that closes the library's handle.
    """

    def __init__(self, library: CDLL) -> None:
        self._library = library
        self._handle: int | None = open_handle(library, "xenforeignmemory_open")
        self._mappings = 0
        self._closing = False

    def map(self, mfns: Sequence[int], what: str, *, writable: bool) -> memoryview:
        """These pages in a row, as bytes. Raises SourceError, saying `what` they were for."""
        pages = len(mfns)
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        ctypes.set_errno(0)
        # Without a place for errors page by page, one page that cannot be mapped fails all.
        address = self._library.xenforeignmemory_map(
            self._handle, DOMID_XEN, protection, pages, (c_ulong * pages)(*mfns), None
        )
        if not address:
            raise refused(f"xenforeignmemory_map of {what}", ctypes.get_errno())
        area = (c_ubyte * (pages * PAGE_BYTES)).from_address(address)
        self._mappings += 1
        # The end of the process unmaps by itself, and after everybody's last look.
        weakref.finalize(area, self._unmap, address, pages).atexit = False
        return memoryview(area).cast("B")

    def _unmap(self, address: int, pages: int) -> None:
        self._library.xenforeignmemory_unmap(self._handle, address, pages)
        self._mappings -= 1
        self._close_if_unused()

    def close(self) -> None:
        """Map no more, and close once nothing is mapped; idempotent."""
        self._closing = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._closing and not self._mappings and self._handle is not None:
            self._library.xenforeignmemory_close(self._handle)
            self._handle = None
