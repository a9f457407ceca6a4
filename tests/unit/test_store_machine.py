"""A store against a plain list: written, rotated, crashed, recovered, followed, in any order."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.segments import (
    SegmentBuilder,
    append_file,
    make_anchor,
    make_records,
    payloads,
    write_file,
)
from tracelib.losses import Cause, Loss
from tracelib.segment.findings import Severity
from tracelib.store.directory import list_segments, next_sequence
from tracelib.store.reader import StoreReader
from tracelib.store.recover import recover
from tracelib.store.verify import verify_store


class StoreMachine(RuleBasedStateMachine):
    """One writer, one reader that looks now and then, one that follows from the start."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.stored: list[tuple[int, bytes]] = []
        self.losses: list[Loss] = []
        self.builder: SegmentBuilder | None = None
        self.path: Path | None = None
        self.follower: StoreReader | None = None
        self.followed: list[tuple[int, bytes]] = []
        self.tsc = 1000

    @initialize()
    def start(self) -> None:
        self.follower = StoreReader(self.directory)
        self._open()

    def _open(self) -> None:
        self.builder = SegmentBuilder(next_sequence(self.directory))
        self.path = self.builder.write(self.directory)

    def _append(self, act) -> None:
        size = len(self.builder.data)
        act(self.builder)
        append_file(self.path, bytes(self.builder.data[size:]))

    @rule(cpu=st.sampled_from([0, 1, 3]), count=st.integers(1, 300))
    def write(self, cpu: int, count: int) -> None:
        payload = make_records(count, first_tsc=self.tsc)
        self.tsc += 10 * count
        self._append(lambda builder: builder.block(cpu, payload))
        self.stored.append((cpu, payload))

    @rule()
    def write_anchor(self) -> None:
        self._append(lambda builder: builder.anchor(self.tsc, seconds=1))

    @rule(records=st.none() | st.integers(0, 99))
    def state_a_loss(self, records: int | None) -> None:
        loss = Loss(Cause.QUEUE_FULL, 0, records)
        self._append(lambda builder: builder.losses(loss))
        self.losses.append(loss)

    @rule()
    def rotate(self) -> None:
        self._append(lambda builder: builder.seal("size", anchor=make_anchor(self.tsc)))
        self.path.rename(self.path.with_suffix(""))
        self._open()

    @rule(share=st.floats(0, 1), zeros=st.booleans())
    def crash_in_a_write(self, share: float, zeros: bool) -> None:
        """The last block reaches the disk in part, or as zeros; then the service starts again."""
        size = len(self.builder.data)
        payload = make_records(300, first_tsc=self.tsc)
        self.builder.block(0, payload)
        # The last record's last word is not zero: zeros cannot make up for it.
        torn = bytes(self.builder.data[size:])[: int(share * (128 + len(payload) - 4))]
        append_file(self.path, bytes(len(torn)) if zeros else torn)
        recover(self.directory)
        self._open()

    @rule()
    def crash_before_the_head(self) -> None:
        name = f"{next_sequence(self.directory):08d}-20261130T220000Z.xtr.open"
        write_file(self.directory / name, b"")
        recover(self.directory)
        self._open()

    @rule()
    def follow(self) -> None:
        self.followed += payloads(self.follower.new_chunks())
        assert self.followed == self.stored

    @precondition(lambda self: self.builder is not None)
    @invariant()
    def everything_is_there(self) -> None:
        with StoreReader(self.directory) as store:
            assert payloads(store.chunks()) == self.stored
            for cpu in (0, 1, 2, 3):
                assert payloads(store.chunks_of(cpu)) == [s for s in self.stored if s[0] == cpu]
            assert store.losses() == self.losses
        assert not [f for f in verify_store(self.directory) if f.severity is Severity.ERROR]
        unsealed = [entry for entry in list_segments(self.directory) if not entry.sealed]
        assert [entry.path for entry in unsealed] == [self.path]

    def teardown(self) -> None:
        if self.follower is not None:
            self.follower.close()
        shutil.rmtree(self.directory)


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=40, stateful_step_count=15)
