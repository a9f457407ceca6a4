"""One segment file as a trace to read: every record of every intact block.

The index, from the seal or rebuilt, only says where to look. Each block is checked when it
is read, so a stale index can hide nothing and invent nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tracelib.chunks import Chunk, ClockAnchor, Problem, TraceInfo
from tracelib.errors import DamageError, DataError, FormatError
from tracelib.losses import Loss
from tracelib.ring.runstates import RunstateSnapshot
from tracelib.segment import notes
from tracelib.segment.block import HEADER_BYTES, MAGIC, BlockHeader, Flag, Kind
from tracelib.segment.index import CpuTotals, Index, IndexEntry, tsc_range
from tracelib.segment.metadata import Metadata
from tracelib.segment.seal import Seal
from tracelib.store.blockfile import BlockFile, Buffer, Found
from tracelib.store.indexing import Blocks, find_blocks
from tracelib.store.names import parse_name
from tracelib.store.problems import ProblemList
from tracelib.units import CpuId, Nanoseconds, Tsc

_T = TypeVar("_T")
_NO_END = Tsc((1 << 64) - 1)


class SegmentReader:
    """Reads one segment; implements chunks.TraceReader. A context manager.

    A file that still grows is read up to where it ended when it was opened. Memory: the
    index (56 bytes a block), and a block for each open iterator.
    """

    def __init__(self, path: Path, *, problems: ProblemList | None = None) -> None:
        """Raises StoreError; FormatError if this is no segment, or one too new for us."""
        self.path = path
        self._file = BlockFile(path)
        self._noted = ProblemList() if problems is None else problems
        self.problems: list[Problem] = self._noted.problems
        self._window = (Tsc(0), _NO_END)
        self._positions: dict[CpuId, array[int]] | None = None
        try:
            self.metadata = self._read_metadata()
            self._blocks = self._find_blocks()
            self.info = self._describe()
        except BaseException:
            self.close()
            raise

    # What it says of itself

    @property
    def file(self) -> BlockFile:
        """For those who want every byte; closed with the reader."""
        return self._file

    @property
    def seal(self) -> Seal | None:
        """None if there is no intact seal: the segment is still written, or damaged."""
        return self._blocks.seal

    @property
    def index(self) -> Index:
        """All blocks but the seal, from the seal or rebuilt."""
        return self._blocks.index

    @property
    def end(self) -> int:
        """Where the last block ends that this reader knows."""
        return self._blocks.end

    def _read_metadata(self) -> Metadata | None:
        """From the first block; None if that is damaged, or the file empty."""
        if self._file.size == 0:
            return None
        buffer = Buffer()
        try:
            size = self._file.header(0, buffer).block_bytes
            block = self._file.block(0, size, buffer)
            if block.header.kind == Kind.METADATA:
                return Metadata.decode(block.payload)
            reason = f"the first block is of kind {block.header.kind}"
        except FormatError as exc:
            raise FormatError(exc.reason, file=self._file.name, offset=0, hint=exc.hint) from exc
        except DataError as exc:
            reason = exc.reason
        self._noted.add(self._file.name, 0, f"no metadata: {reason}")
        return None

    def _find_blocks(self) -> Blocks:
        name = parse_name(self.path.name)
        growing = name is not None and not name.sealed
        blocks = find_blocks(self._file, self._noted, growing=growing)
        if len(blocks.index) == 0 and self._file.size and name is None and not self._has_magic():
            raise FormatError("not a segment: no block in it", file=self._file.name, offset=0)
        return blocks

    def _has_magic(self) -> bool:
        start = memoryview(bytearray(len(MAGIC)))
        try:
            self._file.read(0, start)
        except DamageError:
            return False
        return start == MAGIC

    def _describe(self) -> TraceInfo:
        info = describe(self.metadata, kind="segment", name=self._file.name)
        info.anchors = list(self.anchors())
        info.segments = 1
        return info

    def anchors(self) -> Sequence[ClockAnchor]:
        """All clock anchors, in file order."""
        if self.seal is not None:
            return self.seal.anchors
        return [anchor for anchor, _ in self._notes(Kind.ANCHOR, notes.decode_anchor)]

    def state(self) -> RunstateSnapshot | None:
        """Who ran where when the segment was opened; None if that block is damaged."""
        return next(self._notes(Kind.STATE, notes.decode_state), None)

    def losses(self) -> Sequence[Loss]:
        """Losses stated beside the records, in file order."""
        stated = self._notes(Kind.LOSS, notes.decode_losses)
        return [loss for losses in stated for loss in losses]

    def cpus(self) -> Sequence[CpuId]:
        """CPUs with at least one records block, ascending."""
        return sorted(self._blocks.cpus)

    @property
    def totals(self) -> Mapping[CpuId, CpuTotals]:
        """Sums by CPU, as the block headers have them: only reading tells what is damaged."""
        return self._blocks.cpus

    def last_header(self, cpu: CpuId) -> BlockHeader | None:
        """Of the CPU's last records block; None if there is none, or it is damaged."""
        positions = self._by_cpu().get(cpu)
        if not positions:
            return None
        try:
            return self._file.header(self.index[positions[-1]].offset, Buffer())
        except DataError:
            return None

    @property
    def tsc_range(self) -> tuple[Tsc, Tsc] | None:
        """Earliest and latest TSC in the segment; None if no record carries one."""
        return tsc_range(self.totals.values())

    @property
    def span(self) -> tuple[Nanoseconds, Nanoseconds] | None:
        """From its creation to its seal (or last block), CLOCK_REALTIME; None if its metadata
        is damaged. The first records may be older: they waited in their ring."""
        if self.metadata is None:
            return None
        return self.metadata.created_at, self._blocks.ended_at

    # Records

    def narrow(self, first: Tsc | None = None, last: Tsc | None = None) -> None:
        """From now on leave out the blocks that lie wholly outside this range of TSCs.
        Records outside remain in the blocks at its edges; untimed blocks are never left out."""
        self._window = (first or Tsc(0), _NO_END if last is None else last)

    def chunks(self) -> Iterator[Chunk]:
        """Every intact records block in file order. A chunk's payload is valid until the
        next step; damaged blocks are noted in `problems`. Raises StoreError."""
        return self._read(entry for entry in self.index if entry.kind == Kind.RECORDS)

    def chunks_of(self, cpu: CpuId) -> Iterator[Chunk]:
        """The same of one CPU. Several iterators may be open at once."""
        positions = self._by_cpu().get(cpu, ())
        return self._read(self.index[position] for position in positions)

    def close(self) -> None:
        """Idempotent."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _by_cpu(self) -> dict[CpuId, array[int]]:
        """Positions of each CPU's records blocks in the index."""
        if self._positions is None:
            self._positions = {}
            for position, entry in enumerate(self.index):
                if entry.kind == Kind.RECORDS:
                    at = self._positions.setdefault(CpuId(entry.cpu), array("I"))
                    at.append(position)
        return self._positions

    def _read(self, entries: Iterable[IndexEntry]) -> Iterator[Chunk]:
        buffer = Buffer()
        for entry in entries:
            if self._outside(entry):
                continue
            block = self._intact(entry, buffer)
            if block is not None and block.header.kind == Kind.RECORDS:
                yield make_chunk(self._file.name, block)

    def _outside(self, entry: IndexEntry) -> bool:
        first, last = self._window
        return bool(entry.last_tsc) and (entry.last_tsc < first or entry.first_tsc > last)

    def _intact(self, entry: IndexEntry, buffer: Buffer) -> Found | None:
        """The block, or None and a problem noted."""
        try:
            return self._file.block(entry.offset, entry.block_bytes, buffer)
        except DataError as exc:
            what = "" if entry.kind != Kind.RECORDS else (
                f"; CPU {entry.cpu}, {entry.records} records not read"
            )
            reason = f"{exc.reason}{what}"
            self._noted.add(self._file.name, entry.offset, reason, entry.payload_bytes)
            return None

    def _notes(self, kind: Kind, decode: Callable[[memoryview], _T]) -> Iterator[_T]:
        """The decoded payloads of all blocks of a kind; damaged ones are noted."""
        buffer = Buffer()
        for entry in self.index:
            if entry.kind != kind or (block := self._intact(entry, buffer)) is None:
                continue
            try:
                yield decode(block.payload)
            except DataError as exc:
                self._noted.add(self._file.name, entry.offset, exc.reason)


def make_chunk(file: str, block: Found) -> Chunk:
    """A records block as a chunk."""
    header = block.header
    return Chunk(
        CpuId(header.cpu), block.payload, file, block.offset + HEADER_BYTES,
        before_start=bool(header.flags & Flag.BEFORE_START),
        queue_full=bool(header.flags & Flag.QUEUE_FULL),
    )


def describe(metadata: Metadata | None, *, kind: str, name: str) -> TraceInfo:
    """What metadata says, in the words of chunks.TraceInfo."""
    if metadata is None:
        return TraceInfo(kind, name)
    return TraceInfo(
        kind, name,
        tsc_hz=metadata.tsc_hz,
        tsc_source=metadata.tsc_source,
        cpu_vendor=metadata.cpu_vendor,
        exit_family=metadata.exit_family,
        hypervisor=metadata.hypervisor,
        hypervisor_version=metadata.hypervisor_version,
        host=metadata.host,
    )
