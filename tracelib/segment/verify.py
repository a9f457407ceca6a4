"""Recounts a segment: every header, sum and promise is compared with the bytes.

Pure: the caller walks the file and hands over what it finds, in order.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracelib.chunks import ClockAnchor
from tracelib.errors import DataError
from tracelib.ring.layout import data_bytes
from tracelib.segment import notes
from tracelib.segment.block import HEADER_BYTES, BlockHeader, Kind
from tracelib.segment.continuity import ClockCheck, Continuity
from tracelib.segment.findings import Finding, Severity
from tracelib.segment.index import Tally
from tracelib.segment.metadata import Metadata
from tracelib.segment.recount import recount
from tracelib.segment.seal import TRAILER_BYTES, Hole, Seal, find_seal
from tracelib.segment.sealcheck import check_seal


class SegmentAudit:
    """Takes one segment's blocks and gaps in file order, then `finish`."""

    def __init__(self, file: str, sequence: int | None, continuity: Continuity) -> None:
        """`sequence` is the number in the file's name, if it has one."""
        self._file = file
        self._sequence = sequence
        self._continuity = continuity
        self._metadata: Metadata | None = None
        self._tally = Tally()
        self._anchors: list[ClockAnchor] = []
        self._clocks = ClockCheck()
        self._gaps: list[tuple[Hole, str]] = []
        self._expected_block = 0
        self._seal: Seal | None = None
        self._seal_offset = 0

    def gap(self, offset: int, size: int, reason: str) -> None:
        """Bytes without an intact block."""
        self._gaps.append((Hole(offset, size), reason))
        self._expected_block = -1

    def block(
        self, offset: int, header: BlockHeader, payload: memoryview, padding: memoryview
    ) -> Iterator[Finding]:
        """An intact block."""
        yield from self._check_place(offset, header)
        if bytes(padding) != bytes(len(padding)):
            yield self._error(offset, "the padding is not zero")
        if header.kind == Kind.SEAL:
            yield from self._take_seal(offset, header, payload)
            return
        self._tally.add(offset, header)
        if header.kind == Kind.RECORDS:
            yield from self._check_records(offset, header, payload)
        else:
            yield from self._check_note(offset, header, payload)

    def finish(self, size: int, *, growing: bool) -> Iterator[Finding]:
        """The end of the file, `size` bytes long. A `growing` one needs no seal."""
        if self._seal is None and size and not growing:
            yield self._error(size, "no seal: the end of the segment is missing")
        if self._seal is not None:
            damaged = bool(self._gaps)
            faults = check_seal(self._seal, self._tally, self._anchors, damaged=damaged)
            yield from (self._error(self._seal_offset, fault) for fault in faults)
        yield from self._judge_gaps(size, growing=growing)
        yield from self._judge_clocks()
        yield from self._continuity.end_segment()

    def _check_place(self, offset: int, header: BlockHeader) -> Iterator[Finding]:
        if self._seal is not None:
            yield self._error(offset, "a block behind the seal")
        if self._expected_block not in (-1, header.sequence):
            yield self._error(
                offset, f"block number {header.sequence} where {self._expected_block} belongs"
            )
        if header.sequence == 0 and header.kind != Kind.METADATA:
            yield self._error(offset, "the first block is not metadata")
        self._expected_block = header.sequence + 1

    def _check_records(
        self, offset: int, header: BlockHeader, payload: memoryview
    ) -> Iterator[Finding]:
        for fault in recount(header, payload, self._continuity.last_tsc(header.cpu)):
            severity = Severity.ERROR if fault.is_error else Severity.WARNING
            yield Finding(severity, self._file, offset + HEADER_BYTES + fault.at, fault.reason)
        metadata = self._metadata
        if metadata is not None and header.cpu not in metadata.ring_cpus:
            yield self._error(offset, f"records of CPU {header.cpu}, which has no ring")
        span = 2 * data_bytes(metadata.ring_pages) if metadata and metadata.ring_pages else None
        missing = self._continuity.follow(header, span)
        if missing is not None:
            finding = self._error(offset, f"CPU {header.cpu}: {missing}, and no loss is stated")
            self._continuity.missing(header.cpu, finding)
        self._clocks.block(header, offset)

    def _check_note(
        self, offset: int, header: BlockHeader, payload: memoryview
    ) -> Iterator[Finding]:
        try:
            if header.kind == Kind.METADATA:
                yield from self._take_metadata(offset, Metadata.decode(payload))
            elif header.kind == Kind.ANCHOR:
                self._anchors.append(notes.decode_anchor(payload)[0])
            elif header.kind == Kind.STATE:
                notes.decode_state(payload)
            elif header.kind == Kind.LOSS:
                for loss in notes.decode_losses(payload):
                    self._continuity.explain(loss.cpu)
        except DataError as exc:
            yield self._error(offset, exc.reason)

    def _take_metadata(self, offset: int, metadata: Metadata) -> Iterator[Finding]:
        self._metadata = metadata
        self._continuity.start(metadata.boot_id)
        if self._sequence not in (None, metadata.sequence):
            yield self._error(
                offset, f"metadata says segment {metadata.sequence}, the name {self._sequence}"
            )

    def _take_seal(
        self, offset: int, header: BlockHeader, payload: memoryview
    ) -> Iterator[Finding]:
        try:
            self._seal, self._seal_offset = Seal.decode(payload), offset
        except DataError as exc:
            yield self._error(offset, exc.reason)
            return
        place = find_seal(payload[-TRAILER_BYTES:], offset + header.block_bytes)
        if place != (offset, header.block_bytes):
            yield self._error(offset, "the trailer does not lead to the seal")

    def _judge_gaps(self, size: int, *, growing: bool) -> Iterator[Finding]:
        known = set(self._seal.holes) if self._seal is not None else set()
        for hole, reason in self._gaps:
            severity = Severity.ERROR
            if hole in known:
                severity, reason = Severity.WARNING, f"torn when the service died ({reason})"
            elif growing and hole.offset + hole.bytes == size:
                severity, reason = Severity.WARNING, f"unfinished end ({reason})"
            said = f"{hole.bytes} bytes without an intact block: {reason}"
            yield Finding(severity, self._file, hole.offset, said)

    def _judge_clocks(self) -> Iterator[Finding]:
        for cpu, seen in self._clocks.disagreements.items():
            said = (
                f"the clock of CPU {cpu} is behind that of CPU {seen.other} by at least "
                f"{seen.cycles} cycles ({seen.cases} cases)"
            )
            yield Finding(Severity.WARNING, self._file, seen.offset, said)

    def _error(self, offset: int, reason: str) -> Finding:
        return Finding(Severity.ERROR, self._file, offset, reason)
