"""Whose exits a kvmtrace set has: Intel's, AMD's or PowerPC's."""

from __future__ import annotations

from collections.abc import Iterable

from tracelib.chunks import Chunk
from tracelib.events.exits import Family
from tracelib.events.kvm import HANDLER, OWNER_WORDS
from tracelib.kvmtrace.layout import Layout
from tracelib.records import EVENT_MASK, EXTRA_MASK, EXTRA_SHIFT, record_bytes

_INTERRUPT = HANDLER | 0x0E


def find_family(layout: Layout, chunks: Iterable[Chunk]) -> Family | None:
    """Big-endian is PowerPC, of the machines whose KVM was traced. Of the others, Intel's says
    of an external interrupt which one came (vmx.c), AMD's that one came (svm.c). None if
    there is none in these chunks."""
    if layout.big_endian:
        return "ppc"
    for chunk in chunks:
        words = chunk.payload.cast("B").cast("I")
        at = 0
        while at < len(words):
            header = words[at]
            if header & EVENT_MASK == _INTERRUPT:
                extra = header >> EXTRA_SHIFT & EXTRA_MASK
                return "vmx" if extra > OWNER_WORDS else "svm"
            at += record_bytes(header) // 4
    return None
