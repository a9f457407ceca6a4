"""Reading segments, whole and damaged."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.segments import (
    CREATED_AT,
    TSC_HZ,
    SegmentBuilder,
    make_anchor,
    make_records,
    payloads,
    reasons,
    write_file,
)
from tracelib.errors import FormatError, StoreError
from tracelib.losses import Cause, Loss
from tracelib.records import make_record
from tracelib.ring.runstates import RunstateSnapshot, VcpuState
from tracelib.segment.block import HEADER_BYTES, PAGE, Flag, build_block
from tracelib.segment.block import BlockHeader as Header
from tracelib.store.reader import SegmentReader

LOSS = Loss(Cause.RING_CORRUPT, 3, 4, 100)
STATE = RunstateSnapshot(cpus={0: (1, 0)}, vcpus=(VcpuState(1, 0, 0, 0, 5),), overflow=0)
PARTS = [
    (0, make_records(5, first_tsc=1000)),
    (3, make_records(300, first_tsc=1100)),
    (0, make_records(1, first_tsc=2000)),
    (1, make_record(0x82013, 0)),  # no TSC
]
"""CPU and payload of each records block; the second takes two pages."""


def small_segment(sequence: int = 1, **metadata) -> SegmentBuilder:
    """Blocks 0-2 metadata, state, anchor; 3-6 records (PARTS); 7 losses; 8 anchor."""
    builder = SegmentBuilder(sequence, state=STATE, **metadata)
    for cpu, payload in PARTS:
        builder.block(cpu, payload)
    return builder.losses(LOSS).anchor(TSC_HZ + 1000, seconds=1)


@pytest.fixture(params=["sealed", "open", "foreign name"])
def path(request, tmp_path):
    """A segment that is finished, one that is not, and one that somebody renamed."""
    builder = small_segment()
    if request.param == "open":
        return builder.write(tmp_path)
    name = "copy" if request.param == "foreign name" else None
    return builder.seal().write(tmp_path, name=name)


def read(path: Path) -> tuple[list[tuple[int, bytes]], list[str]]:
    with SegmentReader(path) as reader:
        return payloads(reader.chunks()), reasons(reader.problems)


# Whole


def test_every_block_comes_once_in_file_order(path):
    assert read(path) == (PARTS, [])


def test_one_cpu(path):
    with SegmentReader(path) as reader:
        assert reader.cpus() == [0, 1, 3]
        for cpu in range(5):
            assert payloads(reader.chunks_of(cpu)) == [p for p in PARTS if p[0] == cpu]


def test_several_iterators_at_once(path):
    with SegmentReader(path) as reader:
        first, second = reader.chunks_of(0), reader.chunks_of(3)
        one, two = next(first), next(second)
        assert bytes(one.payload) == PARTS[0][1]
        assert bytes(two.payload) == PARTS[1][1]
        assert bytes(next(first).payload) == PARTS[2][1]
        assert bytes(two.payload) == PARTS[1][1], "its own iterator has not moved"


def test_chunks_say_where_they_lie(path):
    data = path.read_bytes()
    with SegmentReader(path) as reader:
        for chunk in reader.chunks():
            assert chunk.file == str(path)
            assert data[chunk.offset :][: len(chunk.payload)] == chunk.payload


def test_records_from_before_the_start_are_marked(tmp_path):
    """R30."""
    path = (
        SegmentBuilder()
        .block(0, make_records(1), flags=Flag.BEFORE_START)
        .block(0, make_records(1, first_tsc=5000))
        .seal().write(tmp_path)
    )  # fmt: skip
    with SegmentReader(path) as reader:
        assert [chunk.before_start for chunk in reader.chunks()] == [True, False]


def test_what_it_says_of_itself(path):
    with SegmentReader(path) as reader:
        info = reader.info
        assert (info.kind, info.name, info.segments) == ("segment", str(path), 1)
        assert (info.tsc_hz, info.tsc_source) == (TSC_HZ, "simulated")
        assert (info.cpu_vendor, info.exit_family) == ("GenuineIntel", "vmx")
        assert info.anchors == [make_anchor(), make_anchor(TSC_HZ + 1000, seconds=1)]
        assert reader.state() == STATE
        assert reader.losses() == [LOSS]
        assert reader.metadata.run_id == "5eed"
        assert reader.totals[3].records == 300
        assert reader.tsc_range == (1000, 4090)


def test_its_span_is_from_creation_to_seal(tmp_path):
    path = SegmentBuilder().seal().write(tmp_path)
    with SegmentReader(path) as reader:
        assert reader.span == (CREATED_AT, CREATED_AT + 60 * 10**9)


def test_narrow_leaves_out_blocks_outside(path):
    with SegmentReader(path) as reader:
        reader.narrow(1500, 1999)
        # CPU 1's block has no TSC: nobody knows whether it is outside.
        assert payloads(reader.chunks()) == [PARTS[1], PARTS[3]]
        reader.narrow(None, 1000)
        assert payloads(reader.chunks()) == [PARTS[0], PARTS[3]]
        reader.narrow(1040, None)
        assert payloads(reader.chunks()) == PARTS


def test_no_file(tmp_path):
    with pytest.raises(StoreError, match="ENOENT"):
        SegmentReader(tmp_path / "none")


def test_a_fifo_is_refused_at_once(tmp_path):
    """Opening it would wait for a writer."""
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(FormatError, match="not a regular file"):
        SegmentReader(tmp_path / "fifo")


def test_descriptors_are_closed(path, tmp_path):
    def count():
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    read(path)
    write_file(tmp_path / "rubbish", b"rubbish" * 1000)
    with pytest.raises(FormatError):
        SegmentReader(tmp_path / "rubbish")
    assert count() == before


# Empty


def test_an_empty_file_is_a_segment_of_no_records(tmp_path):
    """R41: no error, no problem; nothing is missing from it."""
    path = tmp_path / "00000001-20261130T220000Z.xtr"
    write_file(path, b"")
    with SegmentReader(path) as reader:
        assert (payloads(reader.chunks()), reader.cpus(), reader.problems) == ([], [], [])
        assert (reader.tsc_range, reader.state(), reader.losses()) == (None, None, [])


@pytest.mark.parametrize("seal", [True, False])
def test_a_segment_of_notes_only(tmp_path, seal):
    """R41: header only."""
    builder = SegmentBuilder()
    path = (builder.seal() if seal else builder).write(tmp_path)
    assert read(path) == ([], [])


# Damaged

INTACT_STARTS = small_segment().seal().blocks


def intact_parts(damaged: set[int]) -> list[tuple[int, bytes]]:
    """PARTS without those in the blocks of these numbers."""
    return [part for number, part in enumerate(PARTS, 3) if number not in damaged]


@pytest.mark.parametrize("seal", [True, False], ids=["sealed", "open"])
@pytest.mark.parametrize("number", range(9))
@pytest.mark.parametrize("at", [0, 5, 30, 100, 127, HEADER_BYTES])
def test_one_damaged_block_costs_only_itself(tmp_path, seal, number, at):
    """R20: a flipped byte in a header or a payload; all other records are given, and the
    message names the block's place."""
    builder = small_segment()
    builder = builder.seal() if seal else builder
    start = builder.blocks[number]
    path = builder.flip(start + at).write(tmp_path)
    with SegmentReader(path) as reader:
        assert payloads(reader.chunks()) == intact_parts({number})
        reader.losses()
        reader.state()
        list(reader.anchors())
        # A sealed segment's anchors are in its seal, so nobody looks at their blocks.
        if not (seal and number in (2, 8)):
            assert start in [problem.offset for problem in reader.problems]


