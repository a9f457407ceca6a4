"""Layouts and byte orders of kvmtrace files, told apart by the records."""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.kvmtrace import KINDS, MAGIC, ORDERS, Style, entry, guest, handler, leave
from tracelib.errors import FormatError
from tracelib.kvmtrace.layout import Kind, Layout, detect

RECS = guest(1 << 40, 30)
BOTH = list(product(KINDS, ORDERS))


def expected(kind: str, order: str) -> Layout:
    """Little-endian records of the last two are the same bytes."""
    if order == "<" and kind != "halves":
        return Layout(False, None)
    return Layout(order == ">", Kind(kind))


@pytest.mark.parametrize(("kind", "order"), BOTH)
@pytest.mark.parametrize(
    "recs", [RECS, [entry(7)], [leave(7, 12)], [handler(0x0F)]],
    ids=["many", "entry", "exit", "handler"],
)
def test_a_file_shows_its_layout(kind, order, recs):
    """R43: layout and order detected, by a single record if need be."""
    assert detect(Style(kind, order).file(recs), "x") == expected(kind, order)


@pytest.mark.parametrize(("kind", "order"), BOTH)
def test_a_layout_that_was_asked_for(kind, order):
    """R43: asked for; the byte order is detected all the same."""
    data = Style(kind, order).file(RECS)
    assert detect(data, "x", Kind(kind)) == Layout(order == ">", Kind(kind))


@pytest.mark.parametrize(
    ("layout", "tick"),
    [
        (Layout(False, Kind.HALVES), "cycles"), (Layout(True, Kind.PACKED), "cycles"),
        (Layout(True, Kind.TIMESTAMP), "nanoseconds"),
        (Layout(False, None), "cycles or nanoseconds"),
    ],
)  # fmt: skip
def test_what_a_time_stamp_counts(layout, tick):
    """R43: get_cycles() until 2.6.27, ktime_get() from 2.6.28 on; else not known."""
    assert layout.tick == tick


@pytest.mark.parametrize("order", ORDERS)
def test_a_damaged_start_behind_the_magic_changes_nothing(order):
    style = Style("timestamp", order)
    data = style.file([]) + bytes(512) + style.file(RECS)[4:]
    assert detect(data, "x") == expected("timestamp", order)


def test_without_its_beginning_a_little_endian_file_can_be_read_but_for_the_unit():
    data = b"\xff" * 64 + Style("halves").file(RECS)
    assert detect(data, "x") == Layout(False, None)


def test_without_its_beginning_bit_fields_from_the_top_are_ambiguous():
    """R43: which half of a time comes first has to be asked for then."""
    data = b"\xff" * 64 + Style("halves", ">").file(RECS)
    with pytest.raises(FormatError) as caught:
        detect(data, "x.kvmtrace.0")
    assert (caught.value.file, caught.value.offset) == ("x.kvmtrace.0", 0)
    assert "--kvmtrace-layout" in str(caught.value.hint)
    assert detect(data, "x", Kind.HALVES) == Layout(True, Kind.HALVES)
    assert detect(data, "x", Kind.PACKED) == Layout(True, Kind.PACKED)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x01", struct.pack("<I", MAGIC), struct.pack(">I", MAGIC), bytes(4096), b"text\n" * 99],
)
def test_nothing_to_tell_by(data):
    assert detect(data, "x") is None


@given(st.binary(max_size=400))
def test_any_bytes(data):
    """R15: random bytes are nothing of kvmtrace's; nothing else is raised than what is said."""
    with suppress(FormatError):
        detect(data, "x")
