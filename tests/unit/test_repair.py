"""repair: everything intact goes on, what is gone is stated, and the old file stays as it is."""

from __future__ import annotations

import random

import pytest

from tests.support.segments import SegmentBuilder, make_metadata, make_records, payloads
from tracelib.errors import FormatError, StoreError, UsageError
from tracelib.losses import Cause, Loss
from tracelib.segment.block import HEADER_BYTES, PAGE, BlockHeader, Kind
from tracelib.segment.encoder import SegmentEncoder
from tracelib.segment.metadata import Metadata
from tracelib.store.reader import SegmentReader
from tracelib.store.repair import Repaired, repair_segment, repair_store
from tracelib.store.verify import verify_segment, verify_store
from tracelib.units import CpuId, Tsc

FIRST = 3
"""Blocks 0-2 are metadata, state, anchor."""
RECORDS = 10
BYTES = 16 * RECORDS


def builder(sequence: int = 1, **metadata) -> SegmentBuilder:
    """Six records blocks of CPUs 0 and 1 by turns, ten records each, ring positions right."""
    made = SegmentBuilder(sequence, **metadata)
    for number in range(6):
        turn = number // 2
        made.block(
            number % 2, make_records(RECORDS, first_tsc=1000 * (turn + 1)), ring_id=7,
            ring_start=turn * BYTES, ring_end=(turn + 1) * BYTES, round=turn + 1,
        )  # fmt: skip
    return made.anchor(9000, seconds=3).seal()


def repaired(made: SegmentBuilder, tmp_path, **name) -> tuple[Repaired, SegmentReader]:
    source = made.write(tmp_path, **name)
    before = source.read_bytes()
    (tmp_path / "new").mkdir(exist_ok=True)
    target = tmp_path / "new" / "mended.xtr"
    result = repair_segment(source, target)
    assert source.read_bytes() == before
    assert list((tmp_path / "new").iterdir()) == [target]
    assert (result.source, result.target) == (str(source), str(target))
    return result, SegmentReader(target)


def test_a_clean_segment_stays_as_it_is(tmp_path):
    made = builder()
    result, reader = repaired(made, tmp_path)
    with reader:
        assert result.clean
        assert result.records == 6 * RECORDS
        assert reader.path.read_bytes() == bytes(made.data)


def test_a_damaged_payload_whose_header_is_intact(tmp_path):
    """R20: the intact blocks go on; how much the damaged one held is known."""
    made = builder()
    at = made.blocks[FIRST + 2]
    result, reader = repaired(made.flip(at + HEADER_BYTES + 5), tmp_path)
    gone = Loss(
        Cause.DAMAGED, CpuId(0), RECORDS, BYTES, Tsc(2000), Tsc(2090), at=None,
        detail="damaged on the disk",
    )
    assert result.gaps == [(at, PAGE, "payload checksum differs")]
    assert result.losses == [gone]
    assert result.records == 5 * RECORDS
    with reader:
        assert len(list(reader.chunks())) == 5
        assert list(reader.losses()) == [gone]
        assert list(verify_segment(reader)) == []


@pytest.mark.parametrize("sealed", [True, False])
def test_a_damaged_header(tmp_path, sealed):
    """With the seal's index the loss has a number; without, the ring's positions tell of it."""
    made = builder()
    at = made.blocks[FIRST + 2]
    made.flip(at + 20)
    if not sealed:
        made.flip(made.blocks[-1] + HEADER_BYTES)
    result, reader = repaired(made, tmp_path)
    [loss] = [loss for loss in result.losses if loss.cpu == 0]
    assert (loss.cause, loss.records) == (Cause.DAMAGED, RECORDS if sealed else None)
    assert loss.first_tsc == (2000 if sealed else 1090)
    assert loss.last_tsc == (2090 if sealed else 3000)
    with reader:
        assert reader.seal is not None
        assert reader.seal.reason == ("stop" if sealed else "repair")
        assert list(verify_segment(reader)) == []


def test_the_end_is_missing(tmp_path):
    """R21: each CPU's tail is lost, and nobody knows how much of it."""
    made = builder()
    made.cut(made.blocks[FIRST + 3] + 100)
    result, reader = repaired(made, tmp_path)
    said = {loss.cpu: (loss.records, loss.first_tsc) for loss in result.losses}
    assert said == {0: (None, 2090), 1: (None, 1090), 3: (None, None)}
    with reader:
        assert [cpu for cpu, _ in payloads(reader.chunks())] == [0, 1, 0]
        assert list(verify_segment(reader)) == []


def test_a_damaged_seal_loses_no_records(tmp_path):
    made = builder()
    result, reader = repaired(made.flip(made.blocks[-1] + HEADER_BYTES), tmp_path)
    assert result.losses == []
    assert result.records == 6 * RECORDS
    with reader:
        assert list(verify_segment(reader)) == []


def test_no_metadata(tmp_path):
    result, reader = repaired(builder().zero(0, PAGE), tmp_path)
    assert result.headless
    assert result.records == 6 * RECORDS
    with reader:
        assert reader.metadata is None


def test_a_block_that_is_there_twice(tmp_path):
    """Nothing comes twice: an overwritten sector held a copy of another block."""
    made = builder()
    one, other = made.blocks[FIRST], made.blocks[FIRST + 4]
    made.data[other : other + PAGE] = made.data[one : one + PAGE]
    result, reader = repaired(made, tmp_path)
    assert result.repeated == 1
    with reader:
        assert len(list(reader.chunks())) == 5


