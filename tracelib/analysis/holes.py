"""Where a file is damaged, records are missing that nothing in the stream tells of."""

from __future__ import annotations

from tracelib.chunks import Chunk, Problem, TraceReader
from tracelib.units import CpuId


class Holes:
    """Tells whether something that could not be read lies before a chunk of a CPU.

    Nobody knows which CPU's records a damaged place held, so it counts for each of them.
    """

    def __init__(self, reader: TraceReader) -> None:
        self._problems = reader.problems
        self._places: list[tuple[str, int]] = []
        self._ends: dict[CpuId, tuple[str, int]] = {}

    def before(self, chunk: Chunk) -> bool:
        """Whether there is damage between this chunk and the one before of its CPU. To be
        asked once for each chunk, in order."""
        start = chunk.file, chunk.offset
        end = self._ends.get(chunk.cpu)
        self._ends[chunk.cpu] = chunk.file, chunk.offset + len(chunk.payload)
        if end is None or not self._problems:
            return False
        new: list[Problem] = self._problems[len(self._places) :]
        self._places += [(problem.file, problem.offset) for problem in new]
        return any(end <= place < start for place in self._places)
