"""Where rows of records end: the compiled form and the plain one agree."""

from __future__ import annotations

from array import array
from types import ModuleType

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.captures import capture
from tests.support.uncompiled import load_uncompiled
from tests.support.xentrace import row, timed, window
from tracelib.records import make_record
from tracelib.xentrace import walk as compiled

plain = load_uncompiled(compiled)


def words(data: bytes) -> memoryview:
    return memoryview(data).cast("I")


def whole(form: ModuleType, data: bytes, *, room: int = 8) -> list[list[int]]:
    """The windows that `windows` finds: CPU, first word, word behind the last."""
    view, found = words(data), memoryview(array("Q", bytes(24 * room)))
    count = form.windows(view, 0, len(view), found)
    return [found[3 * at : 3 * at + 3].tolist() for at in range(count)]


def test_walk_stops_where_no_record_starts():
    good = b"".join(row(1000, 9))
    count = len(good) // 4
    assert compiled.walk(words(good), 0, count) == count
    assert compiled.walk(words(good + bytes(16)), 0, count + 4) == count
    cpu_change = make_record(0x1F003, 1, 100)
    assert compiled.walk(words(good + cpu_change), 0, count + 3) == count
    assert compiled.walk(words(good + timed(5)[:12]), 0, count + 3) == count, "goes past the end"


def test_strict_walk_stops_at_what_xen_never_writes():
    good = timed(1000) + make_record(0x82001, 1) + timed(1001)
    count = len(good) // 4
    for bad in (
        timed(999), timed(1001 + (1 << 44) + 1), make_record(0x00030001, tsc=1002),
        make_record(0x1F005), make_record(0x1F003, 1, 2),
    ):
        total = (len(good) + len(bad)) // 4
        assert compiled.walk_strictly(words(good + bad), 0, total, 0) == count, bad.hex()
    for fine in (timed(1001), make_record(0x1F002, 1, 2), make_record(0x1F002, tsc=3)):
        total = (len(good) + len(fine)) // 4
        assert compiled.walk_strictly(words(good + fine), 0, total, 0) == total, fine.hex()


def test_resume_wants_a_time_between_its_neighbours():
    tail = b"".join(row(2000, 20))
    noise = b"\xff\xff\x01\x00" * 5 + timed(1) + timed(1 << 60)
    data = words(noise + tail)
    assert compiled.resume(data, 0, len(data), 1500) == len(noise) // 4
    assert compiled.resume(data, 0, len(data), 2001) > len(noise) // 4
    assert compiled.resume(words(noise), 0, len(noise) // 4, 1500) == len(noise) // 4


def test_last_time_ignores_fillers():
    data = words(timed(1000) + make_record(0x82001, 1) + make_record(0x1F002, tsc=5))
    assert compiled.last_time(data, 0, len(data)) == 1000
    assert compiled.last_time(data, 0, 0) == 0


def test_windows_end_with_the_last_that_another_header_follows():
    good = window(3, *row(1000, 2)) + window(65535) + window(5, *row(1000, 1))
    sizes = [len(b"".join(row(1000, 2))) // 4, 0, len(b"".join(row(1000, 1))) // 4]
    wanted = [[3, 3, 3 + sizes[0]], [65535, 6 + sizes[0], 6 + sizes[0]]]
    assert whole(compiled, good) == wanted, "nothing proves where the last one ends"
    third = 9 + sizes[0]
    assert whole(compiled, good + window(0)) == [*wanted, [5, third, third + sizes[2]]]
    assert whole(compiled, good, room=1) == wanted[:1]


def test_windows_stop_at_whatever_is_not_as_it_should_be():
    follows = window(1, *row(5, 1))
    for bad in (
        window(1, *row(5, 2), size=8), window(1, *row(5, 2), bytes(8)), window(1 << 16, timed(5)),
        window(1, timed(5), bytes(4), size=len(timed(5)) + 2), window(1, timed(5)[:-4]),
        window(1, window(2)),
    ):
        assert whole(compiled, window(0) + bad + follows) in ([], [[0, 3, 3]]), bad.hex()


rows = st.lists(
    st.one_of(
        st.builds(lambda tsc, n: make_record(0x21011, *range(n), tsc=tsc),
                  st.integers(0, (1 << 64) - 1), st.integers(0, 7)),
        st.builds(lambda tsc: timed(tsc), st.integers(1000, 1100)),
        st.binary(max_size=16).map(lambda data: data[: len(data) // 4 * 4]),
    ),
    max_size=30,
).map(b"".join)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(rows, st.integers(0, 2000))
def test_both_forms_agree(data, last):
    view = words(data)
    end = len(view)
    assert compiled.walk(view, 0, end) == plain.walk(view, 0, end)
    assert compiled.walk_strictly(view, 0, end, last) == plain.walk_strictly(view, 0, end, last)
    assert compiled.resume(view, 0, end, last) == plain.resume(view, 0, end, last)
    stop = plain.walk(view, 0, end)
    assert compiled.last_time(view, 0, stop) == plain.last_time(view, 0, stop)


def test_both_forms_agree_on_a_real_capture():
    view = words(capture("pvh-hvm.trace")[12:])
    assert compiled.walk(view, 0, len(view)) == plain.walk(view, 0, len(view)) < len(view)
    data = capture("pvh-hvm.trace")
    found = whole(compiled, data, room=1000)
    assert found == whole(plain, data, room=1000)
    assert len(found) > 10
    assert found[-1][2] < len(data) // 4