def test_losses_that_were_stated_already_are_kept_and_not_told_twice(tmp_path):
    crash = Loss(Cause.CRASH, CpuId(0), None, detail="x")
    made = SegmentBuilder().block(0, make_records(RECORDS), ring_id=7, ring_end=BYTES)
    made.losses(crash).block(
        0, make_records(RECORDS, first_tsc=5000), ring_id=7, ring_start=3 * BYTES,
        ring_end=4 * BYTES,
    ).seal()
    result, reader = repaired(made, tmp_path)
    assert result.clean
    with reader:
        assert list(reader.losses()) == [crash]


def test_nothing_that_is_there_is_overwritten(tmp_path):
    source = builder().write(tmp_path)
    (tmp_path / "new").mkdir()
    target = tmp_path / "new" / "taken"
    target.write_bytes(b"mine")
    with pytest.raises(StoreError, match="File exists"):
        repair_segment(source, target)
    assert target.read_bytes() == b"mine"
    assert list((tmp_path / "new").iterdir()) == [target]


def test_not_beside_the_old_one_under_a_segment_s_name(tmp_path):
    source = builder().write(tmp_path)
    with pytest.raises(UsageError, match="second segment"):
        repair_segment(source, tmp_path / "00000009-20261130T220000Z.xtr")


def test_nothing_intact_is_no_new_file(tmp_path):
    (tmp_path / "new").mkdir()
    source = tmp_path / "00000001-20261130T220000Z.xtr"
    source.write_bytes(bytes(5 * PAGE))
    with pytest.raises(FormatError, match="no intact block"):
        repair_segment(source, tmp_path / "new" / "mended")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_newer_format_is_refused_by_name(tmp_path):
    made = SegmentBuilder(incompatible=("mirrored",)).block(0, make_records(3)).seal()
    with pytest.raises(FormatError, match="mirrored"):
        repaired(made, tmp_path)


def test_a_store(tmp_path):
    store, target = tmp_path / "store", tmp_path / "new"
    store.mkdir()
    builder(1).write(store)
    hurt = builder(2, boot_id="another")
    hurt.flip(hurt.blocks[FIRST] + HEADER_BYTES).write(store)
    (store / "00000003-20261130T230000Z.xtr").write_bytes(bytes(3 * PAGE))
    results = list(repair_store(store, target))
    assert [result.records for result in results] == [60, 50, 0]
    assert [result.clean for result in results] == [True, False, False]
    assert results[2].target == ""
    assert sorted(path.name for path in target.iterdir()) == sorted(
        path.name for path in store.iterdir() if path.name < "00000003"
    )
    assert [f for f in verify_store(target) if f.severity == "error"] == []
    with pytest.raises(UsageError, match="not empty"):
        list(repair_store(store, target))


def test_every_kind_of_damage_leaves_what_a_reader_reads(tmp_path):
    """R20, R21, 300 mutations: repair keeps exactly the chunks that reading the damaged
    segment gives, and its result is in order."""
    whole = builder()
    (tmp_path / "new").mkdir()
    rng = random.Random("repair")
    for number in range(300):
        made = whole.copy()
        mutate(made.data, rng)
        source = made.write(tmp_path)
        target = tmp_path / "new" / f"{number}.mended"
        try:
            with SegmentReader(source) as reader:
                left = payloads(reader.chunks())
        except FormatError:
            left = []
        try:
            result = repair_segment(source, target)
        except FormatError:
            assert left == []
            continue
        with SegmentReader(target) as reader:
            kept = payloads(reader.chunks())
        assert set(left) <= set(kept)
        assert len(kept) == len(set(kept)) == result.records // RECORDS
        found = [finding.reason for finding in verify_segment(target)]
        assert [reason for reason in found if "metadata" not in reason] == []


def mutate(data: bytearray, rng: random.Random) -> None:
    kind = rng.randrange(5)
    if kind == 0:
        del data[rng.randrange(len(data)) :]
    elif kind == 1:
        for _ in range(rng.randrange(1, 40)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 2:
        at = rng.randrange(len(data) // 512) * 512
        data[at : at + 512] = bytes(512)
    elif kind == 3:
        at, other = (PAGE * rng.randrange(len(data) // PAGE) for _ in range(2))
        data[at : at + PAGE] = data[other : other + PAGE]
    else:
        at = rng.randrange(len(data))
        del data[at : at + rng.randrange(1, 2 * PAGE)]


def test_metadata_and_kinds_of_later_releases_are_carried_over(tmp_path):
    """A kind of block that this release does not know goes on as it is."""
    encoder = SegmentEncoder(make_metadata())
    assert Metadata.decode(encoder.metadata.encode()).sequence == 1
    made = SegmentBuilder().block(0, make_records(3))
    header = BlockHeader(77, 5, PAGE, len(made.blocks))
    made._append((header.encode(b"hello") + b"hello").ljust(PAGE, b"\0"))
    source = made.write(tmp_path, name="loose")
    result = repair_segment(source, tmp_path / "mended")
    with SegmentReader(tmp_path / "mended") as reader:
        kinds = [entry.kind for entry in reader.index]
    assert kinds.count(77) == 1
    assert kinds[0] == Kind.METADATA
    assert result.records == 3
