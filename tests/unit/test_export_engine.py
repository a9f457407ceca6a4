"""The line engine: whatever Python would write, from programs; compiled and plain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.uncompiled import load_uncompiled
from tracelib.export import engine as compiled
from tracelib.export import opcodes
from tracelib.export.program import (
    BY_ARGUMENTS,
    CPU,
    ELAPSED,
    REALTIME,
    RUNNING,
    STOP,
    TSC,
    Program,
    Value,
    Workshop,
)

plain = load_uncompiled(compiled)
FORMS = [compiled, plain]

EDGES = [0, 1, 9, 10, 99, 100, 9999, 99_999_999, 10**9, (1 << 31) - 1, 1 << 31, (1 << 32) - 1,
         1 << 32, 10**16, 10**19, 1 << 63, (1 << 64) - 1]  # fmt: skip
values64 = st.lists(st.integers(0, (1 << 64) - 1) | st.sampled_from(EDGES), min_size=1, max_size=9)
WIDE = Value(0, bits=64)


class Rows:
    """Columns for the engine: 64-bit values in two extra words, other columns as given."""

    def __init__(self, values: list[int], event: int = 0x21011) -> None:
        count = len(values)
        words = np.array(
            [word for value in values for word in (value & 0xFFFFFFFF, value >> 32)] + [0] * 8,
            np.uint32,
        )
        self.columns = [
            np.full(count, event, np.uint32), np.full(count, 2, np.uint8),
            np.full(count, 3, np.uint8), np.arange(count) * 2, words,
            np.array(values, np.uint64), np.array(values, np.uint64).view(np.int64),
            np.array(values, np.uint64).view(np.int64), np.arange(count).astype(np.uint16),
            (np.array(values, np.uint64) & np.uint64(0xFFFFFFFF)).astype(np.uint32),
        ]  # fmt: skip

    @property
    def views(self):
        return [column.data for column in self.columns]


def write(build, rows: Rows, module=compiled) -> list[str]:
    """The lines of a program that `build` makes."""
    workshop = Workshop()
    program = Program(workshop)
    build(program)
    program.text("\n")
    empty = Program(workshop)
    engine = module.Engine(
        [empty.steps] * 8, lambda *_: program.steps, workshop.spellers, workshop.pool
    )
    target = memoryview(bytearray(1 << 18))
    row, size, ours = engine.write(rows.views, 0, target)
    assert (row, ours) == (len(rows.columns[0]), False)
    return bytes(target[:size]).decode().split("\n")[:-1]


@pytest.mark.parametrize("module", FORMS)
@settings(deadline=None)
@given(values=values64)
def test_numbers(module, values):
    rows = Rows(values)
    assert write(lambda p: p.decimal(WIDE), rows, module) == [str(v) for v in values]
    assert write(lambda p: p.decimal(TSC), rows, module) == [str(v) for v in values]
    assert write(lambda p: p.hexadecimal(WIDE), rows, module) == [f"{v:x}" for v in values]
    assert write(lambda p: p.aligned(TSC, 16), rows, module) == [f"{v:>16}" for v in values]
    signed = [v - (1 << 64) if v >> 63 else v for v in values]
    assert write(lambda p: p.signed(WIDE), rows, module) == [str(v) for v in signed]
    assert write(lambda p: p.signed(ELAPSED), rows, module) == [str(v) for v in signed]
    assert write(lambda p: p.signed(REALTIME), rows, module) == [str(v) for v in signed]


@pytest.mark.parametrize("module", FORMS)
@settings(deadline=None)
@given(values=values64, shift=st.integers(0, 31), bits=st.integers(1, 32))
def test_bit_fields(module, values, shift, bits):
    bits = min(bits, 32 - shift)
    rows = Rows(values)
    fields = [v >> 32 >> shift & (1 << bits) - 1 for v in values]
    place = Value(1, shift, bits)
    assert write(lambda p: p.decimal(place), rows, module) == [str(v) for v in fields]
    signed = [v - (1 << bits) if v >> (bits - 1) else v for v in fields]
    assert write(lambda p: p.signed(place), rows, module) == [str(v) for v in signed]


@pytest.mark.parametrize("module", FORMS)
@settings(deadline=None)
@given(st.lists(st.integers(-(1 << 62), 1 << 62), min_size=1, max_size=9))
def test_seconds(module, times):
    rows = Rows([time % (1 << 64) for time in times])
    expected = []
    for time in times:
        whole, rest = divmod(abs(time), 10**9)
        expected.append(f"{'-' if time < 0 else ''}{whole}.{rest:09}".rjust(15))
    assert write(lambda p: p.seconds(15), rows, module) == expected


@pytest.mark.parametrize("module", FORMS)
def test_micros_and_special_values(module):
    values = [0, 5, 1005, 999_999, 4_294_967_294, 4_294_967_295]
    place = Value(0, bits=32)

    def build(program):
        program.unless(place, 0xFFFFFFFF, "none")
        program.micros(place)
        program.text(";")

    assert write(build, Rows(values), module) == [
        "0.000us;", "0.005us;", "1.005us;", "999.999us;", "4294967.294us;", "none;"
    ]


@pytest.mark.parametrize("module", FORMS)
def test_spelling_happens_once_for_each_value(module):
    calls = []

    def spell(value):
        calls.append(value)
        return f"<{value}>"

    def build(program):
        program.spelled(RUNNING, "who", spell)
        program.spelled(CPU, "cpu", lambda cpu: f" {cpu}")
        program.pair(Value(0, bits=32), Value(1, bits=32), "pair", lambda packed: f" {packed:x}")

    assert write(build, Rows([7, 3, 7, 1 << 32]), module) == [
        "<7> 0 700000000", "<3> 1 300000000", "<7> 2 700000000", "<0> 3 1"
    ]
    assert calls == [7, 3, 0]


@pytest.mark.parametrize("module", FORMS)
def test_more_values_than_it_keeps(module):
    """R51: what an engine knows is bounded; a new one goes on where it stopped."""
    values = list(range(40_000))
    rows = Rows(values)
    target = memoryview(bytearray(1 << 20))
    row, engines, parts, engine = 0, 0, [], None
    while row < len(values):
        if engine is None or engine.stale:
            workshop = Workshop()
            program = Program(workshop)
            program.spelled(WIDE, "long", lambda value: f"{value:0200}")
            program.text("\n")
            engine = module.Engine(
                [Program(workshop).steps] * 8, lambda *_, made=program: made.steps,
                workshop.spellers, workshop.pool,
            )
            engines += 1
        row, size, _ = engine.write(rows.views, row, target)
        parts.append(bytes(target[:size]))
    assert b"".join(parts).decode().split() == [f"{value:0200}" for value in values]
    assert engines == 3


@pytest.mark.parametrize("module", FORMS)
def test_lines_that_are_the_callers(module):
    rows = Rows([1, 2, 3])
    rows.columns[0][1] = 0x1F001
    workshop = Workshop()
    prefix, program = Program(workshop), Program(workshop)
    prefix.text("at ")
    prefix.decimal(TSC)
    program.text(" said\n")
    engine = module.Engine(
        [prefix.steps] * 8, lambda event, *_: STOP if event == 0x1F001 else program.steps,
        workshop.spellers, workshop.pool,
    )
    target = memoryview(bytearray(1 << 17))
    assert engine.write(rows.views, 0, target) == (1, len(b"at 1 said\n"), True)
    size = engine.write_prefix(1, target)
    assert bytes(target[:size]) == b"at 2"
    row, size, ours = engine.write(rows.views, 2, target)
    assert (row, bytes(target[:size]), ours) == (3, b"at 3 said\n", False)


@pytest.mark.parametrize("module", FORMS)
def test_programs_by_arguments(module):
    rows = Rows([0x00100005, 0x00000005, 0x00200005, 0x00100005])
    asked = []

    def plan(event, extra, arguments):
        asked.append((event, extra, arguments))
        if arguments is None:
            return BY_ARGUMENTS
        made = Program(workshop)
        made.text(f"{arguments}\n")
        return made.steps

    workshop = Workshop()
    engine = module.Engine([Program(workshop).steps] * 8, plan, workshop.spellers, workshop.pool)
    target = memoryview(bytearray(1 << 17))
    _, size, _ = engine.write(rows.views, 0, target)
    assert bytes(target[:size]).split() == [b"1", b"0", b"2", b"1"]
    assert asked == [(0x21011, 2, None), (0x21011, 2, 1), (0x21011, 2, 0), (0x21011, 2, 2)]


@pytest.mark.parametrize("module", FORMS)
def test_a_full_target_ends_the_call(module):
    rows = Rows(list(range(100)))
    workshop = Workshop()
    program = Program(workshop)
    program.text("x" * 1000 + "\n")
    engine = module.Engine(
        [Program(workshop).steps] * 8, lambda *_: program.steps, workshop.spellers, workshop.pool
    )
    target = memoryview(bytearray(compiled.MARGIN + 5000))
    row, size, ours = engine.write(rows.views, 0, target)
    assert (row, size, ours) == (5, 5005, False)


def test_prefix_by_flags():
    rows = Rows([5] * 8)
    rows.columns[2][:] = range(8)
    workshop = Workshop()
    prefixes = []
    for flags in range(8):
        prefix = Program(workshop)
        prefix.text(f"{flags}")
        prefixes.append(prefix.steps)
    line = Program(workshop)
    line.text("\n")
    engine = compiled.Engine(prefixes, lambda *_: line.steps, workshop.spellers, workshop.pool)
    target = memoryview(bytearray(1 << 17))
    _, size, _ = engine.write(rows.views, 0, target)
    assert bytes(target[:size]).split() == [b"%d" % flags for flags in range(8)]


def test_adjacent_literals_become_one():
    program = Program(Workshop())
    program.text("a")
    program.text("bc")
    assert len(program.steps) == 2 * opcodes.STEP
    program.decimal(TSC)
    program.text("d")
    assert len(program.steps) == 4 * opcodes.STEP


def test_twins():
    """opcodes.pxd has the same numbers as opcodes.py."""
    import re
    from pathlib import Path

    text = Path(opcodes.__file__).with_suffix(".pxd").read_text()
    twins = dict(re.findall(r"^    ([A-Z_0-9]+) = (\d+)$", text, re.MULTILINE))
    names = [name for name in vars(opcodes) if name.isupper()]
    for name in names:
        if name in twins:
            assert int(twins[name]) == getattr(opcodes, name), name
        else:
            assert re.search(rf"\b{name} \"XTR_", text), name
    assert re.search(r"XTR_LOW32 +0xFFFFFFFFull", text)
    assert re.search(r"XTR_ALL64 +0xFFFFFFFFFFFFFFFFull", text)
    assert re.search(r"XTR_LINE_FACTOR +0x9E3779B1ull", text)
