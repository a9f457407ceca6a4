"""An xentrace file, a pipe or standard input as a `tracelib.chunks.TraceReader`."""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tracelib.chunks import Chunk, Problem, TraceInfo, ignore_progress
from tracelib.errors import FormatError
from tracelib.losses import Loss
from tracelib.store.fsops import store_error
from tracelib.units import CpuId
from tracelib.xentrace.decoder import Damage, Window, WindowDecoder
from tracelib.xentrace.walk import walk, windows

READ_BYTES = 1 << 19

RUN_BYTES = 64 << 10
"""About so much `runs_of` gives at once."""

_SHORT_BYTES = 16 << 10
"""A longer window is read by itself."""
_BLOCK_BYTES = 256 << 10
_BLOCKS = 32
_ROOM = 1024
"""So many windows are looked for at once."""


@dataclass(slots=True)
class _Index:
    """Where one CPU's windows lie: 12 bytes of memory for each."""

    offsets: array[int] = field(default_factory=lambda: array("Q"))
    sizes: array[int] = field(default_factory=lambda: array("I"))

    def add(self, offset: int, size: int) -> None:
        self.offsets.append(offset)
        self.sizes.append(size)


@contextmanager
def named(name: str) -> Iterator[None]:
    """Put the file's name into a FormatError that the decoder raises without one."""
    try:
        yield
    except FormatError as error:
        if error.file is not None:
            raise
        raise FormatError(
            error.reason, file=name, offset=error.offset, hint=error.hint
        ) from None


def _joined(parts: list[memoryview]) -> memoryview:
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


