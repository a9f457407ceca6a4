"""What a service that died left behind: unsealed segments, closed for good at the next start.

Nothing here may keep a service from starting: whatever cannot be put right is reported
and left as it is.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tracelib.chunks import ClockAnchor
from tracelib.errors import DataError, StoreError, XtraceError
from tracelib.segment import notes
from tracelib.segment.block import HEADER_BYTES, PAGE, BlockHeader, Kind
from tracelib.segment.index import Tally
from tracelib.segment.metadata import Metadata
from tracelib.segment.seal import Hole, Seal
from tracelib.store import fsops
from tracelib.store.blockfile import BlockFile, Found, Gap
from tracelib.store.directory import SegmentEntry, list_segments
from tracelib.store.handover import Staged, append, begin, not_stored
from tracelib.store.segment import SegmentReader
from tracelib.units import CpuId, Tsc

REASON = "crash"
SET_ASIDE_SUFFIX = ".damaged"


class Outcome(enum.StrEnum):
    """What became of a leftover."""

    SEALED = "sealed"
    """Its blocks are indexed and sealed, its name is a sealed one."""
    REMOVED = "removed"
    """It held neither records nor losses."""
    SET_ASIDE = "set aside"
    """Not one intact block in it: renamed, so that it is no segment any more."""
    LEFT = "left"
    """Not put right; `detail` says why. Whatever is intact in it can be read as it is."""


class Recovered(NamedTuple):
    """One leftover and what was done about it."""

    path: str
    """Its name now, or the last one it had."""
    sequence: int
    outcome: Outcome
    records: int = 0
    torn_bytes: int = 0
    """Bytes without an intact block, up to the next page: kept, and skipped by readers."""
    detail: str = ""
    handed_over: int = 0
    """Records among `records` that the dead service had taken and not stored."""


def recover(
    directory: Path, staged: Sequence[Staged] = (), metadata: Metadata | None = None, *,
    group: int | None = None,
) -> list[Recovered]:
    """Deal with every unsealed segment of a store that nobody writes to: the caller holds
    its lock.

    `staged` is what the service that died had taken and may not have stored, in its order,
    and `metadata` what it last said of itself. Raises StoreError if the directory cannot be
    listed, or if something staged cannot be stored: it is still with the caller then, so a
    later attempt may. `group` may read a segment that has to be begun for it.
    """
    entries = list_segments(directory)
    missing = not_stored(entries, staged)
    results = []
    for entry in entries:
        if not entry.sealed:
            last = entry is entries[-1]
            result = _recover_one(entry, missing if last else ())
            missing = [] if result.handed_over else missing
            results.append(result)
    if missing:
        results.append(_recover_alone(directory, missing, metadata, group))
    return results


def _recover_one(entry: SegmentEntry, staged: Sequence[Staged]) -> Recovered:
    try:
        return _close(entry, staged)
    except XtraceError as exc:
        if staged and isinstance(exc, StoreError):
            raise
        return Recovered(str(entry.path), entry.sequence, Outcome.LEFT, detail=str(exc))


def _recover_alone(
    directory: Path, staged: Sequence[Staged], metadata: Metadata | None, group: int | None
) -> Recovered:
    """No segment was open, or nothing in it is intact: they get one of their own."""
    if metadata is None:
        what = f"{sum(block.header.records for block in staged)} records of an unknown run"
        return Recovered(str(directory), 0, Outcome.LEFT, detail=f"{what} are not stored")
    return _close(begin(directory, metadata, group=group), staged)


def _close(entry: SegmentEntry, staged: Sequence[Staged]) -> Recovered:
    found = _scan(entry.path)
    if found.size % PAGE and not found.garbage:
        # A seal goes to a page, so the torn end becomes longer by zeros. Where these are what
        # was torn off, the last block is whole.
        _fill_page(entry.path, found.size)
        found = _scan(entry.path)
    torn_bytes = sum(hole.bytes for hole in found.holes)
    if staged and found.next_sequence and not found.sealed:
        _take_over(entry.path, found, staged)
        handed_over = sum(block.header.records for block in staged)
    else:
        handed_over = 0
    if not found.worth_keeping:
        return _put_away(entry, found, torn_bytes)
    if not found.sealed:
        _append_seal(entry.path, found)
    fsops.rename_noreplace(entry.path, entry.sealed_path)
    fsops.sync_directory(entry.path.parent)
    records = sum(cpu.records for cpu in found.tally.cpus.values())
    return Recovered(
        str(entry.sealed_path), entry.sequence, Outcome.SEALED, records, torn_bytes,
        handed_over=handed_over,
    )


def _take_over(path: Path, found: _Leftover, staged: Sequence[Staged]) -> None:
    """Put staged blocks behind what is there, as if it had been stored in time."""
    # The last block's padding may be longer than what is there of it.
    offset = max(found.size, found.end)
    found.size = append(path, found.tally, offset, found.next_sequence, staged)
    found.end = found.size
    found.next_sequence += len(staged)
    found.worth_keeping = True


def _put_away(entry: SegmentEntry, found: _Leftover, torn_bytes: int) -> Recovered:
    """Out of the store's way: it has nothing to read."""
    path, outcome = entry.path, Outcome.REMOVED
    if found.garbage:
        path, outcome = entry.sealed_path.with_suffix(SET_ASIDE_SUFFIX), Outcome.SET_ASIDE
        fsops.rename_noreplace(entry.path, path)
    else:
        fsops.unlink(path)
    fsops.sync_directory(path.parent)
    return Recovered(str(path), entry.sequence, outcome, torn_bytes=torn_bytes)


