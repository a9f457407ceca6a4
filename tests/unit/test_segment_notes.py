"""Metadata, anchors, state, losses, seal: each whole, cut, with more behind, with more inside."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.segments import make_anchor, make_metadata
from tracelib import packing
from tracelib.errors import DamageError, FormatError
from tracelib.losses import Cause, Loss
from tracelib.ring.runstates import RunstateSnapshot, VcpuState
from tracelib.segment import notes
from tracelib.segment.block import HEADER_BYTES, BlockHeader, Kind
from tracelib.segment.index import ENTRY, CpuTotals, Index, IndexEntry
from tracelib.segment.metadata import Metadata
from tracelib.segment.seal import TRAILER_BYTES, Hole, Seal, find_seal

STATE = RunstateSnapshot(
    cpus={0: (1, 0), 3: (0x7FFF, 3)},
    vcpus=(VcpuState(1, 0, 0, 0, 900), VcpuState(2, 1, 2, None, 2**64 - 1)),
    overflow=7,
)
LOSSES = [
    Loss(Cause.WRITE_FAILED, 2, 10, 160, 5, 9, 123, "disk full"),
    Loss(Cause.TAIL_UNKNOWN, 0, None),
    Loss(Cause.CRASH, 1, None, 48, at=5),
]
ANCHOR = (make_anchor(2**64 - 1, seconds=3), "minute")
METADATA = make_metadata(host="h\udce9", tsc_hz=None, cpus_wanted=(0, 2), compatible=("later",))

CODECS = {
    "anchor": (notes.encode_anchor(*ANCHOR), notes.decode_anchor, ANCHOR),
    "state": (notes.encode_state(STATE), notes.decode_state, STATE),
    "losses": (notes.encode_losses(LOSSES), notes.decode_losses, LOSSES),
    "metadata": (METADATA.encode(), Metadata.decode, METADATA),
}


@pytest.fixture(params=CODECS)
def codec(request):
    return CODECS[request.param]


def test_round_trip(codec):
    data, decode, value = codec
    assert decode(data) == value
    assert decode(memoryview(data)) == value


def test_cut_at_every_byte(codec):
    data, decode, _ = codec
    for size in range(len(data)):
        with pytest.raises(DamageError):
            decode(data[:size])


def test_trailing_bytes(codec):
    data, decode, _ = codec
    with pytest.raises(DamageError):
        decode(data + b"\0")


def test_unknown_keys_are_ignored(codec):
    """FORMAT.md, "Other versions": a later release may add some."""
    data, decode, value = codec
    assert decode(packing.pack(packing.unpack(data) | {"added_later": [1, {"x": 2}]})) == value


def test_each_key_with_a_wrong_type_or_missing(codec):
    """Our own error or the value, whatever is there; never another exception."""
    data, decode, _ = codec
    whole = packing.unpack(data)
    wrong = [None, -1, True, 1.5, "text", b"bytes", [], [1], [[]], [[1]], [{}], {}, 2**64 - 1]
    for key in whole:
        for value in wrong:
            _decode_or_refuse(decode, whole | {key: value})
        _decode_or_refuse(decode, {k: v for k, v in whole.items() if k != key})
    for value in wrong:
        _decode_or_refuse(decode, value)


def _decode_or_refuse(decode, value):
    with suppress(DamageError, FormatError):
        decode(packing.pack(value))


@given(st.binary(max_size=100))
def test_any_bytes_are_refused_cleanly(data):
    for _, decode, _ in CODECS.values():
        with pytest.raises((DamageError, FormatError)):
            decode(data)


def test_rows_with_more_columns():
    """A later release may add columns to the state preamble."""
    rows = {"cpus": [[0, 1, 0, 99]], "vcpus": [[1, 0, 0, 0, 900, 5, 5]], "overflow": 0}
    state = notes.decode_state(packing.pack(rows))
    assert state.cpus == {0: (1, 0)}
    assert state.vcpus == (VcpuState(1, 0, 0, 0, 900),)


def test_an_unknown_cause_is_said_not_guessed():
    data = packing.pack({"losses": [{"cause": "gremlins", "cpu": 0, "records": 3}]})
    with pytest.raises(DamageError, match="gremlins"):
        notes.decode_losses(data)


@given(
    st.lists(
        st.builds(
            Loss, st.sampled_from(Cause), st.integers(0, 4095),
            *[st.none() | st.integers(0, 2**64 - 1)] * 5, st.text(max_size=9),
        )
    )
)
def test_any_losses(losses):
    assert notes.decode_losses(notes.encode_losses(losses)) == losses


# Metadata


REQUIRED = {
    "format", "compatible", "incompatible", "byte_order", "sequence", "run_id", "created_at",
    "service_version", "previous_reason", "source", "cpus", "ring_cpus", "ring_pages_wanted",
    "ring_pages", "events_wanted", "events",
}


@pytest.mark.parametrize("key", [field.name for field in fields(Metadata)])
def test_metadata_without_a_key(key):
    whole = packing.unpack(METADATA.encode())
    del whole[key]
    if key in REQUIRED:
        with pytest.raises(DamageError, match=key):
            Metadata.decode(packing.pack(whole))
    else:
        assert getattr(Metadata.decode(packing.pack(whole)), key) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "segment format 2; this release reads 1"),
        ({"incompatible": ["zstd", "delta"]}, "delta, zstd"),
        ({"byte_order": "big"}, "'big'"),
    ],
)
def test_what_a_reader_must_refuse_by_name(change, words):
    data = packing.pack(packing.unpack(METADATA.encode()) | change)
    with pytest.raises(FormatError, match=words):
        Metadata.decode(data)


def test_holes_in_cpu_numbers_are_kept():
    """R22: ids 0, 2, 4, 6 of 8; nothing is renumbered."""
    found = Metadata.decode(make_metadata(cpus=8, ring_cpus=(0, 2, 4, 6)).encode())
    assert (found.cpus, found.ring_cpus) == (8, (0, 2, 4, 6))


def test_more_than_64_cpus():
    """R64."""
    found = Metadata.decode(make_metadata(cpus=300, cpus_traced=(63, 64, 299)).encode())
    assert (found.cpus, found.cpus_traced) == (300, (63, 64, 299))


# Seal


ENTRIES = [
    IndexEntry(4096 * n, 10 * n, 10 * n + 9, n, 3, n, 100, 4096, Kind.RECORDS, 1) for n in range(90)
]
SEAL = Seal(
    reason="size",
    ended_at=77,
    cpus={0: CpuTotals(), 3: CpuTotals(1, 2, 3, 4, 5, 6, 7, 8, 2**64 - 1, 10)},
    anchors=[make_anchor(5), make_anchor(9, seconds=60)],
    holes=[Hole(8192, 4096)],
    index=Index(b"".join(entry.encode() for entry in ENTRIES)),
)


def sealed_payload(seal: Seal = SEAL) -> bytes:
    return seal.build(8192, 5)[HEADER_BYTES:]


def test_seal_round_trip():
    block = SEAL.build(8192, 5)
    header = BlockHeader.decode(block)
    assert (header.kind, header.sequence, header.block_bytes) == (Kind.SEAL, 5, len(block))
    assert header.payload_bytes == len(block) - HEADER_BYTES, "fills its block"
    found = Seal.decode(memoryview(block)[HEADER_BYTES:])
    assert (found.reason, found.ended_at, found.holes) == ("size", 77, SEAL.holes)
    assert found.cpus == SEAL.cpus
    assert found.anchors == SEAL.anchors
    assert list(found.index) == ENTRIES


@pytest.mark.parametrize("entries", [0, 1, 68, 69, 70, 200])
def test_the_trailer_ends_the_block_whatever_its_size(entries):
    index = Index(b"".join(entry.encode() for entry in ENTRIES[:1]) * entries)
    block = Seal(reason="", ended_at=0, cpus={}, anchors=[], index=index).build(4096, 1)
    assert len(block) % 4096 == 0
    assert find_seal(block[-TRAILER_BYTES:], 4096 + len(block)) == (4096, len(block))


def test_seal_cut_at_every_byte():
    payload = sealed_payload()
    for size in range(len(payload) - TRAILER_BYTES):
        try:
            found = Seal.decode(payload[:size])
        except DamageError:
            continue
        # Only zeros were cut off: everything the seal says is there.
        assert list(found.index) == ENTRIES


@given(st.binary(max_size=200))
def test_any_bytes_are_no_seal(data):
    with pytest.raises(DamageError):
        Seal.decode(data)


def test_longer_index_entries_are_read_by_their_length():
    """FORMAT.md, "Other versions": a later release may make entries longer."""
    longer = b"".join(entry.encode() + b"\xee" * 8 for entry in ENTRIES)
    index = Index(longer, ENTRY.size + 8)
    assert list(index) == ENTRIES
    assert index.packed == SEAL.index.packed


TRAILER = SEAL.build(8192, 5)[-TRAILER_BYTES:]
FILE_BYTES = 8192 + len(SEAL.build(8192, 5))


def test_every_flipped_bit_of_the_trailer_is_caught():
    assert find_seal(TRAILER, FILE_BYTES) is not None
    for bit in range(8 * TRAILER_BYTES):
        damaged = bytearray(TRAILER)
        damaged[bit // 8] ^= 1 << bit % 8
        assert find_seal(damaged, FILE_BYTES) is None


@pytest.mark.parametrize("size", range(TRAILER_BYTES))
def test_trailer_cut(size):
    assert find_seal(TRAILER[:size], FILE_BYTES) is None


def test_a_trailer_of_another_file_is_none_of_this_one():
    """What a file of another length ends with, as a torn copy may."""
    assert find_seal(TRAILER, FILE_BYTES + 4096) is None
