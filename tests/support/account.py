"""Accounts: what a store holds, read back record by record, against what was produced."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracelib.losses import Loss
from tracelib.records import LOST_RECORDS, WRAP_BUFFER, iter_records
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


def stored(store: Path, *, unsealed: bool = False) -> Account:
    """Read everything in a store. Nothing in it may be damaged; with `unsealed`, segments may
    have lost their seals."""
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
        problems = [str(x) for x in reader.problems if not (unsealed and "no seal" in x.reason)]
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
    grow on each CPU. (A lost record has the time of the record after it.)"""
    last: dict[int, int] = {}
    with StoreReader(store) as reader:
        for chunk in reader.chunks():
            for record in iter_records(chunk.payload):
                if record.tsc is None or record.event in (LOST_RECORDS, WRAP_BUFFER):
                    continue
                before = last.get(chunk.cpu, 0)
                assert record.tsc > before, f"CPU {chunk.cpu}: {record.tsc} after {before}"
                last[chunk.cpu] = record.tsc