@pytest.mark.parametrize(
    "at", [0, 40, 127, HEADER_BYTES + 3, HEADER_BYTES + 20, PAGE - 1, PAGE - 30]
)
def test_a_damaged_seal_costs_nothing(tmp_path, at):
    """The index is a cache."""
    builder = small_segment().seal()
    path = builder.flip(builder.blocks[-1] + at).write(tmp_path)
    parts, problems = read(path)
    assert parts == PARTS
    assert problems


def test_every_flipped_bit_is_caught_or_harmless(tmp_path):
    """What is read is what was written, or less and said so; never anything else."""
    builder = SegmentBuilder().block(0, make_records(2)).seal()
    whole = [(0, make_records(2))]
    start, end = builder.blocks[3], builder.blocks[3] + HEADER_BYTES + 32
    interesting = [*range(0, HEADER_BYTES), *range(start, end + 8)]
    interesting += [*range(builder.blocks[-1], builder.blocks[-1] + 200)]
    interesting += [*range(len(builder.data) - 40, len(builder.data))]
    path = builder.write(tmp_path)
    with path.open("r+b", buffering=0) as file:
        for at in interesting:
            for bit in range(8):
                byte = builder.data[at]
                os.pwrite(file.fileno(), bytes([byte ^ 1 << bit]), at)
                parts, problems = read(path)
                assert parts == whole or (parts == [] and problems), (at, bit)
                os.pwrite(file.fileno(), bytes([byte]), at)


