"""A segment made again of the intact blocks of a damaged one, with what is gone stated as a loss.

Pure: the caller walks the damaged file and writes what comes out, in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracelib.causes import Cause
from tracelib.chunks import ClockAnchor
from tracelib.errors import DamageError
from tracelib.losses import Loss, merge_losses
from tracelib.segment import notes
from tracelib.segment.block import BlockHeader, Kind, build_block
from tracelib.segment.continuity import CpuChain
from tracelib.segment.index import IndexEntry, Tally
from tracelib.segment.metadata import Metadata
from tracelib.segment.seal import Seal
from tracelib.units import CpuId, Nanoseconds, Tsc

REASON = "repair"
"""Why a segment ended whose own seal is gone."""


class Rebuilder:
    """Takes blocks and gaps in order, then `finish`; each gives bytes for the new file.

    Payloads and headers stay as they were, but for the block's number.
    """

    def __init__(self, seal: Seal | None) -> None:
        """`seal` is the damaged segment's, if that is intact."""
        self.losses: list[Loss] = []
        self.headless = True
        """There was no intact metadata."""
        self._old_seal = seal
        self._holes = frozenset(seal.holes if seal is not None else ())
        self._entries = [e for e in seal.index if e.kind == Kind.RECORDS] if seal else []
        self._chains: dict[int, CpuChain] = {}
        self._suspects: set[int] = set()
        """CPUs with a stretch of the file before their next block of which nobody knows
        whose it was."""
        self._ring_cpus: Sequence[int] = ()
        self._tally = Tally()
        self._anchors: list[ClockAnchor] = []
        self._size = 0
        self._count = 0

    @property
    def records(self) -> int:
        """Kept ones, by the format's counting rule."""
        return sum(cpu.records for cpu in self._tally.cpus.values())

    def block(self, header: BlockHeader, payload: memoryview) -> bytes:
        """An intact block. Raises FormatError for metadata of a newer release."""
        if header.kind == Kind.SEAL:
            return b""
        if header.kind == Kind.RECORDS:
            before = self._check_chain(header)
            return before + self._add(header, payload)
        self._note(header, payload)
        return self._add(header, payload)

    def gap(self, offset: int, size: int, headers: Sequence[BlockHeader], unknown: int) -> bytes:
        """A stretch of `size` bytes without an intact block. `headers` are those in it that
        are intact by themselves, `unknown` how many bytes belong to none of them."""
        if (offset, size) in self._holes:
            # Torn when the service died: the next segment states that loss.
            return b""
        if self._old_seal is not None:
            entries = [e for e in self._entries if offset <= e.offset < offset + size]
            return self._lose([_loss(entry) for entry in entries])
        if unknown:
            self._suspects |= {*self._chains, *self._ring_cpus}
        return self._lose([_loss(header) for header in headers if header.kind == Kind.RECORDS])

    def finish(self, *, cut: bool) -> bytes:
        """The end. `cut`: there should have been a seal, and there is no trace of it."""
        last = self._suspects | ({*self._chains, *self._ring_cpus} if cut else set())
        tail = self._lose([
            Loss(
                Cause.DAMAGED, CpuId(cpu), None, first_tsc=self._last_tsc(cpu),
                at=self._tally.drained_at, detail="the end of the segment is damaged",
            )
            for cpu in sorted(last)
        ])  # fmt: skip
        old = self._old_seal
        seal = Seal(
            reason=REASON if old is None else old.reason,
            ended_at=self._tally.drained_at if old is None else old.ended_at,
            cpus=self._tally.cpus, anchors=self._anchors, index=self._tally.index,
        )
        return tail + seal.build(self._size, self._count)

    def _check_chain(self, header: BlockHeader) -> bytes:
        """What the ring's positions say of records that are missing before a block."""
        chain = self._chains.setdefault(header.cpu, CpuChain())
        before = self._last_tsc(header.cpu)
        missing = chain.follow(header, None)
        suspect = header.cpu in self._suspects
        self._suspects.discard(header.cpu)
        if missing is None or not suspect:
            return b""
        return self._lose([
            Loss(
                Cause.DAMAGED, CpuId(header.cpu), None, first_tsc=before,
                last_tsc=header.first_tsc or None, at=header.drained_at, detail=missing,
            )
        ])  # fmt: skip

    def _last_tsc(self, cpu: int) -> Tsc | None:
        chain = self._chains.get(cpu)
        return Tsc(chain.last_tsc) if chain is not None and chain.last_tsc else None

    def _note(self, header: BlockHeader, payload: memoryview) -> None:
        try:
            if header.kind == Kind.METADATA:
                self._ring_cpus = Metadata.decode(payload).ring_cpus
                self.headless = False
            elif header.kind == Kind.ANCHOR:
                self._anchors.append(notes.decode_anchor(payload)[0])
        except DamageError:
            # Its checksum is right, so a newer release wrote it in a way of its own.
            return

    def _lose(self, losses: list[Loss]) -> bytes:
        """A loss block for them, if there are any."""
        if not losses:
            return b""
        merged = merge_losses(losses)
        self.losses += merged
        noticed = max((loss.at or Nanoseconds(0) for loss in merged), default=Nanoseconds(0))
        payload = notes.encode_losses(merged)
        return self._add(BlockHeader(Kind.LOSS, 0, 0, 0, drained_at=noticed), payload)

    def _add(self, header: BlockHeader, payload: bytes | memoryview) -> bytes:
        block = build_block(header._replace(sequence=self._count), payload)
        numbered = BlockHeader.decode(block)
        self._tally.add(self._size, numbered)
        self._size += len(block)
        self._count += 1
        return block


def _loss(block: BlockHeader | IndexEntry) -> Loss:
    """A damaged records block, as its header or the index has it."""
    return Loss(
        Cause.DAMAGED, CpuId(block.cpu), block.records, block.payload_bytes,
        block.first_tsc or None, block.last_tsc or None,
        at=block.drained_at if isinstance(block, BlockHeader) else None,
        detail="damaged on the disk",
    )
