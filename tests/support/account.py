"""Accounts: what a store holds, read back record by record, against what was produced."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tracelib.losses import Loss
from tracelib.records import EVENT_MASK, LOST_RECORDS, TSC_FLAG, WRAP_BUFFER, iter_records
from tracelib.ring import fastpath
from tracelib.store.reader import StoreReader


@dataclass
class Account:
    """Sums over all CPUs, with each CPU's own beside them."""

    events: Counter[int] = field(default_factory=Counter)
    """Records by CPU: neither wraps nor lost records."""
    lost_marks: Counter[int] = field(default_factory=Counter)
    lost: Counter[int] = field(default_factory=Counter)
    """What the lost records say, by CPU."""
    before_start: Counter[int] = field(default_factory=Counter)
    """Records from before the start of the service that stored them."""
    stated: list[Loss] = field(default_factory=list)
    """Losses stated beside the records."""

    def stated_records(self, cause: str) -> int:
        """Records of a cause, where their number is known."""
        return sum(loss.records or 0 for loss in self.stated if loss.cause == cause)


def stored(store: Path) -> Account:
    """Read everything in a store. Nothing in it may be damaged."""
    account = Account()
    with StoreReader(store) as reader:
        for chunk in reader.chunks():
            words = chunk.payload.cast("B").cast("I")
            scan = fastpath.scan(words, 0, len(words), chunk.cpu, None)
            assert scan.stop == len(words), f"a record is cut in {chunk.file} at {chunk.offset}"
            events = scan.records - scan.lost_marks
            account.events[chunk.cpu] += events
            account.lost_marks[chunk.cpu] += scan.lost_marks
            account.lost[chunk.cpu] += scan.lost
            account.before_start[chunk.cpu] += events if chunk.before_start else 0
        account.stated += reader.losses()
        problems = [str(x) for x in reader.problems]
        assert not problems, problems
    return account


def truths(truth: dict[str, Any], what: str) -> Counter[int]:
    """One count of the hypervisor's truth, by CPU."""
    return Counter({int(cpu): counts[what] for cpu, counts in truth["cpus"].items()})


def payloads(store: Path) -> dict[int, bytes]:
    """Each CPU's records in order, without wrap fillers: the same for the same records,
    however they were cut into blocks."""
    found: dict[int, bytearray] = {}
    with StoreReader(store) as reader:
        for chunk in reader.chunks():
            found.setdefault(chunk.cpu, bytearray()).extend(_without_wraps(chunk.payload))
        assert not reader.problems, str(reader.problems[0])
    return {cpu: bytes(data) for cpu, data in sorted(found.items())}


def _without_wraps(payload: memoryview) -> bytes:
    return b"".join(
        record.encode() for record in iter_records(payload) if record.event != WRAP_BUFFER
    )


def assert_in_order(store: Path) -> None:
    """No record twice, none out of its order: time stamps of the simulated hypervisor only
    grow on each CPU."""
    last: dict[int, int] = {}
    with StoreReader(store) as reader:
        for chunk in reader.chunks():
            times = _times(chunk.payload)
            if not len(times):
                continue
            ascending = bool(np.all(times[1:] > times[:-1]))
            assert ascending, f"CPU {chunk.cpu}: out of order in {chunk.file} at {chunk.offset}"
            before = last.get(chunk.cpu, 0)
            assert times[0] > before, f"CPU {chunk.cpu}: {times[0]} after {before}"
            last[chunk.cpu] = int(times[-1])


def _times(payload: memoryview) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The time stamps of a payload's records; a lost record has that of the record after it."""
    view = payload.cast("B").cast("I")
    offsets = array("I", bytes(4 * len(view)))
    count, _ = fastpath.record_offsets(view, 0, len(view), memoryview(offsets))
    at = np.frombuffer(offsets, "<u4", count)
    words = np.frombuffer(view, "<u4")
    headers = words[at]
    events = headers & EVENT_MASK
    timed = (headers & TSC_FLAG != 0) & (events != LOST_RECORDS) & (events != WRAP_BUFFER)
    low, high = words[at[timed] + 1], words[at[timed] + 2]
    times: np.ndarray[Any, np.dtype[np.uint64]] = low.astype(np.uint64) | (
        high.astype(np.uint64) << np.uint64(32)
    )
    return times
