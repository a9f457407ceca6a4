"""Repairing: all that is intact in a damaged file, in a new file. The damaged one is only read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tracelib.chunks import ignore_progress
from tracelib.errors import DataError, FormatError, UsageError
from tracelib.losses import Loss
from tracelib.segment.block import PAGE, BlockHeader, Kind
from tracelib.segment.rebuild import Rebuilder
from tracelib.store import fsops
from tracelib.store.blockfile import BlockFile, Buffer, Gap
from tracelib.store.directory import list_segments, open_entry
from tracelib.store.indexing import read_seal
from tracelib.store.names import parse_name
from tracelib.store.newfile import new_file


@dataclass(slots=True)
class Repaired:
    """What became of one file."""

    source: str
    target: str
    records: int = 0
    """Kept."""
    gaps: list[tuple[int, int, str]] = field(default_factory=list)
    """Offset, bytes and reason of each stretch of the damaged file that is not kept."""
    losses: list[Loss] = field(default_factory=list)
    """What is known of the records that were in them."""
    repeated: int = 0
    """Blocks that were there twice, kept once."""
    headless: bool = False
    """There is no metadata: the new file does not say what machine it is of."""

    @property
    def clean(self) -> bool:
        """Nothing was wrong: the new file is like the old one."""
        return not (self.gaps or self.losses or self.repeated or self.headless)


def repair_segment(
    source: Path, target: Path, progress: Callable[[int], None] = ignore_progress
) -> Repaired:
    """Write every intact block of `source` to `target`, which must not exist, and a seal.

    `progress` is told of bytes read. Raises StoreError; FormatError if there is no block at
    all, or if a newer release wrote them; UsageError if the new file would be taken for a
    segment of the store that the old one is in.
    """
    if parse_name(target.name) is not None and target.parent.resolve() == source.parent.resolve():
        raise UsageError(
            f"{target} would be a second segment of its store",
            hint="write it to another directory",
        )
    file = BlockFile(source)
    try:
        return _repair(file, target, progress)
    finally:
        file.close()


def repair_store(
    directory: Path, target: Path, progress: Callable[[int], None] = ignore_progress
) -> Iterator[Repaired]:
    """Every segment of a store, into a new directory; one after another. What holds no
    intact block is left out, and its report says so.

    Raises StoreError; UsageError if `target` has something in it already.
    """
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"{target} is not empty", hint="name a new directory")
    fsops.make_directory(target)
    for entry in list_segments(directory):
        place = target / entry.sealed_path.name
        try:
            file = open_entry(entry, BlockFile)
        except FormatError as exc:
            yield Repaired(str(entry.path), "", gaps=[(exc.offset or 0, entry.bytes, exc.reason)])
            continue
        if file is None:
            continue  # Retention took it since the directory was listed.
        try:
            yield _repair(file, place, progress)
        except FormatError as exc:
            yield Repaired(str(entry.path), "", gaps=[(exc.offset or 0, file.size, exc.reason)])
        finally:
            file.close()


def _repair(file: BlockFile, target: Path, progress: Callable[[int], None]) -> Repaired:
    survey = _survey(file, progress)
    result = Repaired(file.name, str(target), repeated=survey.repeated)
    result.gaps = [(gap.offset, gap.bytes, gap.reason) for gap, *_ in survey.gaps]
    seal = read_seal(file)
    rebuilder = Rebuilder(seal)
    sealed = seal is not None
    buffer = Buffer()
    with new_file(target) as new:
        for item in survey.in_order():
            if isinstance(item, _Gap):
                headers, unknown = _headers_in(file, item)
                sealed |= any(header.kind == Kind.SEAL for header in headers)
                new.write(rebuilder.gap(item.gap.offset, item.gap.bytes, headers, unknown))
            else:
                found = file.block(item.offset, item.bytes, buffer)
                new.write(rebuilder.block(found.header, found.payload))
                progress(item.bytes // 2)
        name = parse_name(file.path.name)
        growing = name is not None and not name.sealed
        new.write(rebuilder.finish(cut=not sealed and not growing))
    result.records, result.losses = rebuilder.records, rebuilder.losses
    result.headless = rebuilder.headless
    return result


class _Block(NamedTuple):
    """An intact one."""

    offset: int
    bytes: int
    behind: int
    """The number of the block before it in the file; -1 for the first."""


class _Gap(NamedTuple):
    gap: Gap
    behind: int
    copy: bool = False
    """What is here is another block's copy: a disk wrote it to the wrong place."""


@dataclass(slots=True)
class _Survey:
    """What is where in a damaged file."""

    blocks: dict[int, _Block] = field(default_factory=dict)
    """By their number."""
    gaps: list[_Gap] = field(default_factory=list)
    repeated: int = 0

    def add(self, number: int, block: _Block) -> None:
        """A block. If it is there already, that which fits into its place is the right one."""
        before = self.blocks.get(number)
        copy = None
        if before is not None:
            fits = block.behind == number - 1
            copy, block = (before, block) if fits else (block, before)
        self.blocks[number] = block
        if copy is not None:
            self.repeated += 1
            gap = Gap(copy.offset, copy.bytes, f"a copy of block {number}")
            self.gaps.append(_Gap(gap, copy.behind, copy=True))

    def in_order(self) -> Iterator[_Block | _Gap]:
        """Blocks by their number, wherever a disk put them; each gap where it is."""
        gaps = sorted(self.gaps, key=lambda gap: gap.gap.offset)
        waiting = deque(sorted(gaps, key=lambda gap: gap.behind))
        for number in sorted(self.blocks):
            while waiting and waiting[0].behind < number:
                yield waiting.popleft()
            yield self.blocks[number]
        yield from waiting


def _survey(file: BlockFile, progress: Callable[[int], None]) -> _Survey:
    """Read and check all of it. Raises FormatError if nothing is intact."""
    survey = _Survey()
    behind = -1
    for item in file.walk(payloads=True):
        if isinstance(item, Gap):
            survey.gaps.append(_Gap(item, behind))
            continue
        number, size = item.header.sequence, item.header.block_bytes
        survey.add(number, _Block(item.offset, size, behind))
        behind = number
        progress(size // 2)
    if not survey.blocks:
        reason = f": {survey.gaps[0].gap.reason}" if survey.gaps else ""
        raise FormatError(f"no intact block in it{reason}", file=file.name, offset=0)
    return survey


def _headers_in(file: BlockFile, gap: _Gap) -> tuple[list[BlockHeader], int]:
    """The headers in a gap that are intact, though their blocks are not; and how many bytes
    of the gap are no part of such a block."""
    headers: list[BlockHeader] = []
    if gap.copy:
        return headers, gap.gap.bytes
    buffer = Buffer()
    unknown = 0
    offset, end = gap.gap.offset, gap.gap.offset + gap.gap.bytes
    while offset < end:
        try:
            header = BlockHeader.decode(_head(file, offset, buffer))
        except DataError:
            unknown += min(PAGE, end - offset)
            offset += PAGE
            continue
        headers.append(header)
        offset += header.block_bytes
    return headers, unknown


def _head(file: BlockFile, offset: int, buffer: Buffer) -> memoryview:
    view = buffer.take(PAGE)
    return view[: file.read(offset, view)]
