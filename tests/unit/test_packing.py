"""msgpack behind one module: plain values there and back, everything else our own error."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelib.errors import DamageError
from tracelib.packing import MAX_DEPTH, pack, unpack

plain = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2**64 - 1) | st.floats(allow_nan=False)
    | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(plain)
def test_round_trip(value):
    assert unpack(pack(value)) == value


@given(plain)
def test_cut_at_every_byte_is_our_error(value):
    data = pack(value)
    for size in range(len(data)):
        with pytest.raises(DamageError):
            unpack(data[:size])


@given(plain, st.binary(min_size=1, max_size=3))
def test_trailing_bytes_are_refused(value, more):
    with pytest.raises(DamageError):
        unpack(pack(value) + more)


@given(st.binary(max_size=64))
def test_any_bytes_give_a_value_or_our_error(data):
    with suppress(DamageError):
        unpack(data)


def test_a_tuple_becomes_a_list_and_a_memoryview_will_do():
    assert unpack(memoryview(pack((1, ("a",))))) == [1, ["a"]]


def test_names_that_are_no_unicode_survive():
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert unpack(pack(name)) == name


@pytest.mark.parametrize(
    "data",
    [
        b"\x81\x01\x02",  # {1: 2}
        b"\xd6\xff\x00\x00\x00\x01",  # timestamp extension
        b"\xc7\x00\x05",  # an empty extension of type 5
        b"\xc1",  # never used
        b"\xd9\x05\xff\xff",  # text, cut
        b"\xdd\xff\xff\xff\xff",  # an array of 4 294 967 295
        b"\x91" * 5000,  # nested deeper than any stack
    ],
)
def test_what_is_refused(data):
    with pytest.raises(DamageError):
        unpack(data)


def test_depth_limit_is_exact():
    def nested(depth):
        return pack(0) if depth == 0 else b"\x91" + nested(depth - 1)

    unpack(nested(MAX_DEPTH))
    with pytest.raises(DamageError):
        unpack(nested(MAX_DEPTH + 1))


def test_item_limit_is_exact():
    assert unpack(pack([0] * 10), max_items=10) == [0] * 10
    with pytest.raises(DamageError):
        unpack(pack([0] * 11), max_items=10)


def test_a_length_is_not_believed_beyond_the_bytes_there_are():
    with pytest.raises(DamageError):
        unpack(b"\xdd" + struct.pack(">I", 1 << 19) + bytes(100))
