"""Staging buffers: where a drain puts records, and what the writer writes.

A buffer is a row of blocks, each a header slot of 128 bytes, the payload, and room up to
the next page. The collector fills it; the writer completes the headers and writes it as it
is. Buffers are page-aligned, as direct I/O wants its memory, which xtraced.handover has.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tracelib.losses import Loss
from tracelib.segment.block import HEADER_BYTES, BlockHeader
from xtraced.handover import StagingMemory


@dataclass(slots=True)
class StagingBuffer:
    """One buffer of the pool, with the blocks staged in it so far."""

    view: memoryview
    words: memoryview
    """The same memory as 32-bit words, for the drain."""
    number: int
    """In the pool's memory."""
    memory: StagingMemory
    used: int = 0
    in_core: bool = False
    """Whether its pages may hold memory of the machine's."""
    idle: bool = True
    """Not taken since the pool was last trimmed."""
    blocks: list[tuple[int, BlockHeader]] = field(default_factory=list)
    """Offset and header of each block. Sequence and checksum are the writer's to fill in."""
    losses: list[Loss] = field(default_factory=list)
    """What was lost around these blocks, for the segment to say beside them."""

    @property
    def room(self) -> int:
        """Payload bytes that one more block could hold; may be negative."""
        return len(self.view) - self.used - HEADER_BYTES

    @property
    def payload_at(self) -> int:
        """Where the next block's payload goes."""
        return self.used + HEADER_BYTES

    def payload(self, size: int) -> memoryview:
        """The first `size` bytes of the next block's payload."""
        return self.view[self.payload_at : self.payload_at + size]

    def add(self, header: BlockHeader) -> None:
        """Take the payload that was just put at `payload_at` as a block; the header has the
        block's whole length and its payload's checksum. From here on it outlives us."""
        self.memory.commit(self.number, len(self.blocks), header)
        self.blocks.append((self.used, header))
        self.used += header.block_bytes

    def clear(self) -> None:
        self.used = 0
        self.blocks.clear()
        self.losses.clear()


class StagingPool:
    """A fixed number of buffers: the service's memory bound.

    Last in, first out, so that a quiet host touches few of them and they stay in the CPU's
    cache. `take` is called by the collector, `give_back` by the writer's thread; a deque's
    append and pop are atomic.
    """

    def __init__(self, memory: StagingMemory) -> None:
        self.buffers = memory.buffers
        self.buffer_bytes = memory.buffer_bytes
        self._memory = memory
        self._free: deque[StagingBuffer] = deque()
        for number in range(memory.buffers):
            view = memory.buffer(number)
            self._free.append(StagingBuffer(view, view.cast("I"), number, memory))

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self) -> StagingBuffer | None:
        """An empty buffer, or None while the writer has them all."""
        try:
            buffer = self._free.pop()
        except IndexError:
            return None
        buffer.in_core, buffer.idle = True, False
        self._memory.begin(buffer.number)
        return buffer

    def trim(self) -> None:
        """Give back to the kernel the memory of free buffers that were not taken since the
        last trim: what a slow disk made us use once is not kept for ever."""
        for buffer in list(self._free):
            if buffer.idle and buffer.in_core:
                self._memory.release(buffer.number)
                buffer.in_core = False
            buffer.idle = True

    def give_back(self, buffer: StagingBuffer) -> None:
        """Its blocks are stored, or counted as lost."""
        self._memory.empty(buffer.number)
        buffer.clear()
        self._free.append(buffer)
