"""The encoder: what it makes is what a reader finds."""

from __future__ import annotations

from tests.support.segments import (
    CREATED_AT,
    NO_STATE,
    SegmentBuilder,
    header_for,
    make_anchor,
    make_metadata,
    make_records,
)
from tracelib.losses import Cause, Loss
from tracelib.records import make_record
from tracelib.segment import notes
from tracelib.segment.block import HEADER_BYTES, BlockHeader, Kind, verify_payload
from tracelib.segment.encoder import SegmentEncoder
from tracelib.segment.metadata import Metadata
from tracelib.segment.seal import TRAILER_BYTES, Seal, find_seal


def walk(data: bytes | bytearray) -> list[tuple[int, BlockHeader, bytes]]:
    """(offset, header, payload) of each block; all must be intact and adjoin."""
    blocks = []
    at = 0
    while at < len(data):
        header = BlockHeader.decode(data[at : at + HEADER_BYTES])
        whole = memoryview(data)[at : at + header.block_bytes]
        verify_payload(whole, header)
        blocks.append((at, header, bytes(whole[128 : 128 + header.payload_bytes])))
        at += header.block_bytes
    return blocks


def test_head():
    metadata = make_metadata(7)
    encoder = SegmentEncoder(metadata)
    losses = [Loss(Cause.CRASH, 0, 5)]
    data = encoder.head(NO_STATE, make_anchor(), losses)
    blocks = walk(data)
    assert [header.kind for _, header, _ in blocks] == [
        Kind.METADATA, Kind.STATE, Kind.ANCHOR, Kind.LOSS,
    ]
    assert Metadata.decode(blocks[0][2]) == metadata
    assert notes.decode_state(blocks[1][2]) == NO_STATE
    assert notes.decode_anchor(blocks[2][2]) == (make_anchor(), "start")
    assert notes.decode_losses(blocks[3][2]) == losses
    assert encoder.size == len(data)


def test_head_without_anchor_or_losses():
    data = SegmentEncoder(make_metadata()).head(NO_STATE, None, ())
    assert [header.kind for _, header, _ in walk(data)] == [Kind.METADATA, Kind.STATE]


def test_a_staged_block_is_completed_in_place():
    """R09: whatever lay in the padding is zeroed; nothing of it can pass for a record."""
    encoder = SegmentEncoder(make_metadata())
    head = encoder.head(NO_STATE, None, ())
    payload = make_records(3)
    staged = bytearray(b"\xff" * 8192)
    staged[128 : 128 + len(payload)] = payload
    size = encoder.finish(memoryview(staged), header_for(1, payload))
    assert size == 4096
    assert staged[128 : 128 + len(payload)] == payload
    assert not any(staged[128 + len(payload) : 4096])
    assert staged[4096:] == b"\xff" * 4096, "beyond the block nothing is touched"
    ((_, header, _),) = walk(staged[:4096])
    assert header.sequence == 2
    assert encoder.size == len(head) + 4096


def test_blocks_are_numbered_without_holes_and_totals_add_up():
    builder = (
        SegmentBuilder()
        .block(0, make_records(3, first_tsc=50))
        .block(3, make_record(0x21011, 1))
        .anchor(60, seconds=1)
        .block(0, make_record(0x1F001, 9, 0, 55, 0, tsc=90) + make_records(2, first_tsc=95),
               ring_id=6, ring_end=44, round=5)
        .losses(Loss(Cause.RING_CORRUPT, 0, None))
    )  # fmt: skip
    encoder = builder.encoder
    assert encoder.size == len(builder.data)
    assert encoder.blocks == 8
    assert encoder.records == 7
    assert encoder.cpus[0]._asdict() == {
        "blocks": 2, "records": 6, "payload_bytes": 5 * 16 + 28, "lost_marks": 1, "lost": 9,
        "first_tsc": 50, "last_tsc": 105, "round": 5, "ring_id": 6, "ring_end": 44,
    }  # fmt: skip
    assert encoder.cpus[3].first_tsc == 0, "no record with a TSC"
    builder.seal(anchor=make_anchor(200, seconds=60))
    blocks = walk(builder.data)
    assert [header.sequence for _, header, _ in blocks] == list(range(10))
    assert [header.kind for _, header, _ in blocks[-2:]] == [Kind.ANCHOR, Kind.SEAL]


def test_the_seal_says_what_the_blocks_say():
    builder = SegmentBuilder().block(0, make_records(3)).block(1, make_records(400)).seal("age")
    *blocks, (at, _, payload) = walk(builder.data)
    seal = Seal.decode(payload)
    assert (seal.reason, seal.ended_at) == ("age", CREATED_AT + 60 * 10**9)
    assert [(e.offset, e.kind, e.cpu, e.records, e.block_bytes) for e in seal.index] == [
        (offset, h.kind, h.cpu, h.records, h.block_bytes) for offset, h, _ in blocks
    ]
    assert seal.cpus == builder.encoder.cpus
    assert seal.anchors == [make_anchor()]
    place = find_seal(builder.data[-TRAILER_BYTES:], len(builder.data))
    assert place == (at, len(builder.data) - at)


def test_rewind_forgets_what_was_not_written():
    """Blocks that failed to reach the disk leave no trace in numbers, totals or index."""
    plain = SegmentBuilder().block(0, make_records(3)).block(1, make_records(2)).seal()
    builder = SegmentBuilder().block(0, make_records(3))
    mark = builder.encoder.mark()
    builder.copy().block(0, make_records(5)).block(2, make_records(7)).anchor(5, seconds=9)
    assert builder.encoder.blocks == 7
    builder.encoder.rewind(mark)
    builder.block(1, make_records(2)).seal()
    assert builder.data == plain.data
