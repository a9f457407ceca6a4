"""scan() and record_offsets(), in both forms: counts and places of records in memory."""

import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ring import FORMS, Counts, count_records
from tracelib.records import iter_records, make_record

pytestmark = pytest.mark.parametrize("module", FORMS.values(), ids=FORMS)

RECORDS = [
    make_record(0x1F003, 2, 400),
    make_record(0x21011, 5, tsc=1000),
    make_record(0x1F002, 1, 2, 3, tsc=7),
    make_record(0x1F001, 9, 0x0002_0001, 1500, 0, tsc=2000),
    make_record(0x82020, 1, 2, 3),
    make_record(0x0FFFFFFF, *range(7)),
    make_record(0x1F004, 33, tsc=2100),
]
DATA = b"".join(RECORDS)
STARTS = [len(b"".join(RECORDS[:n])) // 4 for n in range(len(RECORDS))]


def view(data: bytes) -> memoryview:
    """Words that cannot be written, as a mapped file's."""
    return memoryview(data).cast("I")


def scan(module, data: bytes):
    return module.scan(view(data), 0, len(data) // 4, 0, None)


def counts(found) -> Counts:
    return Counts(*(getattr(found, name) for name in Counts._fields))


def test_wraps_and_cpu_changes_are_not_records(module):
    found = scan(module, DATA)
    assert found.stop == len(DATA) // 4
    assert found.wraps == 1
    assert counts(found) == Counts(
        records=5, lost_marks=1, lost=9, lost_first_tsc=1500, lost_last_tsc=2000,
        first_tsc=1000, last_tsc=2100, malformed_lost=0,
    )  # fmt: skip


def test_nothing_is_nothing(module):
    assert module.scan(view(b""), 0, 0, 0, None) == (0,) * 10
    assert module.record_offsets(view(b""), 0, 0, array("I", [7])) == (0, 0)


def test_part_of_a_view(module):
    start, end = STARTS[1], STARTS[4]
    found = module.scan(view(DATA), start, end, 0, None)
    assert (found.stop, found.records, found.wraps, found.lost) == (end, 2, 1, 9)


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (2, 1), (0, 100), (100, 100)])
def test_range_outside_the_view_is_refused(module, start, end):
    with pytest.raises(ValueError, match="are not within"):
        module.scan(view(DATA), start, end, 0, None)
    with pytest.raises(ValueError, match="are not within"):
        module.record_offsets(view(DATA), start, end, array("I", [0]))


def test_data_cut_at_every_word(module):
    """The whole records before the cut, and where the cut one starts."""
    for end in range(len(DATA) // 4 + 1):
        whole = [start for start in [*STARTS, len(DATA) // 4] if start <= end]
        found = scan(module, DATA[: 4 * end])
        assert found.stop == whole[-1]
        assert counts(found) == count_records(DATA[: 4 * end])
        out = array("I", [0] * 10)
        assert module.record_offsets(view(DATA), 0, end, out) == (len(whole) - 1, whole[-1])


@pytest.mark.parametrize("header", [0, 0x0000F000, 0xF0000FFF, 0x80000000])
def test_header_without_class_ends_the_chain(module, header):
    """A zeroed sector would otherwise decode as a row of records."""
    data = RECORDS[1] + struct.pack("<4I", header, 0, 0, 0) + RECORDS[1]
    found = scan(module, data)
    assert (found.stop, found.records) == (4, 1)
    assert module.record_offsets(view(data), 0, len(data) // 4, array("I", [0] * 9)) == (1, 4)


def test_offsets_of_every_record_wraps_too(module):
    out = array("I", [0] * len(RECORDS))
    assert module.record_offsets(view(DATA), 0, len(DATA) // 4, out) == (7, len(DATA) // 4)
    assert list(out) == STARTS


def test_offsets_go_on_where_the_room_ended(module):
    found = []
    at = 0
    out = array("I", [0] * 3)
    while at < len(DATA) // 4:
        count, at = module.record_offsets(view(DATA), at, len(DATA) // 4, out)
        found += out[:count]
    assert found == STARTS


def test_lost_records_of_both_shapes_without_a_table(module):
    """R16: one word before September 2008, four since; three words are malformed."""
    data = (
        make_record(0x1F001, 7, tsc=10)
        + make_record(0x1F001, 9, 0, 15, 0, tsc=20)
        + make_record(0x1F001, 1, 2, 3, tsc=30)
    )
    found = scan(module, data)
    assert (found.lost_marks, found.lost, found.malformed_lost) == (3, 16, 1)
    assert (found.lost_first_tsc, found.lost_last_tsc) == (15, 30)


@given(words=st.lists(st.integers(0, 0xFFFFFFFF) | st.sampled_from([0x21011, 0x1F002, 0x9001F001])))
def test_any_words_give_counts_and_a_stop(module, words):
    """Random words: the walk ends inside the data, and counts what is before its stop."""
    data = struct.pack(f"<{len(words)}I", *words)
    found = scan(module, data)
    assert 0 <= found.stop <= len(words)
    assert counts(found) == count_records(data[: 4 * found.stop])
    out = array("I", [0] * (len(words) + 1))
    count, stop = module.record_offsets(view(data), 0, len(words), out)
    assert stop == found.stop
    assert list(out[:count]) == [r.offset // 4 for r in iter_records(data[: 4 * stop])]
