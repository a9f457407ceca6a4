"""What every kind of trace file gives its reader: chunks of one CPU's whole records.

A segment gives one chunk a block, an xentrace file one a window. tracelib.open() hides
which it was; columns and analysis see only this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tracelib.losses import Loss
from tracelib.units import CpuId, Nanoseconds, Tsc

if TYPE_CHECKING:
    from tracelib.ring.runstates import RunstateSnapshot


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole records of one CPU, in the order Xen wrote them; wrap fillers may be among them."""

    cpu: CpuId
    payload: memoryview
    """Little-endian 32-bit words as bytes; starts and ends at a record boundary."""
    file: str
    offset: int
    """Where the payload starts in the file."""
    before_start: bool = False
    """These records lay in the ring before the service started."""
    queue_full: bool = False
    """What its lost records tell was lost because the service had no free buffer."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a file that the reader went on past."""

    file: str
    offset: int
    reason: str
    missing_bytes: int | None = None
    """How many bytes from `offset` on could not be read as records, where that is known;
    those that should follow the end of a file that was cut are among them."""

    def __str__(self) -> str:
        return f"{self.file}: offset {self.offset}: {self.said}"

    @property
    def said(self) -> str:
        """The reason, and how much it cost."""
        if not self.missing_bytes:
            return self.reason
        return f"{self.reason} (lost: {self.missing_bytes} bytes from this offset on)"


@dataclass(frozen=True, slots=True)
class ClockAnchor:
    """One moment read on three clocks."""

    tsc: Tsc
    realtime: Nanoseconds
    monotonic: Nanoseconds


@dataclass(slots=True)
class TraceInfo:
    """What a file says of itself; None where it does not say."""

    kind: str
    """ "store", "segment", "xentrace" or "kvmtrace"."""
    name: str
    tsc_hz: int | None = None
    tsc_source: str | None = None
    cpu_vendor: str | None = None
    exit_family: str | None = None
    hypervisor: str | None = None
    hypervisor_version: str | None = None
    host: str | None = None
    anchors: list[ClockAnchor] = field(default_factory=list)
    segments: int = 0
    layout: str | None = None
    """How its records lie in it, where there are several ways."""
    tick: str = "cycles"
    """What a time stamp counts, in words."""
    losses_unknown: str | None = None
    """Why nothing can be known of losses; None where the file tells of them."""

    @property
    def xen_version(self) -> tuple[int, int] | None:
        """The hypervisor's version as far as it decides about the records' layouts."""
        match = re.match(r"(\d+)\.(\d+)", self.hypervisor_version or "")
        return None if match is None else (int(match[1]), int(match[2]))


def ignore_progress(_: int) -> None:
    """For those who do not want to hear how many bytes were read."""


def watched(chunks: Iterable[Chunk], progress: Callable[[int], None]) -> Iterator[Chunk]:
    """The chunks; `progress` is told the size of each."""
    for chunk in chunks:
        progress(len(chunk.payload))
        yield chunk


class TraceReader(Protocol):
    """A trace file or a directory of them, read with bounded memory.

    `problems` grows while chunks are read; it is complete after a whole pass.
    """

    info: TraceInfo
    problems: list[Problem]

    def cpus(self) -> Sequence[CpuId]:
        """CPUs with at least one chunk, ascending."""

    def chunks(self) -> Iterator[Chunk]:
        """Every intact chunk in file order. A chunk's payload is valid until the next step."""

    def chunks_of(self, cpu: CpuId) -> Iterator[Chunk]:
        """One CPU's chunks in file order; several such iterators may be open at once."""

    def losses(self) -> Sequence[Loss]:
        """Losses that the file states beside its records (none for xentrace files, where
        only lost records tell); complete after a whole pass."""

    def close(self) -> None: ...


@runtime_checkable
class StatefulReader(Protocol):
    """A reader of what says who ran where when it began: our own segments."""

    def state(self) -> RunstateSnapshot | None:
        """None if it does not say after all, such as where that is damaged."""
