"""A program that builds segments, with known records in them, and damages them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tracelib.chunks import ClockAnchor
from tracelib.losses import Loss
from tracelib.records import (
    CPU_CHANGE,
    LOST_RECORDS,
    WRAP_BUFFER,
    iter_records,
    make_record,
    parse_lost,
)
from tracelib.ring.runstates import RunstateSnapshot
from tracelib.segment.block import HEADER_BYTES, BlockHeader, Kind, padded_bytes
from tracelib.segment.encoder import SegmentEncoder
from tracelib.segment.metadata import Metadata
from tracelib.store import fsops
from tracelib.store.names import new_name
from tracelib.units import CpuId, Nanoseconds, Tsc

CREATED_AT = Nanoseconds(1_796_076_000 * 10**9)
"""2026-11-30 22:00:00 UTC."""
TSC_HZ = 2_000_000_000
NO_STATE = RunstateSnapshot(cpus={}, vcpus=(), overflow=0)


def make_metadata(sequence: int = 1, **changes: Any) -> Metadata:
    """A plausible simulated machine of four CPUs, one of them without a ring."""
    fields: dict[str, Any] = {
        "sequence": sequence,
        "run_id": "5eed",
        "created_at": CREATED_AT,
        "service_version": "0.1.0",
        "previous_reason": "none",
        "source": "sim",
        "host": "testhost",
        "boot_id": "b007",
        "hypervisor": "sim",
        "hypervisor_version": "4.17",
        "cpu_vendor": "GenuineIntel",
        "exit_family": "vmx",
        "tsc_hz": TSC_HZ,
        "tsc_source": "simulated",
        "cpus": 4,
        "ring_cpus": (CpuId(0), CpuId(1), CpuId(3)),
        "ring_pages_wanted": 32,
        "ring_pages": 32,
        "events_wanted": 0x0FFFFFFF,
        "events": 0x0FFFFFFF,
    }
    return Metadata(**(fields | changes))


def make_records(
    count: int, *, first_tsc: int = 1000, step: int = 10, event: int = 0x21011
) -> bytes:
    """`count` records of 16 bytes, `step` cycles apart; each carries its number."""
    return b"".join(
        make_record(event, number, tsc=first_tsc + number * step) for number in range(count)
    )


def make_anchor(tsc: int = 1000, *, seconds: int = 0) -> ClockAnchor:
    moment = seconds * 10**9
    return ClockAnchor(Tsc(tsc), Nanoseconds(CREATED_AT + moment), Nanoseconds(10**9 + moment))


def header_for(cpu: int, payload: bytes, **changes: Any) -> BlockHeader:
    """A records header with counts taken record by record, as FORMAT.md has the rule."""
    records = [r for r in iter_records(payload) if r.event not in (WRAP_BUFFER, CPU_CHANGE)]
    lost = [record for record in records if record.event == LOST_RECORDS]
    told = [loss for record in lost if (loss := parse_lost(record.extra)) is not None]
    times = [record.tsc for record in records if record.tsc is not None]
    header = BlockHeader(
        Kind.RECORDS, len(payload), padded_bytes(len(payload)), 0, cpu=cpu,
        records=len(records),
        lost_marks=len(lost),
        lost=sum(loss.count for loss in told),
        lost_first_tsc=next((loss.first_tsc for loss in told if loss.first_tsc), Tsc(0)),
        lost_last_tsc=(lost[-1].tsc or Tsc(0)) if lost else Tsc(0),
        first_tsc=times[0] if times else Tsc(0),
        last_tsc=times[-1] if times else Tsc(0),
        drained_at=Nanoseconds(CREATED_AT + 10**9),
    )
    return header._replace(**changes)


class SegmentBuilder:
    """Puts blocks together, whole or damaged.

        SegmentBuilder().block(0, make_records(5)).seal().flip(at=4096).write(tmp_path)

    `blocks` lists where each one starts: metadata, state, anchor, then what was added.
    """

    def __init__(self, sequence: int = 1, *, state: RunstateSnapshot = NO_STATE, **metadata: Any):
        self.encoder = SegmentEncoder(make_metadata(sequence, **metadata))
        self.sequence = sequence
        self.sealed = False
        self.data = bytearray(self.encoder.head(state, make_anchor(), ()))
        self.blocks = _starts(self.data)

    def block(self, cpu: int, payload: bytes, **changes: Any) -> SegmentBuilder:
        """A records block; `changes` overwrite header fields, right or wrong."""
        staged = memoryview(bytearray(b"\xa5" * padded_bytes(len(payload))))
        staged[HEADER_BYTES : HEADER_BYTES + len(payload)] = payload
        self.encoder.finish(staged, header_for(cpu, payload, **changes))
        return self._append(bytes(staged))

    def anchor(self, tsc: int, *, seconds: int) -> SegmentBuilder:
        return self._append(self.encoder.anchor(make_anchor(tsc, seconds=seconds), "periodic"))

    def losses(self, *losses: Loss) -> SegmentBuilder:
        return self._append(self.encoder.losses(losses))

    def seal(self, reason: str = "stop", *, anchor: ClockAnchor | None = None) -> SegmentBuilder:
        self.sealed = True
        return self._append(
            self.encoder.seal(reason, anchor, Nanoseconds(CREATED_AT + 60 * 10**9))
        )

    def raw(self, data: bytes) -> SegmentBuilder:
        """Anything at all, as a crash or a disk may leave it."""
        self.data += data
        return self

    def flip(self, at: int, bit: int = 0) -> SegmentBuilder:
        self.data[at] ^= 1 << bit
        return self

    def zero(self, at: int, length: int) -> SegmentBuilder:
        self.data[at : at + length] = bytes(length)
        return self

    def cut(self, size: int) -> SegmentBuilder:
        del self.data[size:]
        return self

    def copy(self) -> SegmentBuilder:
        """The same bytes, to damage them in another way."""
        twin = object.__new__(SegmentBuilder)
        twin.encoder, twin.sequence, twin.sealed = self.encoder, self.sequence, self.sealed
        twin.data, twin.blocks = bytearray(self.data), list(self.blocks)
        return twin

    @property
    def name(self) -> str:
        name = new_name(self.sequence, CREATED_AT)
        return (name.as_sealed() if self.sealed else name).text

    def write(self, directory: Path, *, name: str | None = None) -> Path:
        """As a file of the store in `directory`; overwrites."""
        path = directory / (name or self.name)
        path.unlink(missing_ok=True)
        write_file(path, bytes(self.data))
        return path

    def _append(self, data: bytes) -> SegmentBuilder:
        self.blocks += [len(self.data) + start for start in _starts(data)]
        self.data += data
        return self


def write_file(path: Path, data: bytes) -> None:
    """A new file with these bytes."""
    fd = fsops.create_exclusive(path)
    try:
        fsops.write_all(fd, data, 0, path=path)
    finally:
        fsops.close(fd, path=path)


def append_file(path: Path, data: bytes) -> None:
    """More bytes at the end of a file, as its writer adds them."""
    fd = fsops.open_existing(path)
    try:
        fsops.write_all(fd, data, path.stat().st_size, path=path)
    finally:
        fsops.close(fd, path=path)


def _starts(data: bytes | bytearray) -> list[int]:
    starts = []
    at = 0
    while at < len(data):
        starts.append(at)
        at += BlockHeader.decode(bytes(data[at : at + HEADER_BYTES])).block_bytes
    return starts


def payloads(chunks: Iterable[Any]) -> list[tuple[int, bytes]]:
    """(CPU, bytes) of each chunk, copied."""
    return [(chunk.cpu, bytes(chunk.payload)) for chunk in chunks]


def reasons(problems: Sequence[Any]) -> list[str]:
    return [problem.reason for problem in problems]
