"""Blocks that a dead service had taken out of the rings and not stored: into the store, once.

A block is known by whose it is and where in the ring it was, and by its checksum. What the
store holds already is left out; the rest goes behind the segment that the dead service had
open, as it would have gone, or into a new one if none was open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tracelib.errors import DataError, StoreError
from tracelib.ring.runstates import RunstateSnapshot
from tracelib.segment.block import BlockHeader, Kind, build_block
from tracelib.segment.encoder import SegmentEncoder
from tracelib.segment.index import Tally
from tracelib.segment.metadata import Metadata
from tracelib.store import fsops
from tracelib.store.blockfile import BlockFile, Found
from tracelib.store.directory import SegmentEntry, next_sequence
from tracelib.store.names import new_name
from tracelib.units import Nanoseconds

_SEGMENTS = 2
"""So many of the newest segments may hold blocks that are still staged: a buffer is emptied
as soon as it is written, before anything else is."""


class Staged(NamedTuple):
    """A whole block, as the service that died had staged it."""

    header: BlockHeader
    """Of a records block; its sequence means nothing."""
    payload: memoryview


def not_stored(entries: Sequence[SegmentEntry], staged: Sequence[Staged]) -> list[Staged]:
    """Those that no segment holds, in the order of `staged`. Raises StoreError."""
    if not staged:
        return []
    stored: set[tuple[int, ...]] = set()
    for entry in entries[-_SEGMENTS:]:
        stored.update(_identity(found.header) for found in _records(entry.path))
    return [block for block in staged if _identity(block.header) not in stored]


def append(path: Path, tally: Tally, offset: int, sequence: int, staged: Sequence[Staged]) -> int:
    """Write them at `offset`, a page, as blocks numbered from `sequence` on, into `tally` too;
    the file's new end. Raises StoreError: then none of them may be taken for stored."""
    fd = fsops.open_existing(path)
    start = offset
    try:
        for number, block in enumerate(staged, start=sequence):
            whole = build_block(block.header._replace(sequence=number), block.payload)
            fsops.write_all(fd, whole, offset, path=path)
            tally.add(offset, block.header._replace(block_bytes=len(whole)))
            offset += len(whole)
        fsops.fdatasync(fd, path=path)
    except StoreError:
        # Whole blocks may be there that no disk has.
        with suppress(StoreError):
            fsops.truncate(fd, start, path=path)
        raise
    finally:
        fsops.close(fd, path=path)
    return offset


def begin(directory: Path, metadata: Metadata, *, group: int | None) -> SegmentEntry:
    """A new unsealed segment of the dead service, for blocks to go to; it has its metadata
    and says nothing of who runs where. Raises StoreError."""
    sequence = next_sequence(directory)
    metadata = replace(metadata, sequence=sequence, previous_reason="crash")
    name = new_name(sequence, Nanoseconds(metadata.created_at))
    path = directory / name.text
    head = SegmentEncoder(metadata).head(RunstateSnapshot({}, (), 0), None, ())
    fd = fsops.create_exclusive(path, group=group)
    try:
        fsops.write_all(fd, head, 0, path=path)
    finally:
        fsops.close(fd, path=path)
    return SegmentEntry(path, name, len(head))


def _records(path: Path) -> Iterator[Found]:
    file = BlockFile(path)
    try:
        for item in file.walk(payloads=True):
            if isinstance(item, Found) and item.header.kind == Kind.RECORDS:
                yield item
    except DataError:
        return
    finally:
        file.close()


def _identity(header: BlockHeader) -> tuple[int, ...]:
    return (
        header.cpu, header.round, header.ring_id, header.ring_start, header.ring_end,
        header.checksum or 0,
    )