@pytest.mark.parametrize("seal", [True, False], ids=["sealed", "open"])
def test_cut_at_every_512_bytes_of_the_last_two_blocks(tmp_path, seal):
    """R20: all records before the cut, and a message with offset and what is missing."""
    builder, last = small_segment(), (0, make_records(700, first_tsc=9000))
    builder = builder.seal() if seal else builder.block(*last)
    needed = builder.blocks[-1] + HEADER_BYTES + len(last[1])
    for size in range(builder.blocks[-2], len(builder.data), 512):
        found, problems = read(builder.copy().cut(size).write(tmp_path))
        whole = not seal and size >= needed
        assert found == ([*PARTS, last] if whole else PARTS)
        # The anchor before it is small: of that only padding is cut.
        assert bool(problems) == (seal or builder.blocks[-1] < size < needed), size


@pytest.mark.parametrize("change", [1, -1])
def test_a_wrong_count_in_a_header_costs_no_record(tmp_path, change):
    """R20, R73: a reader trusts the bytes, not the count."""
    path = (
        SegmentBuilder().block(0, make_records(5), records=5 + change).seal().write(tmp_path)
    )
    assert read(path) == ([(0, make_records(5))], [])


@pytest.mark.parametrize("seal", [True, False], ids=["sealed", "open"])
def test_zeroed_pages(tmp_path, seal):
    """A lost sector, and the tail of a file that grew but was not written."""
    builder = small_segment()
    builder = builder.seal() if seal else builder
    start = builder.blocks[4]
    path = builder.zero(start, 2 * PAGE).write(tmp_path)
    parts, problems = read(path)
    assert parts == intact_parts({4})
    assert len(problems) == 1
    tail = small_segment().raw(bytes(5 * PAGE)).write(tmp_path)
    with SegmentReader(tail) as reader:
        assert payloads(reader.chunks()) == PARTS
        (problem,) = reader.problems
    assert (problem.offset, problem.missing_bytes) == (len(small_segment().data), 5 * PAGE)
    assert "zeros" in problem.reason


def test_a_torn_block_hides_nothing_behind_it(tmp_path):
    """Its header is whole and claims pages that hold other blocks by now."""
    torn = build_block(Header(2, 0, 0, 7, cpu=0, records=600), make_records(600))
    builder = small_segment().raw(torn[:PAGE])
    path = builder.block(1, make_records(3, first_tsc=9000)).write(tmp_path)
    parts, problems = read(path)
    assert parts == [*PARTS, (1, make_records(3, first_tsc=9000))]
    assert len(problems) == 1


def test_rubbish_between_blocks_is_stepped_over(tmp_path):
    """Magic words without a block behind them, at pages and elsewhere."""
    rubbish = (b"XTRB" + b"\xff" * 508) * 24
    path = small_segment().raw(rubbish).block(1, make_records(3, first_tsc=9000)).write(tmp_path)
    parts, problems = read(path)
    assert parts == [*PARTS, (1, make_records(3, first_tsc=9000))]
    assert len(problems) == 1


def test_the_first_page_may_be_gone(tmp_path):
    """The records are given without what the metadata says."""
    path = small_segment().zero(0, PAGE).seal().write(tmp_path)
    with SegmentReader(path) as reader:
        assert payloads(reader.chunks()) == PARTS
        assert reader.metadata is None
        assert reader.info.tsc_hz is None
        assert any("no metadata" in problem.reason for problem in reader.problems)


def test_truncated_while_it_is_read(tmp_path):
    """R21: no SIGBUS, no exception; one message for each block that is gone."""
    builder = small_segment().seal()
    path = builder.write(tmp_path)
    with SegmentReader(path) as reader:
        chunks = reader.chunks()
        assert bytes(next(chunks).payload) == PARTS[0][1]
        os.truncate(path, builder.blocks[4] + 100)
        assert payloads(chunks) == []
        assert [problem.offset for problem in reader.problems] == builder.blocks[4:7]
        assert all("cut" in problem.reason for problem in reader.problems)


