"""What must fit together from block to block, and from segment to segment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tracelib.segment.block import BlockHeader, Flag
from tracelib.segment.findings import Finding


@dataclass(slots=True)
class CpuChain:
    """One CPU's blocks, one after another: where the last one ended."""

    last_tsc: int = 0
    ring_id: int = 0
    ring_end: int = 0

    def follow(self, header: BlockHeader, ring_span: int | None) -> str | None:
        """Go on to the CPU's next block. `ring_span` is 2X, the range of its indexes, if known.

        Returns what is missing by the ring's positions, if anything is: a stated loss may
        explain it. Blocks of an unknown or another ring cannot be compared.
        """
        missing = None
        if header.ring_id and header.ring_id == self.ring_id and header.ring_start != self.ring_end:
            missing = (
                f"starts at ring position {header.ring_start}, "
                f"the block before ended at {self.ring_end}"
            )
        elif header.ring_id and ring_span:
            taken = (header.ring_end - header.ring_start) % ring_span
            if taken != header.payload_bytes:
                missing = f"{taken} bytes were taken from the ring, {header.payload_bytes} are here"
        self.ring_id, self.ring_end = header.ring_id, header.ring_end
        self.last_tsc = header.last_tsc or self.last_tsc
        return missing


@dataclass(slots=True)
class Disagreement:
    """A CPU whose clock is behind others': how often seen, how much at most, where first."""

    cases: int
    cycles: int
    other: int
    offset: int


class ClockCheck:
    """Compares the clocks of different CPUs by the drain rounds.

    If in round r every ring was drained to its end, then all that came with round r + 1 was
    written after round r began, so after everything that came with round r - 1. A TSC that
    says otherwise tells of clocks that disagree. Records of one round, or of two in a row,
    overlap in time and say nothing.
    """

    def __init__(self) -> None:
        self.disagreements: dict[int, Disagreement] = {}
        self._round = 0
        self._full = False
        """The round before the current one was a full one."""
        self._settled = (0, -1)
        self._before = (0, -1)
        self._current = (0, -1)
        """Highest TSC with its CPU: two rounds ago and earlier, last round, this round."""
        self._current_full = False

    def block(self, header: BlockHeader, offset: int) -> None:
        if not header.last_tsc:
            return
        if header.round != self._round:
            self._next_round(header.round)
        self._current_full = bool(header.flags & Flag.FULL_ROUND)
        tsc, cpu = self._settled
        if self._full and cpu != header.cpu and header.first_tsc < tsc:
            self._note(header.cpu, cpu, tsc - header.first_tsc, offset)
        self._current = max(self._current, (header.last_tsc, header.cpu))

    def _next_round(self, number: int) -> None:
        self._settled = max(self._settled, self._before)
        self._before, self._current = self._current, (0, -1)
        self._full, self._round = self._current_full, number

    def _note(self, cpu: int, other: int, cycles: int, offset: int) -> None:
        known = self.disagreements.get(cpu)
        if known is None:
            self.disagreements[cpu] = Disagreement(1, cycles, other, offset)
            return
        known.cases += 1
        if cycles > known.cycles:
            known.cycles, known.other = cycles, other


@dataclass(slots=True)
class _Unexplained:
    """A gap in a CPU's ring positions that no stated loss explains yet."""

    finding: Finding
    age: int = 0


class Continuity:
    """What is carried from segment to segment of a store, each CPU's chain above all."""

    def __init__(self) -> None:
        self._boot_id: str | None = None
        self._chains: dict[int, CpuChain] = {}
        self._unexplained: dict[int, _Unexplained] = {}
        self._explained: set[int] = set()
        """CPUs with a loss stated since their last block."""

    def start(self, boot_id: str | None) -> None:
        """A segment begins. TSCs and rings start anew with each boot of the hypervisor."""
        if boot_id is None or boot_id != self._boot_id:
            self._chains.clear()
        self._boot_id = boot_id

    def last_tsc(self, cpu: int) -> int:
        """Of the CPU's blocks so far; 0 if there is none."""
        return self._chain(cpu).last_tsc

    def follow(self, header: BlockHeader, ring_span: int | None) -> str | None:
        """Go on to the next block. Returns what is missing before it or of it, as far as
        nothing said before explains that; `missing` may still be explained later."""
        missing = self._chain(header.cpu).follow(header, ring_span)
        explained = header.cpu in self._explained
        self._explained.discard(header.cpu)
        return None if explained else missing

    def missing(self, cpu: int, finding: Finding) -> None:
        """Records of this CPU are missing, unless a loss is stated soon."""
        self._unexplained.setdefault(cpu, _Unexplained(finding))

    def explain(self, cpu: int) -> None:
        """A loss of this CPU is stated."""
        self._unexplained.pop(cpu, None)
        self._explained.add(cpu)

    def _chain(self, cpu: int) -> CpuChain:
        return self._chains.setdefault(cpu, CpuChain())

    def end_segment(self) -> Iterator[Finding]:
        """A gap must be explained by the end of the segment after it: when the store fails,
        losses are told in the next segment that can be written."""
        for cpu, gap in list(self._unexplained.items()):
            if gap.age:
                del self._unexplained[cpu]
                yield gap.finding
            gap.age += 1

    def end(self) -> Iterator[Finding]:
        """No more segments: what is not explained by now never will be."""
        for gap in self._unexplained.values():
            yield gap.finding
        self._unexplained.clear()
