"""verify: clean files are clean, and each kind of fault is found, named and placed."""

from __future__ import annotations

import os

import pytest

from tests.support.segments import (
    SegmentBuilder,
    append_file,
    make_anchor,
    make_records,
    write_file,
)
from tracelib.errors import FormatError, StoreError
from tracelib.losses import Cause, Loss
from tracelib.records import make_record
from tracelib.segment.block import HEADER_BYTES, PAGE, BlockHeader, Flag, Kind, build_block
from tracelib.segment.findings import Finding, Severity
from tracelib.segment.index import CpuTotals, Index
from tracelib.segment.seal import Seal
from tracelib.store.blockfile import BlockFile
from tracelib.store.verify import verify_segment, verify_store

LOST = make_record(0x1F001, 7, 0x00010002, 900, 0, tsc=2000)
WRAP = make_record(0x1F002, *[0xDEAD] * 7, tsc=1)
FIRST = 3  # Blocks 0-2 are metadata, state, anchor.


def findings(builder: SegmentBuilder, tmp_path, **name) -> list[Finding]:
    path = builder.write(tmp_path, **name)
    found = list(verify_segment(path))
    assert all(finding.file == str(path) for finding in found)
    return found


def errors(found: list[Finding]) -> list[tuple[int, str]]:
    assert all(finding.severity is Severity.ERROR for finding in found)
    return [(finding.offset, finding.reason) for finding in found]


def ring(start: int, end: int, **more: int) -> dict[str, int]:
    return {"ring_id": 5, "ring_start": start, "ring_end": end, **more}


# Clean


def healthy() -> SegmentBuilder:
    """A bit of everything."""
    return (
        SegmentBuilder()
        .block(0, make_records(3), **ring(0, 48))
        .block(3, make_records(400, first_tsc=1001))
        .block(0, LOST + WRAP + make_record(0x82013) + make_records(1, first_tsc=2100),
               **ring(48, 48 + 28 + 40 + 4 + 16))
        .anchor(3000, seconds=1)
        .losses(Loss(Cause.RING_CORRUPT, 1, None))
    )  # fmt: skip


@pytest.mark.parametrize("seal", [True, False])
def test_a_healthy_segment_is_clean(tmp_path, seal):
    builder = healthy()
    assert findings(builder.seal(anchor=make_anchor(9000)) if seal else builder, tmp_path) == []


