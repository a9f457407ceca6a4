"""Verifying files: reads every byte, in constant memory, and yields what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tracelib.chunks import ignore_progress
from tracelib.errors import FormatError
from tracelib.segment.continuity import Continuity
from tracelib.segment.findings import Finding, Severity
from tracelib.segment.verify import SegmentAudit
from tracelib.store.blockfile import BlockFile, Gap
from tracelib.store.directory import SegmentEntry, list_segments, open_entry
from tracelib.store.names import parse_name
from tracelib.store.segment import SegmentReader


def verify_segment(
    segment: Path | SegmentReader, progress: Callable[[int], None] = ignore_progress
) -> Iterator[Finding]:
    """Everything that is wrong in one segment; a reader is closed at the end. `progress` is
    told of bytes read. Raises StoreError; FormatError if it is no segment, or too new to be
    verified."""
    continuity = Continuity()
    reader = SegmentReader(segment) if isinstance(segment, Path) else segment
    yield from _verify(reader, continuity, progress)
    yield from continuity.end()


def verify_store(
    directory: Path, progress: Callable[[int], None] = ignore_progress
) -> Iterator[Finding]:
    """Everything that is wrong in a store, segment by segment, and between them. A segment
    that cannot be verified at all is one finding. `progress` is told of bytes read. Raises
    StoreError."""
    continuity = Continuity()
    previous: SegmentEntry | None = None
    for entry in list_segments(directory):
        yield from _check_sequence(previous, entry)
        previous = entry
        try:
            reader = open_entry(entry, SegmentReader)
        except FormatError as exc:
            yield Finding(Severity.ERROR, str(entry.path), exc.offset or 0, exc.reason)
            continue
        # None: retention took it since the directory was listed.
        if reader is not None:
            yield from _verify(reader, continuity, progress)
    yield from continuity.end()


def _check_sequence(previous: SegmentEntry | None, entry: SegmentEntry) -> Iterator[Finding]:
    if previous is None or entry.sequence == previous.sequence + 1:
        return
    if entry.sequence == previous.sequence:
        reason = f"a second segment number {entry.sequence}, beside {previous.path.name}"
    else:
        reason = f"segments {previous.sequence + 1} to {entry.sequence - 1} are missing before it"
    yield Finding(Severity.ERROR, str(entry.path), 0, reason)


def _verify(
    reader: SegmentReader, continuity: Continuity, progress: Callable[[int], None]
) -> Iterator[Finding]:
    """Closes the reader, which was opened to refuse what cannot be read at all."""
    with reader:
        file = reader.file
        name = parse_name(file.path.name)
        growing = name is not None and not name.sealed
        audit = SegmentAudit(file.name, name.sequence if name else None, continuity)
        yield from _walk(file, audit, progress, growing=growing)
        yield from audit.finish(file.size, growing=growing)


def _walk(
    file: BlockFile, audit: SegmentAudit, progress: Callable[[int], None], *, growing: bool
) -> Iterator[Finding]:
    start = 0
    torn: Gap | None = None
    for item in file.walk(payloads=True):
        if isinstance(item, Gap):
            torn = item
            continue
        if torn is not None:
            audit.gap(torn.offset, torn.bytes, torn.reason)
            torn = None
        yield from audit.block(item.offset, item.header, item.payload, item.padding)
        progress(item.end - start)
        start = item.end
    if torn is None:
        return
    if growing and file.refresh():
        # A block was being written; the file ends before it for us.
        file.size = start
    else:
        audit.gap(torn.offset, torn.bytes, torn.reason)