class XentraceReader:
    """Reads with pread, so several iterators may be open and a shrinking file is no signal.

    Every whole pass over the file finds the same windows and problems; the first one leaves
    an index behind, and `cpus` and `chunks_of` make that pass if nobody did.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        """Takes over `descriptor`, which must be seekable; `name` is for messages."""
        self._descriptor = descriptor
        self._index: dict[CpuId, _Index] | None = None
        self._known: set[tuple[int, str]] = set()
        self._blocks: dict[int, memoryview] = {}
        """Pieces of the file that were read last, by number."""
        self.info = TraceInfo(kind="xentrace", name=name)
        self.problems: list[Problem] = []

    def cpus(self) -> Sequence[CpuId]:
        """CPUs with at least one window, ascending."""
        return sorted(self._indexed())

    def look_through(self, progress: Callable[[int], None]) -> bool:
        """Find out where windows lie, if nobody did; whether it was to be done. `progress` is
        told of bytes passed, so that it does not have to be waited for in silence. Raises
        FormatError, StoreError."""
        if self._index is not None:
            return False
        index: defaultdict[CpuId, _Index] = defaultdict(_Index)
        for window in self._windows(index, self._skim(index, progress)):
            progress(len(window.payload))
        return True

    def chunks(self) -> Iterator[Chunk]:
        """Every window's whole records, in file order. Raises FormatError, StoreError."""
        for window in self._windows(defaultdict(_Index), 0):
            yield Chunk(window.cpu, window.payload, self.info.name, window.offset)

    def chunks_of(self, cpu: CpuId) -> Iterator[Chunk]:
        """One CPU's windows in file order."""
        index = self._indexed().get(cpu, _Index())
        for offset, size in zip(index.offsets, index.sizes, strict=True):
            payload = self._payload(offset, size)
            if len(payload):
                yield Chunk(cpu, payload, self.info.name, offset)

    def runs_of(self, cpu: CpuId) -> Iterator[Chunk]:
        """Like `chunks_of`, with short windows joined, for who need not know where in the file
        each is: many CPUs with little to tell make many windows. Nothing is joined in a file
        that has problems, since one may lie between."""
        index = self._indexed().get(cpu, _Index())
        if self.problems:
            yield from self.chunks_of(cpu)
            return
        parts: list[memoryview] = []
        first = length = 0
        for offset, size in zip(index.offsets, index.sizes, strict=True):
            if length + size > RUN_BYTES and parts:
                yield Chunk(cpu, _joined(parts), self.info.name, first)
                parts, length = [], 0
            payload = self._payload(offset, size)
            if len(payload):
                first = first if parts else offset
                parts.append(payload)
                length += len(payload)
        if parts:
            yield Chunk(cpu, _joined(parts), self.info.name, first)

    def losses(self) -> Sequence[Loss]:
        """None: an xentrace file tells of losses only by its lost records."""
        return ()

    def close(self) -> None:
        """Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _indexed(self) -> dict[CpuId, _Index]:
        self.look_through(ignore_progress)
        assert self._index is not None
        return self._index

    def _windows(self, index: defaultdict[CpuId, _Index], start: int) -> Iterator[Window]:
        """A pass over the file from the end of a window on; the index is there when it is
        over."""
        for event in self._events(start):
            if isinstance(event, Damage):
                self._note(event.offset, event.reason, event.missing_bytes)
            else:
                index[event.cpu].add(event.offset, len(event.payload))
                yield event
        self._index = index

    def _skim(
        self, index: defaultdict[CpuId, _Index], progress: Callable[[int], None]
    ) -> int:
        """Enter the windows of the file's start that have no fault; where the first other one
        is. That is the last one, in nearly all files: what follows it is the decoder's."""
        found = memoryview(array("Q", bytes(24 * _ROOM)))
        offset = 0
        while True:
            block = self._read(READ_BYTES, offset)
            words = block[: len(block) // 4 * 4].cast("I")
            at = 0
            while count := windows(words, at, len(words), found):
                numbers = found[: 3 * count].tolist()
                for cpu, first, at in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True):
                    if at > first:
                        index[CpuId(cpu)].add(offset + 4 * first, 4 * (at - first))
            if not at:
                return offset
            offset += 4 * at
            progress(4 * at)

    def _events(self, offset: int) -> Iterator[Window | Damage]:
        decoder = WindowDecoder(offset)
        while True:
            data = self._read(READ_BYTES, offset)
            offset += len(data)
            if data:
                decoder.feed(data)
            else:
                decoder.close()
            with named(self.info.name):
                while (event := decoder.next_event()) is not None:
                    yield event
            if not data:
                return

    def _read(self, size: int, offset: int) -> memoryview:
        """Up to `size` bytes at `offset`; fewer only at the end of the file."""
        parts = []
        while size:
            try:
                part = os.pread(self._descriptor, size, offset)
            except OSError as exc:
                raise store_error("read", Path(self.info.name), exc) from exc
            if not part:
                break
            parts.append(part)
            size -= len(part)
            offset += len(part)
        return memoryview(parts[0] if len(parts) == 1 else b"".join(parts))

    def _payload(self, offset: int, size: int) -> memoryview:
        """A window's records, or what is left of them. One buffer holds many short windows,
        and those of other CPUs between them, which are wanted next."""
        number, start = divmod(offset, _BLOCK_BYTES)
        if size > _SHORT_BYTES or start + size > _BLOCK_BYTES:
            payload = self._read(size, offset)
        else:
            payload = self._block(number)[start : start + size]
        return payload if len(payload) == size else self._shrunk(payload, offset, size)

    def _block(self, number: int) -> memoryview:
        block = self._blocks.get(number)
        if block is None:
            if len(self._blocks) == _BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            block = self._blocks[number] = self._read(_BLOCK_BYTES, number * _BLOCK_BYTES)
        return block

    def _shrunk(self, payload: memoryview, offset: int, size: int) -> memoryview:
        """The file became shorter after it was indexed: the whole records that are left."""
        words = payload[: len(payload) // 4 * 4].cast("I")
        stop = 4 * walk(words, 0, len(words))
        self._note(offset + stop, "the file became shorter while it was read", size - stop)
        return payload[:stop]

    def _note(self, offset: int, reason: str, missing_bytes: int) -> None:
        if (offset, reason) not in self._known:
            self._known.add((offset, reason))
            self.problems.append(Problem(self.info.name, offset, reason, missing_bytes))
