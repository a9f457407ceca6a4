"""A file's records instead of guests: they wait for room, so that none is dropped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from tracelib import reading
from tracelib.chunks import TraceReader
from tracelib.errors import FormatError
from tracelib.losses import Loss
from tracelib.units import CpuId, Nanoseconds, Tsc
from xtraced.sources.sim.abi import PhysInfo, Wrong
from xtraced.sources.sim.hypervisor import Hypervisor

_MAX_LAG = 50_000_000
"""Nanoseconds that a paced replay may be behind; more is forgiven, so that there is no flood."""


_FIRST_PROBLEMS = 5
"""So many are told in full: as many as the log shows of one kind."""


class ReplayWorkload:
    """The chunks of a file in its order, each into its CPU's ring.

    A full ring makes all wait: the file's order is kept, and the consumer, who was told at
    the half, makes room in his own time. `rate` is in bytes a second, 0 is no limit.
    """

    def __init__(self, reader: TraceReader, rate: int, hypervisor: Hypervisor) -> None:
        self.finished = False
        self.tick = Nanoseconds(1_000_000)
        self._reader = reader
        self._rate = rate
        self._hypervisor = hypervisor
        self._chunks = self._pieces()
        self._cpu = CpuId(0)
        self._words = memoryview(b"").cast("I")
        self._at = 0
        self._due_since: Nanoseconds | None = None
        self._paid = 0
        self._lost: dict[str, int | None] = {}

    def clock(self) -> tuple[Tsc, Nanoseconds, int]:
        """A file's time stamps have nothing to do with now."""
        return Tsc(0), Nanoseconds(0), 0

    def start(self, now: Nanoseconds) -> None:
        self._due_since = now
        self._paid = 0

    def advance(self, now: Nanoseconds) -> None:
        while not self.finished and self._hypervisor.host.enabled and not self._hypervisor.stuck:
            if self._at == len(self._words) and not self._next():
                self.finished = True
                self._lost = _by_cause(self._reader.losses())
                self._reader.close()
            elif not self._push(self._allowed(now)):
                return

    def wrong(self) -> Wrong:
        """What the reader went on past, and what the file says beside its records."""
        problems = self._reader.problems
        first = [asdict(problem) for problem in problems[:_FIRST_PROBLEMS]]
        return Wrong(len(problems), first, self._lost)

    def _pieces(self) -> Iterator[tuple[CpuId, memoryview]]:
        for chunk in self._reader.chunks():
            yield chunk.cpu, chunk.payload.cast("B").cast("I")

    def _next(self) -> bool:
        """Take up the next chunk; False at the end of the file."""
        piece = next(self._chunks, None)
        if piece is None:
            return False
        self._cpu, self._words = piece
        self._at = 0
        return True

    def _allowed(self, now: Nanoseconds) -> int:
        """How many words the rate allows now."""
        if self._rate == 0:
            return len(self._words)
        assert self._due_since is not None
        due = self._rate * (now - self._due_since) // 10**9 - self._paid
        flood = due - self._rate * _MAX_LAG // 10**9
        if flood > 0:
            self._paid += flood
            due -= flood
        return max(0, due) // 4

    def _push(self, words: int) -> bool:
        """Trace up to so many words of the chunk, whole records; False if it has to wait."""
        ring = self._hypervisor.rings[self._cpu]
        before = self._at
        end = min(len(self._words), before + words)
        self._at = ring.replay(self._words, before, end)
        self._paid += 4 * (self._at - before)
        self._hypervisor.deliver()
        return self._at > before


def _by_cause(losses: Iterable[Loss]) -> dict[str, int | None]:
    """Records by cause; None where nobody could count some of them."""
    sums: dict[str, int | None] = {}
    for loss in losses:
        before = sums.get(loss.cause, 0)
        counted = before is not None and loss.records is not None
        sums[loss.cause] = (before or 0) + (loss.records or 0) if counted else None
    return sums


def open_replay(path: Path) -> tuple[TraceReader, PhysInfo, list[CpuId]]:
    """A file, the machine it makes, and the CPUs that have records in it.

    Raises FormatError or StoreError if it cannot be read.
    """
    reader = reading.open(path)
    if reader.info.kind == "kvmtrace":
        reader.close()
        raise FormatError(
            "a kvmtrace set cannot be replayed: its records are not Xen's", file=str(path),
            hint="xtracectl info, dump and summary read it",
        )
    cpus = list(reader.cpus()) or [CpuId(0)]
    info = reader.info
    physinfo = PhysInfo(
        nr_cpus=len(cpus),
        max_cpu_id=max(cpus),
        tsc_hz=info.tsc_hz or 0,
        name="file",
        version=info.hypervisor_version or "",
        capabilities="",
        cpu_vendor=info.cpu_vendor or "",
        cpu_model="",
        exit_family=info.exit_family or "",
        boot_id="",
        tsc_source="file" if info.tsc_hz else "",
    )
    return reader, physinfo, cpus