@dataclass(slots=True)
class _Leftover:
    """What a scan of a whole unsealed file found."""

    tally: Tally = field(default_factory=Tally)
    anchors: list[ClockAnchor] = field(default_factory=list)
    holes: list[Hole] = field(default_factory=list)
    worth_keeping: bool = False
    """It has records, or states losses."""
    garbage: bool = False
    """There is no intact block, and more than zeros or the beginning of the first one."""
    sealed: bool = False
    """The service died between seal and rename; nothing is wrong with it."""
    next_sequence: int = 0
    end: int = 0
    """Of the last intact block; its padding may be cut."""
    size: int = 0
    """Of the file, a seal at its end not included."""


def _scan(path: Path) -> _Leftover:
    """Read and check every block: what is indexed here will be believed later."""
    found = _Leftover()
    file = BlockFile(path)
    try:
        found.size = file.size
        for item in file.walk(payloads=True):
            if isinstance(item, Gap):
                found.holes.append(Hole(item.offset, item.bytes))
                found.garbage = not item.zeros
            else:
                _note(found, item)
        if found.garbage:
            found.garbage = not found.next_sequence and not _is_torn_head(file)
    finally:
        file.close()
    return found


def _is_torn_head(file: BlockFile) -> bool:
    """Did the service die while it wrote the very first block?"""
    view = memoryview(bytearray(HEADER_BYTES))
    try:
        header = BlockHeader.decode(view[: file.read(0, view)])
    except DataError:
        return False
    return header.kind == Kind.METADATA and file.size <= header.block_bytes


def _note(found: _Leftover, block: Found) -> None:
    header = block.header
    found.next_sequence, found.end = header.sequence + 1, block.end
    if header.kind == Kind.SEAL and block.end == found.size:
        # The disk may have stored the seal and not all of what it seals. Then another takes
        # its place, which knows of the holes.
        found.sealed = not found.holes
        found.next_sequence, found.end, found.size = header.sequence, block.offset, block.offset
        return
    found.tally.add(block.offset, header)
    found.worth_keeping |= header.kind in (Kind.RECORDS, Kind.LOSS)
    if header.kind == Kind.ANCHOR:
        try:
            found.anchors.append(notes.decode_anchor(block.payload)[0])
        except DataError:
            # Its checksum is right, so a newer release wrote it in a way of its own.
            return


def _fill_page(path: Path, size: int) -> None:
    fd = fsops.open_existing(path)
    try:
        fsops.truncate(fd, size + -size % PAGE, path=path)
    finally:
        fsops.close(fd, path=path)


def _append_seal(path: Path, found: _Leftover) -> None:
    # The last block's padding may be longer than what is there of it.
    offset = max(found.size, found.end)
    seal = Seal(
        reason=REASON,
        ended_at=found.tally.drained_at,
        cpus=found.tally.cpus,
        anchors=found.anchors,
        holes=found.holes,
        index=found.tally.index,
    )
    fd = fsops.open_existing(path)
    try:
        fsops.truncate(fd, found.size, path=path)
        fsops.write_all(fd, seal.build(offset, found.next_sequence), offset, path=path)
        fsops.fdatasync(fd, path=path)
    except StoreError:
        fsops.truncate(fd, found.size, path=path)
        raise
    finally:
        fsops.close(fd, path=path)


class RingPosition(NamedTuple):
    """Where the stored records of a CPU end."""

    ring_id: int
    ring_start: int | None
    ring_end: int
    """The ring's consumer index before and after the last stored block; the first is None
    where that block's header cannot be read."""
    last_tsc: Tsc


def ring_positions(directory: Path) -> dict[CpuId, RingPosition]:
    """How far the store got with each CPU's ring, so that a successor can tell what its
    predecessor took and never stored. Looks at newest segments first, and no further back
    than until all CPUs with a ring are found. Raises StoreError."""
    found: dict[CpuId, RingPosition] = {}
    for entry in reversed(list_segments(directory)):
        try:
            with SegmentReader(entry.path) as segment:
                rings = segment.metadata.ring_cpus if segment.metadata else ()
                for cpu, totals in segment.totals.items():
                    if cpu not in found:
                        last = segment.last_header(cpu)
                        start = None if last is None else last.ring_start
                        found[cpu] = RingPosition(
                            totals.ring_id, start, totals.ring_end, totals.last_tsc
                        )
        except DataError:
            continue
        if rings and found.keys() >= set(rings):
            break
    return found
