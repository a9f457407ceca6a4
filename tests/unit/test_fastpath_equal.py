"""The compiled form and the plain one are the same function, on made and on real records."""

import re
import struct
from array import array
from collections import Counter
from itertools import cycle, islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import captures
from tests.support.ring import FORMS, MemoryRing
from tracelib import records
from tracelib.records import CPU_CHANGE, make_header, make_record
from tracelib.ring import fastpath, runstate_words
from tracelib.ring.runstates import RunstateTable

ROOT = Path(__file__).parents[2]

compiled_only = pytest.mark.skipif(
    not fastpath.COMPILED, reason="fastpath is not compiled here: there is one form only"
)

words32 = st.integers(0, 0xFFFFFFFF) | st.sampled_from([0, 1, 0x10000, 0x7FFF0001, 0xFFFFFFFF])
headers = st.one_of(
    words32,
    st.builds(
        lambda event, extra, tsc: make_header(event, extra, tsc=tsc),
        st.sampled_from(
            [0x1F001, 0x1F002, 0x1F003, 0x21011, 0x21001, 0x21021, 0x21101, 0x21201, 0x21311,
             0x21002, 0x28002, 0x20100D, 0x82020]
        ),
        st.integers(0, 7), st.booleans(),
    ),
)  # fmt: skip
chains = st.lists(
    st.builds(
        lambda header, body: struct.pack("<8I", header, *body)[: records.record_bytes(header)],
        headers, st.lists(words32, min_size=7, max_size=7),
    ),
    max_size=60,
).map(b"".join)  # fmt: skip


def tables():
    return {name: RunstateTable(2, 5) for name in FORMS}


def all_equal(values) -> bool:
    values = list(values)
    return all(value == values[0] for value in values)


@compiled_only
def test_the_two_forms_are_two():
    assert [module.COMPILED for module in FORMS.values()] == [True, False]
    assert FORMS["uncompiled"].__file__.endswith("fastpath.py")


@compiled_only
@settings(max_examples=300, deadline=None)
@given(data=chains, cpu=st.integers(0, 2), part=st.data())
def test_scan_is_equal(data, cpu, part):
    """Results and runstate tables, over chains that are mostly records."""
    words = memoryview(data[: len(data) // 4 * 4]).cast("I")
    start = part.draw(st.integers(0, len(words)))
    end = part.draw(st.integers(start, len(words)))
    known = tables()
    for begin in (0, start):
        assert all_equal(
            FORMS[name].scan(words, begin, end, cpu, known[name]) for name in FORMS
        )
        assert all_equal(table.words for table in known.values())
    assert all_equal(table.snapshot() for table in known.values())


@compiled_only
@settings(max_examples=300, deadline=None)
@given(data=chains, start=st.integers(0, 2043), rooms=st.lists(st.integers(0, 300), max_size=6))
def test_drains_are_equal(data, start, rooms):
    """The same ring drained in the same steps: results, buffers, tables, cons."""
    data = data[: min(len(data), 4088) // 4 * 4]
    rings = {name: MemoryRing(1, start=4 * start) for name in FORMS}
    buffers = {name: memoryview(array("I", [0] * 1100)) for name in FORMS}
    known = tables()
    for ring in rings.values():
        ring.write(data)
    for room in [*rooms, 1022]:
        assert all_equal(
            FORMS[name].drain(
                rings[name].words, 4088, buffers[name], 32, room, 1, known[name]
            )
            for name in FORMS
        )
        assert all_equal(buffers.values())
        assert all_equal(table.words for table in known.values())
        assert all_equal(ring.words for ring in rings.values())


@compiled_only
@given(cons=words32, prod=words32)
def test_any_indexes_are_judged_equally(cons, prod):
    found = []
    for module in FORMS.values():
        ring = MemoryRing(1)
        ring.set(cons, prod)
        ring.data[:] = make_record(0x801001) * 1022
        into = memoryview(array("I", [0] * 1022))
        result = module.drain(ring.words, 4088, into, 0, 1022, 0, RunstateTable(1))
        found.append((result, ring.cons, into))
    assert all_equal(found)


@compiled_only
@given(data=chains, room=st.integers(0, 40))
def test_offsets_are_equal(data, room):
    words = memoryview(data[: len(data) // 4 * 4]).cast("I")
    found = []
    for module in FORMS.values():
        out = array("I", [0] * room)
        found.append((module.record_offsets(words, 0, len(words), out), out))
    assert all_equal(found)


def windows(name: str):
    """The (CPU, words) of each window of a capture: cpu_change record, CPU, size in bytes."""
    words = memoryview(captures.capture(name)).cast("I")
    at = 0
    while at < len(words):
        assert words[at] == make_header(CPU_CHANGE, 2, tsc=False)
        end = at + 3 + words[at + 2] // 4
        yield words[at + 1], words[at + 3 : end]
        at = end


@pytest.mark.parametrize("module", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("name", captures.NAMES)
def test_real_captures_count_as_an_independent_reader_counted(module, name):
    expected = captures.expected()[name]
    per_cpu: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    wraps = 0
    times = []
    for cpu, words in windows(name):
        found = module.scan(words, 0, len(words), cpu, None)
        assert found.stop == len(words)
        per_cpu[str(cpu)] += found.records
        lost[str(cpu)] += found.lost
        wraps += found.wraps
        times += [tsc for tsc in (found.first_tsc, found.last_tsc) if tsc]
    assert per_cpu == expected["per_cpu"]
    assert +lost == expected["lost"]
    assert wraps == expected["wrap_records"]
    assert [str(min(times)), str(max(times))] == [expected["first_tsc"], expected["last_tsc"]]


@compiled_only
@pytest.mark.parametrize("name", captures.NAMES)
def test_real_captures_drain_equally(name):
    """A real Xen's records through a ring, in rooms that cut it everywhere."""
    rings = {form: MemoryRing(32, start=40_000) for form in FORMS}
    into = {form: memoryview(array("I", [0] * 1000)) for form in FORMS}
    known = {form: RunstateTable(8) for form in FORMS}
    rooms = cycle((1000, 7, 333, 64))
    for cpu, words in islice(windows(name), 40):
        whole = fastpath.scan(words, 0, min(len(words), 32_766), cpu, None).stop
        for ring in rings.values():
            ring.write(words[:whole].tobytes())
        while rings["uncompiled"].waiting:
            room = next(rooms)
            assert all_equal(
                FORMS[form].drain(
                    rings[form].words, rings[form].size, into[form], 0, room, cpu, known[form]
                )
                for form in FORMS
            )
            assert all_equal(into.values())
    assert all_equal(table.words for table in known.values())
    assert all_equal(table.snapshot() for table in known.values())


@pytest.mark.parametrize(
    ("module", "twin"),
    [(records, "tracelib/records.pxd"), (runstate_words, "tracelib/ring/runstate_words.pxd")],
    ids=["records", "runstate_words"],
)
def test_numbers_in_c_are_the_numbers_in_python(module, twin):
    """The .pxd repeats constants of the .py, under the same names."""
    text = (ROOT / twin).read_text()
    found = re.findall(r"(?:#define XTR_|^    )(\w+)(?: = | +)(0x[0-9A-F]+|\d+)u?$", text, re.M)
    assert len(found) > 7
    for name, number in found:
        assert getattr(module, name) == int(number, 0), name
