"""Reading on in a store that is being written: what came since the last look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tracelib.chunks import Chunk
from tracelib.errors import DataError, FormatError
from tracelib.losses import Loss
from tracelib.segment import notes
from tracelib.segment.block import Kind
from tracelib.segment.metadata import Metadata
from tracelib.store.blockfile import BlockFile, Found, Gap
from tracelib.store.directory import SegmentEntry, list_segments, open_entry
from tracelib.store.problems import ProblemList
from tracelib.store.segment import make_chunk


class Follower:
    """A place in a store, and the way on from there, across rotations."""

    def __init__(
        self, directory: Path, problems: ProblemList, *, sequence: int,
        file: BlockFile | None = None, offset: int = 0,
    ) -> None:
        """Starts at `offset` of segment number `sequence`, which is `file` if that is given,
        and will be closed here; else with the first segment of that number or above."""
        self._directory = directory
        self._problems = problems
        self._sequence = sequence
        self._file = file
        self._offset = offset
        self._losses: list[Loss] = []

    def chunks(self) -> Iterator[Chunk]:
        """Every intact records block that is complete by now. Ends when there is no more;
        call it again later. Raises StoreError."""
        for file, block in self.blocks():
            if block.header.kind == Kind.RECORDS:
                yield make_chunk(file.name, block)
            else:
                self._take_note(file, block)

    def blocks(self) -> Iterator[tuple[BlockFile, Found]]:
        """The same of all kinds of blocks, and the file that each is in: another one for
        each segment, which is closed when it is left. Use either this or `chunks`."""
        while self._at_segment():
            yield from self._advance()
            following = self._following()
            if following is None:
                return
            # The writer leaves a segment before it makes the next one, so what is here now
            # is all that will ever be.
            yield from self._advance()
            self._leave(following)

    def losses(self) -> list[Loss]:
        """Losses stated in what `chunks` passed since the last call."""
        taken, self._losses = self._losses, []
        return taken

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _at_segment(self) -> bool:
        """Have the current segment open; False if there is none yet."""
        if self._file is not None:
            return True
        for entry in list_segments(self._directory):
            if entry.sequence >= self._sequence and self._open(entry):
                return True
        return False

    def _open(self, entry: SegmentEntry) -> bool:
        self._file = open_entry(entry, BlockFile)
        if self._file is not None and entry.sequence > self._sequence:
            self._sequence, self._offset = entry.sequence, 0
        return self._file is not None

    def _following(self) -> int | None:
        """The least number that the next segment can have; None while this one goes on."""
        assert self._file is not None
        if self._file.is_deleted():
            # By retention; or it had no record when the service died, and the next start
            # removed it. Then another one has its number.
            return self._sequence
        later = any(entry.sequence > self._sequence for entry in list_segments(self._directory))
        return self._sequence + 1 if later else None

    def _leave(self, following: int) -> None:
        assert self._file is not None
        if self._offset < self._file.size:
            self._note(Gap(self._offset, self._file.size - self._offset, "torn end of a segment"))
        self.close()
        self._sequence, self._offset = following, 0

    def _advance(self) -> Iterator[tuple[BlockFile, Found]]:
        """What is complete behind `_offset`. A torn end may be a write in flight: wait."""
        assert self._file is not None
        file = self._file
        file.refresh()
        torn: Gap | None = None
        for item in file.walk(self._offset, payloads=True):
            if isinstance(item, Gap):
                torn = item
                continue
            if torn is not None:
                self._note(torn)
                torn = None
            self._offset = item.end
            yield file, item

    def _take_note(self, file: BlockFile, block: Found) -> None:
        try:
            if block.header.kind == Kind.LOSS:
                self._losses += notes.decode_losses(block.payload)
            elif block.header.kind == Kind.METADATA:
                # A newer service may have taken over while we follow.
                Metadata.decode(block.payload)
        except FormatError as exc:
            raise FormatError(
                exc.reason, file=file.name, offset=block.offset, hint=exc.hint
            ) from exc
        except DataError as exc:
            self._problems.add(file.name, block.offset, exc.reason)

    def _note(self, gap: Gap) -> None:
        assert self._file is not None
        self._problems.add(self._file.name, gap.offset, gap.reason, gap.bytes)
