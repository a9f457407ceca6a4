"""Programs that make xentrace files: valid ones, and ones with a fault at a known place."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence

from tracelib.chunks import Chunk
from tracelib.records import Record, iter_records, make_record
from tracelib.units import CpuId
from tracelib.xentrace.decoder import Damage, Window, WindowDecoder
from tracelib.xentrace.format import CPU_CHANGE_HEADER


def window(cpu: int, *records: bytes, size: int | None = None) -> bytes:
    """A cpu_change record and its records; `size` overrides the true window size."""
    payload = b"".join(records)
    said = len(payload) if size is None else size
    return struct.pack("<III", CPU_CHANGE_HEADER, cpu, said) + payload


def timed(tsc: int, event: int = 0x28004, *extra: int) -> bytes:
    """A record with a TSC; by default "vcpu_wake" of d0v1."""
    return make_record(event, *(extra or (0, 1)), tsc=tsc)


def lost(tsc: int, count: int, first_tsc: int, *, dom: int = 0, vcpu: int = 0) -> bytes:
    """A lost record of today's shape."""
    low, high = first_tsc & 0xFFFFFFFF, first_tsc >> 32
    return make_record(0x1F001, count, dom | vcpu << 16, low, high, tsc=tsc)


def row(first_tsc: int, count: int, step: int = 10) -> list[bytes]:
    """Records in time order, of the lengths that occur."""
    return [
        make_record(0x28004, *range(at % 8), tsc=first_tsc + at * step) for at in range(count)
    ]


def round_robin(cpus: Sequence[int] = (0, 1), rounds: int = 3, records: int = 20) -> bytes:
    """A small valid file: every CPU drained in every round, as xentrace does."""
    parts = []
    for turn in range(rounds):
        for cpu in cpus:
            parts.append(window(cpu, *row(1_000_000 + turn * 10_000 + cpu, records)))
    return b"".join(parts)


def decode(data: bytes, *, step: int | None = None) -> tuple[list[Window], list[Damage]]:
    """Everything the decoder says of `data`, fed in steps of so many bytes."""
    decoder = WindowDecoder()
    events: list[Window | Damage] = []

    def drain() -> None:
        while (event := decoder.next_event()) is not None:
            events.append(event)

    for at in range(0, len(data), step or max(len(data), 1)):
        decoder.feed(data[at : at + (step or len(data))])
        drain()
    decoder.close()
    drain()
    return (
        [event for event in events if isinstance(event, Window)],
        [event for event in events if isinstance(event, Damage)],
    )


def records_of(windows: Sequence[Window]) -> list[tuple[int, int, Record]]:
    """(cpu, offset in the stream, record) of every record, in stream order."""
    return [
        (item.cpu, item.offset + record.offset, record._replace(offset=0))
        for item in windows
        for record in iter_records(item.payload)
    ]


def chunks_from(payloads: Sequence[tuple[int, bytes]]) -> Iterator[Chunk]:
    """Chunks as a reader would give them."""
    for cpu, payload in payloads:
        yield Chunk(CpuId(cpu), memoryview(payload), "test", 0)


def noise(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)
