"""A kvmtrace set as a `tracelib.chunks.TraceReader`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tracelib.chunks import Chunk, Problem, TraceInfo
from tracelib.cpulist import format_cpu_list
from tracelib.errors import FormatError
from tracelib.kvmtrace.family import find_family
from tracelib.kvmtrace.layout import OPTION, Kind, Layout
from tracelib.kvmtrace.member import Member
from tracelib.losses import Loss
from tracelib.units import CpuId

NANOSECONDS_HZ = 10**9

LOSSES_UNKNOWN = (
    "kvmtrace keeps one number of losses for all CPUs, which it prints at its end and writes "
    "into no file"
)


class KvmtraceReader:
    """Every CPU's file, read on its own: what is wrong in one leaves the others as they are.

    A set is of one machine and one run: a file whose byte order or layout is not that of the
    first one with records is left out, and named.
    """

    def __init__(
        self, paths: Mapping[CpuId, Path], name: str, asked: Kind | None = None
    ) -> None:
        """`paths` are the files by CPU, at least one; `asked` is the layout, if the user says
        so. Raises StoreError; FormatError if no file has a record of that layout."""
        self.problems: list[Problem] = []
        self._known: set[Problem] = set()
        self._members: dict[CpuId, Member] = {}
        with ExitStack() as undone:
            undone.callback(self.close)
            for cpu, path in sorted(paths.items()):
                self._members[cpu] = Member(cpu, path)
            self.layout = self._common_layout(name, asked)
            self._note_holes(name, paths)
            self.info = self._describe(name)
            undone.pop_all()

    def cpus(self) -> Sequence[CpuId]:
        """Those of which there is a file with something in it."""
        return [cpu for cpu, member in self._members.items() if not member.empty]

    def chunks(self) -> Iterator[Chunk]:
        """One CPU's file after the other. Raises StoreError."""
        for cpu in self._members:
            yield from self.chunks_of(cpu)

    def chunks_of(self, cpu: CpuId) -> Iterator[Chunk]:
        """One CPU's records in file order. Raises StoreError."""
        if self.layout is not None and cpu in self._members:
            yield from self._members[cpu].chunks(self.layout, self._note)

    def losses(self) -> Sequence[Loss]:
        """None that the files tell of: see `info.losses_unknown`."""
        return ()

    def close(self) -> None:
        """Idempotent."""
        for member in self._members.values():
            member.close()

    def _common_layout(self, name: str, asked: Kind | None) -> Layout | None:
        """That of the first file with records; None if all are empty. Others with another one
        are no members."""
        common: Layout | None = None
        first = ""
        for cpu, member in list(self._members.items()):
            found = member.layout(asked)
            if found is None:
                continue
            if common is None:
                common, first = found, member.name
            elif found != common:
                reason = f"its layout is {found}, that of {first} {common}: left out"
                self._note(Problem(member.name, 0, reason, member.length))
                del self._members[cpu]
                member.close()
        if common is None and not all(member.empty for member in self._members.values()):
            raise FormatError(
                "no record of kvmtrace's is in it" + (f" ({OPTION} {asked})" if asked else ""),
                file=name, offset=0, hint="a set is files NAME.kvmtrace.CPU, one a CPU",
            )
        return common

    def _note_holes(self, name: str, cpus: Collection[CpuId]) -> None:
        """kvmtrace makes a file for each CPU from 0 on, whether or not something comes."""
        if len(cpus) == 1:
            return
        missing = [cpu for cpu in range(max(cpus)) if cpu not in cpus]
        if missing:
            which = format_cpu_list(missing)
            self._note(Problem(name, 0, f"the file of CPU {which} is not there"))

    def _describe(self, name: str) -> TraceInfo:
        info = TraceInfo(kind="kvmtrace", name=name, losses_unknown=LOSSES_UNKNOWN)
        if self.layout is None:
            return info
        info.layout = str(self.layout)
        info.tick = self.layout.tick
        if self.layout.kind is Kind.TIMESTAMP:
            info.tsc_hz, info.tsc_source = NANOSECONDS_HZ, "the time stamps are nanoseconds"
        info.exit_family = find_family(self.layout, self._beginnings())
        return info

    def _beginnings(self) -> Iterator[Chunk]:
        for cpu in self._members:
            yield from self._first(cpu)

    def _first(self, cpu: CpuId) -> Iterator[Chunk]:
        chunk = next(self.chunks_of(cpu), None)
        if chunk is not None:
            yield chunk

    def _note(self, problem: Problem) -> None:
        """Every pass over a file finds the same again."""
        if problem not in self._known:
            self._known.add(problem)
            self.problems.append(problem)
