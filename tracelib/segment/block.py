"""The block: a header of 128 bytes and a payload, padded with zeros to whole pages.

FORMAT.md, "Block header", has the table and the reasons.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple, Self

import xxhash

from tracelib.errors import DamageError, FormatError
from tracelib.units import Nanoseconds, Tsc

PAGE = 4096
MAGIC = b"XTRB"
VERSION = 1
HEADER_BYTES = 128
NO_CPU = 0xFFFFFFFF
MAX_BLOCK_BYTES = 64 << 20
"""No writer makes larger blocks; a reader refuses a header that claims one."""

_FIELDS = struct.Struct("<4sHHBBHIIIII8xQQQQQQQQIIQ")
_U64 = struct.Struct("<Q")
_CHECK_AT = 32
_CHECKSUM_AT = HEADER_BYTES - _U64.size
_ZERO_CHECK = bytes(_U64.size)
assert _FIELDS.size == _CHECKSUM_AT


class Kind(enum.IntEnum):
    """What a block's payload is. A reader skips kinds it does not know."""

    METADATA = 1
    RECORDS = 2
    ANCHOR = 3
    STATE = 4
    LOSS = 5
    SEAL = 6


class Flag(enum.IntFlag):
    """Block flags. A reader ignores the ones it does not know."""

    FULL_ROUND = 1
    """Every ring was drained in this block's round."""
    BEFORE_START = 2
    """These records were in the ring when the service started."""
    AFTER_STOP = 4
    """Drained after tracing was switched off: the last of this CPU in this run."""
    QUEUE_FULL = 8
    """What its lost records tell was lost because every staging buffer waited for the disk."""


class BlockHeader(NamedTuple):
    """All fields of a block header but magic, version, header length and checksum."""

    kind: int
    payload_bytes: int
    block_bytes: int
    sequence: int
    flags: int = 0
    cpu: int = NO_CPU
    records: int = 0
    """Records in the payload: all but wrap fillers; lost records count."""
    lost_marks: int = 0
    """How many of them are lost records."""
    lost: int = 0
    """Sum of the counts in those lost records."""
    lost_first_tsc: Tsc = Tsc(0)
    lost_last_tsc: Tsc = Tsc(0)
    first_tsc: Tsc = Tsc(0)
    """First and last TSC in the payload; 0 if no record carries one."""
    last_tsc: Tsc = Tsc(0)
    round: int = 0
    ring_id: int = 0
    ring_start: int = 0
    """The ring's consumer index (0..2X-1) before this block was taken, and after."""
    ring_end: int = 0
    drained_at: Nanoseconds = Nanoseconds(0)
    """CLOCK_REALTIME when the block was drained, in ns since the epoch."""
    checksum: int | None = None
    """`payload_checksum` of the payload; None when encoding: to be computed then."""

    def encode(self, payload: bytes | memoryview) -> bytes:
        """The 128 header bytes, both checks included."""
        block = bytearray(HEADER_BYTES)
        self._write(memoryview(block), payload)
        return bytes(block)

    def encode_into(self, block: memoryview) -> None:
        """Write the header in front of the payload that already lies in `block`."""
        self._write(block, block[HEADER_BYTES : HEADER_BYTES + self.payload_bytes])

    def _write(self, block: memoryview, payload: bytes | memoryview) -> None:
        _FIELDS.pack_into(
            block, 0,
            MAGIC, VERSION, HEADER_BYTES, self.kind, self.flags, 0, self.cpu, self.records,
            self.payload_bytes, self.block_bytes, self.lost_marks,
            self.sequence, self.round, self.first_tsc, self.last_tsc,
            self.lost, self.lost_first_tsc, self.lost_last_tsc, self.ring_id,
            self.ring_start, self.ring_end, self.drained_at,
        )
        checksum = payload_checksum(payload) if self.checksum is None else self.checksum
        _U64.pack_into(block, _CHECKSUM_AT, checksum)
        # The check field itself is zero so far: _FIELDS writes it as padding.
        _U64.pack_into(block, _CHECK_AT, xxhash.xxh3_64_intdigest(block[:HEADER_BYTES]))

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Self:
        """Parse the first 128 bytes of a block and check them by themselves; whether the
        payload is whole is `verify_payload`'s business.

        Raises FormatError for a newer version, DamageError for anything else that is wrong.
        """
        _check_header(data)
        (
            _, version, header_bytes, kind, flags, _, cpu, records,
            payload_bytes, block_bytes, lost_marks,
            sequence, round_, first_tsc, last_tsc,
            lost, lost_first_tsc, lost_last_tsc, ring_id,
            ring_start, ring_end, drained_at,
        ) = _FIELDS.unpack_from(data)
        (checksum,) = _U64.unpack_from(data, _CHECKSUM_AT)
        if version != VERSION:
            raise FormatError(
                f"block format version {version}; this release reads {VERSION}",
                hint="a newer xtraced wrote this: read it with one at least as new",
            )
        if header_bytes != HEADER_BYTES:
            raise DamageError(f"header length {header_bytes}, not {HEADER_BYTES}")
        if (
            block_bytes % PAGE
            or not HEADER_BYTES + payload_bytes <= block_bytes <= MAX_BLOCK_BYTES
        ):
            raise DamageError(f"impossible sizes: payload {payload_bytes} in block {block_bytes}")
        return cls(
            kind, payload_bytes, block_bytes, sequence, flags, cpu, records, lost_marks, lost,
            Tsc(lost_first_tsc), Tsc(lost_last_tsc), Tsc(first_tsc), Tsc(last_tsc),
            round_, ring_id, ring_start, ring_end, Nanoseconds(drained_at), checksum,
        )


def _check_header(data: bytes | memoryview) -> None:
    """Tell a header from anything else, before any field of it is believed."""
    if len(data) < HEADER_BYTES:
        raise DamageError(f"block header cut: {len(data)} of {HEADER_BYTES} bytes")
    magic = bytes(data[:4])
    if magic == MAGIC[::-1]:
        raise FormatError("written with big-endian headers, which no release ever did")
    if magic != MAGIC:
        raise DamageError(f"no block here: magic is {magic!r}, not {MAGIC!r}")
    (stored,) = _U64.unpack_from(data, _CHECK_AT)
    head = bytes(data[:_CHECK_AT]) + _ZERO_CHECK + bytes(data[_CHECK_AT + 8 : HEADER_BYTES])
    if xxhash.xxh3_64_intdigest(head) != stored:
        raise DamageError("header check differs")


def verify_payload(block: memoryview, header: BlockHeader) -> None:
    """Check the payload of a whole block (header first) whose header was decoded.

    Raises DamageError if a byte of it changed.
    """
    payload = block[HEADER_BYTES : HEADER_BYTES + header.payload_bytes]
    if payload_checksum(payload) != header.checksum:
        raise DamageError("payload checksum differs")


def payload_checksum(payload: bytes | memoryview) -> int:
    """XXH3-64 of a payload; cheapest right after the payload was copied."""
    return xxhash.xxh3_64_intdigest(payload)


def padded_bytes(payload_bytes: int) -> int:
    """Length of the block that holds a payload of so many bytes."""
    return (HEADER_BYTES + payload_bytes + PAGE - 1) // PAGE * PAGE


def build_block(header: BlockHeader, payload: bytes | memoryview) -> bytes:
    """A whole block; `payload_bytes` and `block_bytes` of the header are filled in here."""
    size = padded_bytes(len(payload))
    header = header._replace(payload_bytes=len(payload), block_bytes=size)
    return (header.encode(payload) + bytes(payload)).ljust(size, b"\0")
