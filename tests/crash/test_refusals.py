"""A disk that refuses one call, whichever, with whatever error: the service goes on, what could not
be stored is counted, and the account is exact."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.support.staged import StoreBench, opening, stored_tscs
from tracelib.errors import StoreError
from tracelib.losses import Cause
from tracelib.store import fsops
from tracelib.store.directory import list_segments
from tracelib.store.ledger import Ledger
from tracelib.store.recover import recover
from tracelib.store.segment import SegmentReader
from tracelib.units import Nanoseconds
from xtraced.retention import Limits

CALLS = (
    "write_all", "fdatasync", "create_exclusive", "rename_noreplace", "unlink", "truncate",
    "sync_directory", "replace", "open_or_create", "close",
)  # fmt: skip
ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT)


class Refusal:
    """One kind of call fails once: the n-th time; without an n, it is counted."""

    def __init__(self, patch: pytest.MonkeyPatch, name: str, number: int, at: int | None) -> None:
        self.calls = 0
        real = getattr(fsops, name)

        def call(*args, **more):
            self.calls += 1
            if self.calls == at:
                if name == "close":
                    real(*args, **more)  # The kernel closes whatever it then says.
                raise StoreError(f"{name}: {os.strerror(number)}", errno=number)
            return real(*args, **more)

        patch.setattr(fsops, name, call)


def live(bench: StoreBench) -> int:
    """A life with rotations, deletions, syncs and a stop; how many records it wrote."""
    try:
        bench.open()
    except StoreError:
        # A store that refuses at the start is one that the service does not start with.
        return 0
    for number in range(4):
        bench.write(3, 2)
        bench.clock.advance(10**10)
        bench.store.housekeep(opening().anchor)
        bench.write(4)
        try:
            bench.rotate()
        except StoreError:
            continue
        bench.write(1 + number)
    # What is not told yet is told with the next buffer that is stored.
    bench.write(1)
    bench.write(1)
    try:
        bench.close()
    except StoreError:
        bench.store.close("stop", None)
    return bench.next_tsc


def account(directory: Path, written: int) -> None:
    left_over = recover(directory)
    assert all(one.detail == "" for one in left_over), left_over
    ledger, trouble = Ledger.load(directory, Nanoseconds(0))
    assert trouble in (None, "there is none")
    there: list[int] = []
    for entry in list_segments(directory):
        there += stored_tscs(entry.path)
        with SegmentReader(entry.path) as segment:
            stated = [loss for loss in segment.losses() if loss.cause != Cause.WRITE_FAILED]
        assert stated == []
    assert there == sorted(set(there)), "nothing twice, order kept"
    if not written:
        return
    failed = ledger.sums.lost_by_cause().get("write_failed", 0)
    if not ledger.rebuilt:
        assert ledger.sums.records.total() + failed == written
        assert len(there) + ledger.deleted.records == ledger.sums.records.total()


@pytest.mark.parametrize("number", ERRORS, ids=lambda number: errno.errorcode[number])
@pytest.mark.parametrize("name", CALLS)
def test_any_call_refused_once(tmp_path, monkeypatch, name, number):
    """R11, R38, R59, R60: at every n-th call of each kind."""

    def one(at: int | None) -> int:
        directory = tmp_path / f"{at}"
        directory.mkdir()
        bench = StoreBench(directory, Limits(0, 0, 0, 3))
        with monkeypatch.context() as patch:
            refusal = Refusal(patch, name, number, at)
            written = live(bench)
        account(directory, written)
        return refusal.calls

    calls = one(None)
    assert calls
    for at in range(1, calls + 1):
        one(at)
