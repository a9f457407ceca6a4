"""The block header: FORMAT.md, "Block header"."""

from __future__ import annotations

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tracelib.errors import DamageError, FormatError
from tracelib.segment.block import (
    HEADER_BYTES,
    MAX_BLOCK_BYTES,
    PAGE,
    BlockHeader,
    Flag,
    Kind,
    build_block,
    padded_bytes,
    payload_checksum,
    verify_payload,
)

u8, u32, u64 = st.integers(0, 2**8 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)

headers = st.builds(
    BlockHeader, kind=u8, payload_bytes=st.just(0), block_bytes=st.just(0), sequence=u64,
    flags=u8, cpu=u32, records=u32, lost_marks=u32, lost=u64, lost_first_tsc=u64,
    lost_last_tsc=u64, first_tsc=u64, last_tsc=u64, round=u64, ring_id=u64, ring_start=u32,
    ring_end=u32, drained_at=u64, checksum=st.none(),
)


def small_block(payload: bytes = b"payload!", **changes) -> bytes:
    header = BlockHeader(Kind.RECORDS, 0, 0, sequence=3, cpu=1, records=2, first_tsc=5)
    return build_block(header._replace(**changes), payload)


def check(block: bytes) -> BlockHeader:
    """Decode and verify, as a reader does."""
    header = BlockHeader.decode(block)
    verify_payload(memoryview(block), header)
    return header


@given(headers, st.binary(max_size=5000))
def test_round_trip(header, payload):
    block = build_block(header, payload)
    assert len(block) == padded_bytes(len(payload))
    found = check(block)
    assert found == header._replace(
        payload_bytes=len(payload), block_bytes=len(block), checksum=payload_checksum(payload)
    )
    assert block[HEADER_BYTES : HEADER_BYTES + len(payload)] == payload


@given(headers, st.binary(max_size=300))
def test_in_place_gives_the_same_bytes(header, payload):
    size = padded_bytes(len(payload))
    header = header._replace(payload_bytes=len(payload), block_bytes=size)
    staged = bytearray(size)
    staged[HEADER_BYTES : HEADER_BYTES + len(payload)] = payload
    header.encode_into(memoryview(staged))
    assert bytes(staged) == build_block(header, payload)


@pytest.mark.parametrize(
    ("payload", "size"), [(0, 4096), (1, 4096), (3968, 4096), (3969, 8192), (8064, 8192)]
)
def test_blocks_are_whole_pages(payload, size):
    """R09: header, payload and padding together."""
    assert padded_bytes(payload) == size


@pytest.mark.parametrize("more", [b"", b"\0", b"x" * 5000])
def test_trailing_bytes_are_none_of_its_business(more):
    assert check(small_block() + more).sequence == 3


def test_cut_at_every_byte():
    """A header that is cut is damage; a payload that is cut fails its checksum."""
    block = small_block()
    for size in range(HEADER_BYTES):
        with pytest.raises(DamageError):
            BlockHeader.decode(block[:size])
    for size in range(HEADER_BYTES, HEADER_BYTES + len(b"payload!")):
        with pytest.raises(DamageError):
            check(block[:size])


def test_every_flipped_bit_is_caught():
    """All but those in the padding, which `verify` looks at. A bit of the version flipped is
    damage too, not another version (R20)."""
    block = small_block()
    for bit in range(8 * (HEADER_BYTES + len(b"payload!"))):
        damaged = bytearray(block)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamageError):
            check(bytes(damaged))


@given(headers, st.binary(max_size=300))
def test_a_checksum_taken_earlier_gives_the_same_bytes(header, payload):
    """As the collector does, while the payload is in the CPU's cache."""
    early = header._replace(checksum=payload_checksum(payload))
    assert build_block(early, payload) == build_block(header, payload)


def test_payloads_that_changed_places_are_caught():
    """Their checksums are right for themselves, but not for these headers."""
    first, second = bytearray(small_block(b"one")), bytearray(small_block(b"two", sequence=4))
    first[HEADER_BYTES:], second[HEADER_BYTES:] = second[HEADER_BYTES:], first[HEADER_BYTES:]
    first[120:128], second[120:128] = second[120:128], first[120:128]
    for block in (first, second):
        with pytest.raises(DamageError, match="header check"):
            check(bytes(block))


def test_an_all_zero_page_is_never_a_block():
    with pytest.raises(DamageError, match="no block here"):
        BlockHeader.decode(bytes(PAGE))


def rechecked(block: bytes) -> bytes:
    """With both checks made right again, as another release would write them."""
    head = bytearray(block[:HEADER_BYTES])
    payload_bytes = int.from_bytes(block[20:24], "little")
    payload = block[HEADER_BYTES : HEADER_BYTES + payload_bytes]
    head[120:128] = xxhash.xxh3_64_intdigest(payload).to_bytes(8, "little")
    head[32:40] = bytes(8)
    head[32:40] = xxhash.xxh3_64_intdigest(bytes(head)).to_bytes(8, "little")
    return bytes(head) + block[HEADER_BYTES:]


def patched(at: int, data: bytes) -> bytes:
    block = bytearray(small_block())
    block[at : at + len(data)] = data
    return rechecked(bytes(block))


def test_recheck_is_what_the_encoder_does():
    assert rechecked(small_block()) == small_block()


def test_a_newer_version_is_refused_by_name():
    with pytest.raises(FormatError, match="version 2; this release reads 1") as caught:
        BlockHeader.decode(patched(4, b"\x02\x00"))
    assert "newer" in (caught.value.hint or "")


def test_big_endian_magic_is_named():
    with pytest.raises(FormatError, match="big-endian"):
        BlockHeader.decode(b"BRTX" + small_block()[4:])


@pytest.mark.parametrize(
    ("at", "value", "size"),
    [
        (6, 64, 2),  # header length
        (24, 100, 4),  # block length: no whole pages
        (24, 0, 4),
        (24, MAX_BLOCK_BYTES + PAGE, 4),
        (20, PAGE, 4),  # payload length: more than the block
        (20, 2**32 - 1, 4),
    ],
)
def test_impossible_lengths_are_damage(at, value, size):
    with pytest.raises(DamageError):
        BlockHeader.decode(patched(at, value.to_bytes(size, "little")))


def test_unknown_kinds_flags_and_reserved_bytes_are_read_past():
    """FORMAT.md, "Other versions"."""
    header = check(small_block(kind=200, flags=0x80 | Flag.FULL_ROUND))
    assert (header.kind, header.flags) == (200, 0x81)
    assert check(patched(10, b"\xff\xff")).sequence == 3


@given(st.binary(max_size=200))
def test_any_bytes_are_a_header_or_our_error(data):
    with pytest.raises((DamageError, FormatError)):
        BlockHeader.decode(data)