@pytest.mark.parametrize("payload", [4, 12, 3968, 4092, 8064])
def test_blocks_filled_to_any_point_are_clean(tmp_path, payload):
    """R09: no phantom records, whatever is left of the last page. R73: also where a record
    ends exactly at the end of a page, with the header and without."""
    data = make_record(0x82013) * (payload // 4)
    assert findings(SegmentBuilder().block(0, data).seal(), tmp_path) == []


def test_empty_files_and_heads_are_clean(tmp_path):
    """R41."""
    assert findings(SegmentBuilder().seal(), tmp_path) == []
    path = tmp_path / "00000002-20261130T220000Z.xtr"
    write_file(path, b"")
    assert list(verify_segment(path)) == []


# Counts


@pytest.mark.parametrize("change", [1, -1])
@pytest.mark.parametrize(
    ("field", "true"),
    [
        ("records", 3), ("lost_marks", 1), ("lost", 7), ("lost_first_tsc", 900),
        ("lost_last_tsc", 2000), ("first_tsc", 2000), ("last_tsc", 2100),
    ],
)  # fmt: skip
def test_each_number_in_a_header_is_recounted(tmp_path, field, true, change):
    """R20, R73: the rule is FORMAT.md's: wrap fillers do not count, lost records do."""
    payload = LOST + WRAP + make_record(0x82013) + make_records(1, first_tsc=2100)
    builder = SegmentBuilder().block(0, payload, **{field: true}).seal()
    assert findings(builder, tmp_path) == [], "the right number"
    builder = SegmentBuilder().block(0, payload, **{field: true + change}).seal()
    ((offset, reason),) = errors(findings(builder, tmp_path))
    assert offset == builder.blocks[FIRST] + HEADER_BYTES
    assert f"the header says {true + change} " in reason
    assert reason.endswith(f"the payload {true}")


def test_each_wrong_block_is_named(tmp_path):
    """R73: not only the first."""
    builder = SegmentBuilder()
    for number in range(4):
        builder.block(number % 2 * 3, make_records(2, first_tsc=1000 * number + 1000),
                      records=2 + number % 2)  # fmt: skip
    found = errors(findings(builder.seal(), tmp_path))
    assert [offset for offset, _ in found] == [
        builder.blocks[n] + HEADER_BYTES for n in (FIRST + 1, FIRST + 3)
    ]


@pytest.mark.parametrize("cut", range(4, 40, 4))
def test_a_block_never_ends_inside_a_record(tmp_path, cut):
    """R27, R73: a record continued in the next block."""
    record = make_record(0x21011, *range(7), tsc=2000)
    payload = make_records(2) + record[:cut]
    builder = SegmentBuilder().block(0, payload).seal()
    at = builder.blocks[FIRST] + HEADER_BYTES + 32
    assert (at, "no whole record starts here") in errors(findings(builder, tmp_path))


def test_zeros_in_a_payload_are_no_records(tmp_path):
    payload = make_records(2) + bytes(64)
    builder = SegmentBuilder().block(0, payload, records=2).seal()
    ((offset, _),) = errors(findings(builder, tmp_path))
    assert offset == builder.blocks[FIRST] + HEADER_BYTES + 32


@pytest.mark.parametrize("payload", [b"", b"\x01\x02\x03"])
def test_payloads_of_no_or_half_words(tmp_path, payload):
    builder = SegmentBuilder().block(0, payload).seal()
    ((_, reason),) = errors(findings(builder, tmp_path))
    assert f"{len(payload)} bytes" in reason


def test_lost_records_of_neither_shape_are_a_warning(tmp_path):
    """R16."""
    payload = make_record(0x1F001, 1, 2, 3, tsc=2000)
    builder = SegmentBuilder().block(0, payload).seal()
    (found,) = findings(builder, tmp_path)
    assert found.severity is Severity.WARNING
    assert "unknown shape" in found.reason


# Time


def test_a_step_back_inside_a_block(tmp_path):
    """R77: an error, with the offset of the record that steps back."""
    payload = make_records(3) + make_records(2, first_tsc=1005)
    builder = SegmentBuilder().block(0, payload).seal()
    assert errors(findings(builder, tmp_path)) == [
        (builder.blocks[FIRST] + HEADER_BYTES + 48, "time steps back by 15 cycles on CPU 0")
    ]


def test_a_step_back_between_a_cpus_blocks(tmp_path):
    """R77, with another CPU's block between, and a block without time."""
    builder = (
        SegmentBuilder()
        .block(0, make_records(1, first_tsc=5000))
        .block(3, make_records(1, first_tsc=100))
        .block(0, make_record(0x82013))
        .block(0, make_records(2, first_tsc=4999))
        .seal()
    )
    ((offset, reason),) = errors(findings(builder, tmp_path))
    assert offset == builder.blocks[FIRST + 3] + HEADER_BYTES
    assert "CPU 0" in reason


def test_equal_times_and_stale_wrap_times_are_fine(tmp_path):
    payload = make_records(3, step=0) + WRAP + make_records(1)
    assert findings(SegmentBuilder().block(0, payload).seal(), tmp_path) == []


def test_clocks_that_disagree_are_a_warning_with_size(tmp_path):
    """R77, R18: CPU 3's clock is 100 cycles behind. Round 7 drained every ring, so what came
    with round 8 is younger than all of round 6."""
    full = {"flags": Flag.FULL_ROUND}
    builder = (
        SegmentBuilder()
        .block(0, make_records(1, first_tsc=5000), round=6, **full)
        .block(1, make_records(1, first_tsc=5010), round=7, **full)
        .block(3, make_records(1, first_tsc=4900), round=8, **full)
        .block(3, make_records(1, first_tsc=4950), round=9, **full)
        .seal()
    )
    (found,) = findings(builder, tmp_path)
    assert found.severity is Severity.WARNING
    assert found.offset == builder.blocks[FIRST + 2]
    assert "CPU 3 is behind that of CPU 0 by at least 100 cycles (2 cases)" in found.reason.replace(
        "behind that of CPU 1", "behind that of CPU 0"
    )


def test_rounds_that_overlap_prove_nothing(tmp_path):
    """CPU 3's ring was emptied in round 7, before CPU 0's was: its records of round 8 may be
    older than CPU 0's of round 7. And after a round that left something behind, anything goes."""
    builder = SegmentBuilder()
    builder.block(0, make_records(1, first_tsc=5000), round=7, flags=Flag.FULL_ROUND)
    builder.block(3, make_records(1, first_tsc=4000), round=8, flags=0)
    builder.block(1, make_records(1, first_tsc=3000), round=9, flags=Flag.FULL_ROUND)
    assert findings(builder.seal(), tmp_path) == []


# Places


def test_padding(tmp_path):
    builder = healthy().seal()
    at = builder.blocks[FIRST] + PAGE - 1
    ((offset, reason),) = errors(findings(builder.flip(at), tmp_path))
    assert (offset, reason) == (builder.blocks[FIRST], "the padding is not zero")


@pytest.mark.parametrize("number", range(9))
@pytest.mark.parametrize("at", [0, 20, 127, HEADER_BYTES])
def test_each_damaged_block_is_an_error_at_its_place(tmp_path, number, at):
    """R20. Only the damage is said: not everything that cannot fit any more because of it."""
    builder = healthy().seal()
    start = builder.blocks[number]
    found = errors(findings(builder.flip(start + at), tmp_path))
    assert start in [offset for offset, _ in found]
    if number == 8:
        found = [finding for finding in found if "no seal" not in finding[1]]
    assert len(found) == 1


def test_every_flipped_bit_is_an_error(tmp_path):
    """Of a whole small file: there is no byte whose change goes unnoticed."""
    builder = SegmentBuilder().block(0, make_records(1)).seal()
    path = builder.write(tmp_path)
    with path.open("r+b", buffering=0) as file:
        for at in range(0, len(builder.data), 7):
            byte = builder.data[at]
            os.pwrite(file.fileno(), bytes([byte ^ 1 << at % 8]), at)
            assert any(f.severity is Severity.ERROR for f in verify_segment(path)), at
            os.pwrite(file.fileno(), bytes([byte]), at)
    assert list(verify_segment(path)) == []


def test_block_numbers(tmp_path):
    """A hole, and the same block twice."""
    builder = SegmentBuilder().block(0, make_records(1))
    again = bytes(builder.data[builder.blocks[FIRST] :])
    found = errors(findings(builder.raw(again), tmp_path))
    assert [offset for offset, _ in found] == [builder.blocks[FIRST] + PAGE]
    assert "block number 3 where 4 belongs" in found[0][1]


def test_a_cut_segment_has_no_seal(tmp_path):
    builder = healthy().seal()
    found = errors(findings(builder.cut(builder.blocks[-1]), tmp_path))
    assert found == [(len(builder.data), "no seal: the end of the segment is missing")]


def test_an_open_segments_unfinished_end_is_a_warning(tmp_path):
    """It may be written right now; if not, the next start of the service deals with it."""
    builder = healthy().raw(b"half a block")
    (found,) = findings(builder, tmp_path)
    assert found.severity is Severity.WARNING
    assert "12 bytes" in found.reason


def test_a_block_being_written_is_no_fault(tmp_path, monkeypatch):
    """It has grown by the time we got to its end."""
    builder = healthy().raw(b"half a block")
    path = builder.write(tmp_path)
    real = BlockFile.refresh

    def grow(file):
        append_file(path, b"more of it")
        return real(file)

    monkeypatch.setattr(BlockFile, "refresh", grow)
    monkeypatch.setattr("tracelib.store.indexing._walk_from", lambda *_: (0, None))
    assert list(verify_segment(path)) == []


def test_records_of_a_cpu_without_a_ring(tmp_path):
    builder = SegmentBuilder().block(2, make_records(1)).seal()
    ((_, reason),) = errors(findings(builder, tmp_path))
    assert "CPU 2, which has no ring" in reason


def test_the_name_and_the_metadata_agree(tmp_path):
    builder = healthy().seal()
    found = findings(builder, tmp_path, name="00000009-20261130T220000Z.xtr")
    ((_, reason),) = errors(found)
    assert "metadata says segment 1, the name 9" in reason


@pytest.mark.parametrize("kind", [Kind.METADATA, Kind.STATE, Kind.ANCHOR, Kind.LOSS])
def test_notes_that_cannot_be_decoded(tmp_path, kind):
    builder = healthy()
    builder.raw(build_block(BlockHeader(kind, 0, 0, builder.encoder.blocks), b"\xc1"))
    ((offset, _),) = errors(findings(builder, tmp_path))
    assert offset == builder.blocks[-1] + PAGE


def test_foreign_files(tmp_path):
    write_file(tmp_path / "file", b"rubbish" * 1000)
    with pytest.raises(FormatError):
        list(verify_segment(tmp_path / "file"))
    with pytest.raises(StoreError):
        list(verify_segment(tmp_path / "none"))


# The seal


def reseal(builder: SegmentBuilder, **changes) -> SegmentBuilder:
    """With a seal that says something else."""
    encoder = builder.encoder
    true = {
        "reason": "stop", "ended_at": 1, "cpus": encoder.cpus, "anchors": [make_anchor()],
        "index": encoder._tally.index,
    }  # fmt: skip
    builder.sealed = True
    return builder.raw(Seal(**(true | changes)).build(encoder.size, encoder.blocks))


def two_blocks() -> SegmentBuilder:
    return SegmentBuilder().block(0, make_records(3)).block(3, make_records(2))


def test_a_right_seal_made_by_hand_is_clean(tmp_path):
    assert findings(reseal(two_blocks()), tmp_path) == []


def test_seal_totals_are_compared(tmp_path):
    builder = two_blocks()
    cpus = dict(builder.encoder.cpus)
    cpus[3] = cpus[3]._replace(records=5)
    cpus[1] = CpuTotals()
    found = [reason for _, reason in errors(findings(reseal(builder, cpus=cpus), tmp_path))]
    assert found == [
        "CPU 1 is only in the seal",
        "the seal says 5 for CPU 3's records, the blocks 2",
    ]


def test_seal_anchors_are_compared(tmp_path):
    found = findings(reseal(two_blocks(), anchors=[]), tmp_path)
    assert [reason for _, reason in errors(found)] == [
        "the seal has 0 anchors, not the 1 of the blocks"
    ]


def test_the_index_is_compared(tmp_path):
    """One entry wrong, one missing, one for a block that is not there."""
    builder = two_blocks()
    entries = list(builder.encoder._tally.index)
    entries[1] = entries[1]._replace(records=9)
    gone = entries.pop(3)
    entries.append(entries[-1]._replace(offset=entries[-1].offset + PAGE))
    index = Index(b"".join(entry.encode() for entry in entries))
    found = [reason for _, reason in errors(findings(reseal(builder, index=index), tmp_path))]
    assert found == [
        f"the index entry of the block at {PAGE} differs from its header",
        f"the block at {gone.offset} is not in the index",
        f"the index has a block at {gone.offset + 2 * PAGE} where there is none",
    ]


def test_the_trailer_must_lead_to_the_seal(tmp_path):
    builder = two_blocks()
    seal = bytearray(healthy().seal().data[-PAGE:])
    place = builder.encoder.size
    header = BlockHeader.decode(bytes(seal))
    moved = build_block(header._replace(sequence=builder.encoder.blocks), bytes(seal[128:]))
    found = findings(builder.raw(moved), tmp_path)
    assert (place, "the trailer does not lead to the seal") in errors(found)


def test_nothing_may_follow_a_seal(tmp_path):
    builder = two_blocks().seal()
    number = builder.encoder.blocks
    builder.raw(build_block(BlockHeader(200, 0, 0, number), b"late"))
    found = errors(findings(builder, tmp_path))
    assert (builder.blocks[-1] + PAGE, "a block behind the seal") in found


# Ring positions


def test_a_gap_in_ring_positions_without_a_loss(tmp_path):
    builder = SegmentBuilder().block(0, make_records(1), **ring(0, 16))
    builder.block(0, make_records(1, first_tsc=2000), **ring(32, 48)).seal()
    ((offset, reason),) = errors(findings(builder, tmp_path))
    assert offset == builder.blocks[FIRST + 1]
    assert "starts at ring position 32, the block before ended at 16" in reason


def test_a_stated_loss_explains_it(tmp_path):
    """Before the block or, as when a failed write is told later, behind it."""
    for late in (False, True):
        builder = SegmentBuilder().block(0, make_records(1), **ring(0, 16))
        loss = Loss(Cause.WRITE_FAILED, 0, 1)
        if not late:
            builder.losses(loss)
        builder.block(0, make_records(1, first_tsc=2000), **ring(32, 48))
        if late:
            builder.losses(loss)
        assert findings(builder.seal(), tmp_path) == []


def test_a_loss_of_another_cpu_does_not(tmp_path):
    builder = SegmentBuilder().block(0, make_records(1), **ring(0, 16))
    builder.losses(Loss(Cause.WRITE_FAILED, 1, 1))
    builder.block(0, make_records(1, first_tsc=2000), **ring(32, 48)).seal()
    assert len(errors(findings(builder, tmp_path))) == 1


def test_positions_run_modulo_2x(tmp_path):
    """R01: a block that goes over the end of the index range; X = 131064."""
    end = 2 * 131064
    builder = SegmentBuilder().block(0, make_records(2), **ring(end - 16, 16)).seal()
    assert findings(builder, tmp_path) == []


def test_what_was_taken_and_is_not_here(tmp_path):
    builder = SegmentBuilder().block(0, make_records(2), **ring(0, 100)).seal()
    ((_, reason),) = errors(findings(builder, tmp_path))
    assert "100 bytes were taken from the ring, 32 are here" in reason


def test_another_ring_or_an_unknown_one_cannot_be_compared(tmp_path):
    builder = SegmentBuilder().block(0, make_records(1), **ring(0, 16))
    builder.block(0, make_records(1, first_tsc=2000), ring_id=6, ring_start=500, ring_end=516)
    builder.block(0, make_records(1, first_tsc=3000), ring_id=0, ring_start=9, ring_end=1)
    assert findings(builder.seal(), tmp_path) == []


# Stores


def store_findings(tmp_path) -> list[tuple[str, str]]:
    return [(f.file.rsplit("/", 1)[1][:8], f.reason) for f in verify_store(tmp_path)]


def sealed(tmp_path, sequence: int, first_tsc: int, **changes) -> None:
    metadata = {"boot_id": changes.pop("boot_id")} if "boot_id" in changes else {}
    builder = SegmentBuilder(sequence, **metadata)
    builder.block(0, make_records(1, first_tsc=first_tsc), **changes).seal().write(tmp_path)


def test_a_healthy_store_is_clean(tmp_path):
    """R55, R56: rotated in the middle; nothing twice, nothing missing."""
    for n in range(1, 5):
        sealed(tmp_path, n, 1000 * n, **ring(16 * n, 16 * n + 16))
    SegmentBuilder(5).write(tmp_path)
    assert store_findings(tmp_path) == []


def test_missing_segments(tmp_path):
    for n in (3, 4, 7):
        sealed(tmp_path, n, 1000 * n)
    assert store_findings(tmp_path) == [
        ("00000007", "segments 5 to 6 are missing before it"),
    ], "those before the first were deleted on purpose"


def test_two_segments_of_one_number(tmp_path):
    sealed(tmp_path, 1, 1000)
    SegmentBuilder(1).write(tmp_path)
    ((_, reason),) = store_findings(tmp_path)
    assert "second segment number 1" in reason


def test_positions_across_segments(tmp_path):
    sealed(tmp_path, 1, 1000, **ring(0, 16))
    sealed(tmp_path, 2, 2000, **ring(64, 80))
    ((file, reason),) = store_findings(tmp_path)
    assert file == "00000002"
    assert "starts at ring position 64" in reason


def test_a_loss_told_in_the_next_segment_explains_it(tmp_path):
    """The store failed: what was lost is told in the next segment that can be written."""
    sealed(tmp_path, 1, 1000, **ring(0, 16))
    sealed(tmp_path, 2, 2000, **ring(64, 80))
    third = SegmentBuilder(3).losses(Loss(Cause.WRITE_FAILED, 0, 3))
    third.seal().write(tmp_path)
    assert store_findings(tmp_path) == []


def test_time_across_segments(tmp_path):
    sealed(tmp_path, 1, 5000)
    sealed(tmp_path, 2, 4000)
    ((file, reason),) = store_findings(tmp_path)
    assert file == "00000002"
    assert "time steps back" in reason


def test_a_reboot_starts_anew(tmp_path):
    """Another boot of the hypervisor: TSCs and rings cannot be compared."""
    sealed(tmp_path, 1, 5000, boot_id="one", **ring(0, 16))
    sealed(tmp_path, 2, 4000, boot_id="two", **ring(64, 80))
    assert store_findings(tmp_path) == []


def test_a_newer_segment_is_one_finding(tmp_path):
    sealed(tmp_path, 1, 1000)
    SegmentBuilder(2, incompatible=("zstd",)).seal().write(tmp_path)
    sealed(tmp_path, 3, 3000)
    ((file, reason),) = store_findings(tmp_path)
    assert file == "00000002"
    assert "zstd" in reason