def test_problems_are_noted_once_however_often_it_is_read(tmp_path):
    builder = small_segment().seal()
    path = builder.flip(builder.blocks[3] + 200).write(tmp_path)
    with SegmentReader(path) as reader:
        for _ in range(3):
            list(reader.chunks())
            list(reader.chunks_of(0))
        (problem,) = reader.problems
        assert problem.missing_bytes == len(PARTS[0][1])
        assert "5 records" in problem.reason


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_gives_a_subset_and_our_own_errors(tmp_path, data):
    """Fuzz: bytes overwritten, pages zeroed, the file cut; what is given was written."""
    builder = small_segment()
    builder = builder.seal() if data.draw(st.booleans()) else builder
    size = len(builder.data)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, size - 1))
        match data.draw(st.sampled_from(["overwrite", "zero", "cut"])):
            case "overwrite":
                builder.data[at : at + 3] = data.draw(st.binary(min_size=3, max_size=3))
            case "zero":
                page = at // PAGE * PAGE
                builder.data[page : page + PAGE] = bytes(len(builder.data[page : page + PAGE]))
            case "cut":
                builder.cut(max(at, 1))
    parts, problems = read(builder.write(tmp_path))
    assert all(part in PARTS for part in parts)
    if builder.sealed and len(parts) < len(PARTS):
        assert problems


class BadSectors:
    """Stands in for os.preadv: any read that touches these pages fails with EIO."""

    def __init__(self, monkeypatch, *pages: int) -> None:
        self._bad = set(pages)
        self._real = os.preadv
        monkeypatch.setattr("tracelib.store.blockfile.os.preadv", self)

    def __call__(self, fd, views, offset):
        touched = range(offset // PAGE, (offset + len(views[0]) - 1) // PAGE + 1)
        if self._bad & set(touched) and offset < os.fstat(fd).st_size:
            raise OSError(errno.EIO, "Input/output error")
        return self._real(fd, views, offset)


@pytest.mark.parametrize("seal", [True, False], ids=["sealed", "open"])
@pytest.mark.parametrize("number", range(9))
def test_a_sector_that_cannot_be_read_costs_only_its_block(tmp_path, monkeypatch, seal, number):
    """EIO while reading is damage at a place, not the end of everything."""
    builder = small_segment()
    builder = builder.seal() if seal else builder
    path = builder.write(tmp_path)
    BadSectors(monkeypatch, builder.blocks[number] // PAGE)
    parts, problems = read(path)
    assert parts == intact_parts({number})
    assert bool(problems) == (not seal or number not in (1, 2, 7, 8))


def test_other_refusals_to_read_are_errors(path, monkeypatch):
    def refuse(*_args):
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr("tracelib.store.blockfile.os.preadv", refuse)
    with pytest.raises(StoreError, match="ESTALE"):
        SegmentReader(path)


# Foreign and newer files


@pytest.mark.parametrize("data", [b"rubbish", os.urandom(9000), b"\x03\xf0\x01\x20" * 3000])
def test_other_files_are_refused(tmp_path, data):
    write_file(tmp_path / "file", data)
    with pytest.raises(FormatError) as caught:
        SegmentReader(tmp_path / "file")
    assert caught.value.offset == 0


def test_rubbish_with_a_segments_name_is_a_damaged_segment(tmp_path):
    path = tmp_path / "00000001-20261130T220000Z.xtr"
    write_file(path, b"rubbish" * 1000)
    parts, problems = read(path)
    assert parts == []
    assert problems


@pytest.mark.parametrize(
    ("change", "words"),
    [({"format": 9}, "segment format 9"), ({"incompatible": ("zstd",)}, "zstd")],
)
def test_a_newer_segment_is_refused_by_name(tmp_path, change, words):
    path = small_segment(**change).seal().write(tmp_path)
    with pytest.raises(FormatError, match=words) as caught:
        SegmentReader(path)
    assert caught.value.file == str(path)


def test_unknown_kinds_of_blocks_are_skipped(tmp_path):
    """FORMAT.md, "Other versions"."""
    builder = small_segment()
    later = build_block(Header(77, 0, 0, builder.encoder.blocks), b"from a later release")
    assert read(builder.raw(later).write(tmp_path)) == (PARTS, [])
