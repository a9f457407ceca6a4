"""Rows of a batch in one pass: the compiled form and the plain one, against Xen's rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import captures
from tests.support.uncompiled import load_uncompiled
from tests.support.xentrace import lost
from tracelib import rows as compiled
from tracelib.columns import NOBODY_KNOWN
from tracelib.records import iter_records, make_header, make_record
from tracelib.rows import STATE_WORDS
from tracelib.xentrace.decoder import Window, WindowDecoder

plain = load_uncompiled(compiled)
FORMS = [compiled, plain]

EVENTS = [
    0x1F001, 0x1F002, 0x1F003, 0x21011, 0x21001, 0x21021, 0x21101, 0x21201, 0x21311, 0x21002,
    0x28002, 0x20100D, 0x82020, 0x0FFFFFFF, 0x21003,
]  # fmt: skip
words = st.one_of(
    st.integers(0, 0xFFFFFFFF), st.sampled_from([0, 1, 0xFFFFFFFF]),
    st.builds(
        lambda event, extra, tsc: make_header(event, extra, tsc=tsc),
        st.sampled_from(EVENTS), st.integers(0, 7), st.booleans(),
    ),
)  # fmt: skip


def fill(module, data: list[int], state: np.ndarray | None = None, flags: int = 0):
    """All columns as lists, and the state afterwards."""
    count = len(data)
    kinds = "IBBqQQI"
    columns = [np.zeros(count, kind) for kind in kinds]
    state = np.array([0, 0, 0, NOBODY_KNOWN, 0, 0], np.uint64) if state is None else state.copy()
    buffer = np.array([*data, *[0] * 9], np.uint32)
    found = module.fill(buffer.data, count, flags, state.data, *(c.data for c in columns))
    return [column[:found].tolist() for column in columns], state.tolist()


@settings(deadline=None)
@given(st.lists(words, max_size=60), st.integers(0, 15))
def test_both_forms_say_the_same_of_any_words(data, flags):
    """R26: whatever the words are, nothing behind the last one is taken for a record."""
    assert fill(compiled, data, flags=flags) == fill(plain, data, flags=flags)
    (_, extra, _, at, *_), _ = fill(plain, data)
    assert all(start + size <= len(data) for start, size in zip(at, extra, strict=True))


@pytest.mark.parametrize("name", captures.NAMES)
def test_both_forms_say_the_same_of_real_captures(name):
    decoder = WindowDecoder()
    decoder.feed(captures.capture(name))
    decoder.close()
    windows = []
    while (event := decoder.next_event()) is not None and len(windows) < 20:
        if isinstance(event, Window):
            windows.append(event)
    for window in windows:
        data = window.payload.cast("I").tolist()[:5000]
        assert fill(compiled, data) == fill(plain, data)


def data_of(*records: bytes) -> list[int]:
    return np.frombuffer(b"".join(records), np.uint32).tolist()


@pytest.mark.parametrize("module", FORMS)
def test_who_runs(module):
    """As Xen's trace_runstate_change() numbers it: old in bits 8-11, new in bits 4-7, with
    running 0, runnable 1, blocked 2, offline 3."""
    d1v0, d2v3 = 1 << 16, 2 << 16 | 3
    plan = [
        (make_record(0x28004, 0, 1, tsc=1), NOBODY_KNOWN),
        (make_record(0x21201, d1v0, tsc=2), d1v0),
        (make_record(0x82012, 5), d1v0), (make_record(0x21021, d1v0, tsc=3), d1v0),
        (make_record(0x82012, 5), NOBODY_KNOWN), (make_record(0x21101, d2v3, tsc=4), d2v3),
        (make_record(0x21211, d1v0, tsc=5), d2v3), (make_record(0x21002, d2v3, tsc=6), d2v3),
        (lost(7, 3, 6), NOBODY_KNOWN), (make_record(0x21002, d2v3, tsc=8), d2v3),
        (make_record(0x21021, tsc=9), d2v3),
    ]  # fmt: skip
    columns, state = fill(module, data_of(*(record for record, _ in plan)))
    assert columns[6] == [who for _, who in plan]
    assert state[compiled.RUNNING] == d2v3


@pytest.mark.parametrize("module", FORMS)
def test_times_go_on_from_the_last_batch(module):
    """R18: 64 bits, unsigned; a step back is counted and does not lower the key."""
    high = 0xFEDCBA9876543210
    untimed = make_record(0x82012, 5)
    one, state = fill(module, data_of(untimed, make_record(0x28004, 0, 1, tsc=high), untimed))
    assert (one[2], one[4], one[5]) == ([0, 3, 2], [0, high, high], [0, high, high])
    assert state[compiled.BACK] == 0
    two, state = fill(
        module, data_of(untimed, make_record(0x28004, 0, 1, tsc=5), untimed),
        np.array(state, np.uint64), flags=4,
    )  # fmt: skip
    assert (two[2], two[4], two[5]) == ([6, 7, 6], [high, 5, 5], [high] * 3)
    assert (state[compiled.LAST_TSC], state[compiled.KEY], state[compiled.BACK]) == (5, high, 1)


@pytest.mark.parametrize("module", FORMS)
def test_fillers_are_no_rows(module):
    """A wrap filler's TSC is stale memory."""
    filler = make_record(0x1F002, 1, 2, 3, tsc=(1 << 64) - 1)
    record = make_record(0x28004, 0, 1, tsc=9)
    columns, state = fill(module, data_of(filler, record, make_record(0x1F003, 0, 8), record))
    assert columns[4] == [9, 9]
    assert (len(state), state[compiled.WRAPS], state[compiled.BACK]) == (STATE_WORDS, 1, 0)
    assert [r.event for r in iter_records(record)] == columns[0][:1]
