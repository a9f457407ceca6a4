"""kvmtrace records turned into ones of the shape that Xen's have: compiled form and plain one."""

from __future__ import annotations

import struct
from array import array
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.kvmtrace import KINDS, ORDERS, Rec, Style, entry, handler, leave
from tests.support.uncompiled import load_uncompiled
from tracelib.kvmtrace import records as compiled
from tracelib.kvmtrace.layout import Kind, Layout, words_of
from tracelib.records import iter_records

plain = load_uncompiled(compiled)
FORMS = [compiled, plain]
STYLES = [Style(kind, order) for kind, order in product(KINDS, ORDERS)]

RECS = [
    leave(0x1_0000_0002, 0x8000_0021, 0xFFFF_FFFF_8020_1234, pid=4711, vcpu=3),
    handler(0x05, 0x3F8, 1, pid=4711, vcpu=3),
    handler(0x0F, pid=32767),
    handler(0x0D, 1, 2, 3, 4, 0xFFFF_FFFF),
    entry(0xFEDC_BA98_7654_3210, pid=4194304, vcpu=4095),
]
TURNED = [
    (0x4001002, 0x1_0000_0002, (4711, 3, 0x8000_0021, 0x8020_1234, 0xFFFF_FFFF)),
    (0x4002005, None, (4711, 3, 0x3F8, 1)),
    (0x400200F, None, (32767, 0)),
    (0x400200D, None, (4711, 0, 1, 2, 3, 4, 0xFFFF_FFFF)),
    (0x4001001, 0xFEDC_BA98_7654_3210, (4194304, 4095)),
]


def form_of(style: Style) -> int:
    return Layout(style.order == ">", Kind(style.kind)).form


def in_words(data: bytes, style: Style) -> array[int]:
    return words_of(data, big_endian=style.order == ">")


def translate(module, words, form: int, at: int = 0) -> tuple[int, list[int]]:
    out = array("I", bytes(4 * len(words)))
    stop = module.translate(memoryview(words), at, len(words), form, memoryview(out))
    return stop, out.tolist()


@pytest.mark.parametrize("module", FORMS, ids=["compiled", "plain"])
@pytest.mark.parametrize("style", STYLES, ids=str)
def test_every_layout_and_order_says_the_same(module, style):
    """R43: three layouts, both byte orders: head, owner, time and words keep their meaning,
    and a record its length."""
    words = in_words(b"".join(map(style.record, RECS)), style)
    stop, out = translate(module, words, form_of(style))
    assert stop == len(words)
    found = iter_records(struct.pack(f"<{stop}I", *out))
    assert [(one.event, one.tsc, one.extra) for one in found] == TURNED


@pytest.mark.parametrize("module", FORMS, ids=["compiled", "plain"])
@pytest.mark.parametrize("style", STYLES, ids=str)
@pytest.mark.parametrize("rec", RECS, ids=lambda rec: f"{rec.event:x}")
def test_a_record_cut_at_every_word_waits_for_the_rest(module, style, rec):
    words = in_words(style.record(rec), style)
    form = form_of(style)
    assert module.size(memoryview(words), 0, len(words), form) == len(words)
    for end in range(len(words)):
        assert module.size(memoryview(words), 0, end, form) == compiled.CUT
        assert translate(module, words[:end], form)[0] == 0


@pytest.mark.parametrize("module", FORMS, ids=["compiled", "plain"])
@pytest.mark.parametrize("style", STYLES, ids=str)
@pytest.mark.parametrize(
    "rec",
    [
        Rec(0x10002, (1, 2, 3), None),  # an exit without a time
        Rec(0x40001, (), 5),  # a category that there is not
        Rec(0x30001, (), 5),  # two of them
        Rec(0x21001, (), None),  # beyond the twelve bits of a handler's number
        Rec(0x20005, (1,) * 6),  # more words than KVMTRACE_5D passes
        Rec(0x20005, (1, 2), None, (1 << 22) + 1),  # beyond PID_MAX_LIMIT
        Rec(0x20005, (1, 2), None, 1, (1 << 12) + 1),
    ],
    ids=lambda rec: f"{rec.event:x}",
)  # fmt: skip
def test_what_the_kernel_never_writes_is_no_record(module, style, rec):
    words = in_words(style.record(rec), style)
    assert module.size(memoryview(words), 0, len(words), form_of(style)) == 0


@pytest.mark.parametrize("module", FORMS, ids=["compiled", "plain"])
def test_the_search_goes_to_the_next_record(module):
    style = Style("packed")
    words = in_words(bytes(20) + b"\xff" * 12 + style.record(RECS[0]), style)
    assert module.find(memoryview(words), 0, len(words), 0) == 8
    assert module.coverage(memoryview(words), 0) == 8
    assert module.find(memoryview(words), 9, len(words), 0) == len(words)


heads = st.builds(
    lambda category, number, extra, timed, up: (
        (category << 16 | number) << 4 | extra << 1 | timed
        if up else category << 16 | number | extra << 28 | timed << 31
    ),
    st.integers(0, 3), st.integers(0, 0x1FFF), st.integers(0, 7), st.integers(0, 1), st.booleans(),
)  # fmt: skip
words = st.lists(
    st.one_of(heads, st.integers(0, 0xFFFFFFFF), st.integers(0, 5000)), max_size=40
)  # fmt: skip


@given(words, st.integers(0, 3))
@settings(max_examples=300)
def test_both_forms_are_equal_on_any_words(data, form):
    numbers = array("I", data)
    view, end = memoryview(numbers), len(numbers)
    assert compiled.coverage(view, form) == plain.coverage(view, form)
    for at in range(end + 1):
        assert compiled.size(view, at, end, form) == plain.size(view, at, end, form)
        assert compiled.find(view, at, end, form) == plain.find(view, at, end, form)
        assert translate(compiled, numbers, form, at) == translate(plain, numbers, form, at)
