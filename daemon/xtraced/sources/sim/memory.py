"""The simulated machine's memory: a memfd whose page numbers are the mfns.

    page 0            struct shared (abi.py); no ring ever, since 0 means "none" in t_info
    pages 1...        t_info
    then              the rings, one after another
"""

from __future__ import annotations

import errno
import mmap
import os
import struct

from tracelib.ring.layout import PAGE_BYTES
from tracelib.units import CpuId

_NR_CPUS = 256
"""Debian's Xen; t_info has room for so many offsets even if there are fewer CPUs."""
_MOST = 0xFFFF


class Memory:
    """Page 0 from the start; t_info and rings when they are allocated."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("xtraced-sim", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, PAGE_BYTES)
        self.shared = memoryview(mmap.mmap(self.fd, PAGE_BYTES))
        self.pages_per_ring = 0
        self.t_info_bytes = 0
        self.rings: dict[CpuId, memoryview] = {}
        """Each ring's whole mapping, as 32-bit words."""

    @property
    def size(self) -> int:
        return os.fstat(self.fd).st_size

    @property
    def t_info_mfn(self) -> int:
        """0 as long as there is none."""
        return 1 if self.rings else 0

    def first_mfn(self, cpu: CpuId) -> int:
        return 1 + self.t_info_bytes // PAGE_BYTES + list(self.rings).index(cpu) * (
            self.pages_per_ring
        )

    def allocate(self, pages: int, online: list[CpuId], cpus: int) -> None:
        """Make t_info and a ring of `pages` for each CPU that is online; zeroed.

        More pages than 16-bit offsets can express are silently made fewer, as Xen does.
        Raises OSError (ENOMEM) if the machine cannot give so much memory.
        """
        table = max(_NR_CPUS, cpus)
        first = (2 + 2 * table + 3) // 4
        pages = min(pages, (_MOST - first) // max(1, cpus - 1))
        t_info_bytes = _page_up(4 * (first + cpus * pages))
        start = 1 + t_info_bytes // PAGE_BYTES
        try:
            os.ftruncate(self.fd, (start + len(online) * pages) * PAGE_BYTES)
            mapped = memoryview(mmap.mmap(self.fd, 0))
        except (OSError, ValueError) as exc:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)) from exc
        t_info = mapped[PAGE_BYTES : PAGE_BYTES + t_info_bytes]
        struct.pack_into("<H", t_info, 0, pages)
        for index, cpu in enumerate(online):
            mfns = range(start + index * pages, start + (index + 1) * pages)
            offset = first + cpu * pages
            struct.pack_into("<H", t_info, 2 + 2 * cpu, offset)
            struct.pack_into(f"<{pages}I", t_info, 4 * offset, *mfns)
            ring = mapped[mfns.start * PAGE_BYTES : mfns.stop * PAGE_BYTES]
            self.rings[cpu] = ring.cast("I")
        self.pages_per_ring, self.t_info_bytes = pages, t_info_bytes


def _page_up(size: int) -> int:
    return (size + PAGE_BYTES - 1) // PAGE_BYTES * PAGE_BYTES
