"""A kvmtrace set as a reader: chunks, what lies between them, and which files it is."""

from __future__ import annotations

import os
import random
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

import tracelib
from tests.support.kvmtrace import KINDS, ORDERS, Style, entry, guest, handler, leave, write_set
from tracelib.chunks import Problem
from tracelib.errors import FormatError, StoreError
from tracelib.kvmtrace import member
from tracelib.kvmtrace.layout import Kind
from tracelib.kvmtrace.names import member_cpu, members
from tracelib.kvmtrace.reader import KvmtraceReader
from tracelib.reading import parts
from tracelib.records import Record, iter_records
from xtraced.sources.sim.replay import open_replay

STYLES = [Style(kind, order) for kind, order in product(KINDS, ORDERS)]
RECS = guest(1 << 40, 40)


def read(path: Path, layout: Kind | None = None) -> tuple[dict[int, list[Record]], list[Problem]]:
    """Each CPU's records, with their offsets in its file, and the problems."""
    found: dict[int, list[Record]] = {}
    with closing(tracelib.open(path, kvmtrace_layout=layout)) as reader:
        for cpu in reader.cpus():
            found[cpu] = [
                one._replace(offset=chunk.offset + one.offset)
                for chunk in reader.chunks_of(cpu) for one in iter_records(chunk.payload)
            ]
        return found, list(reader.problems)


def times(records: list[Record]) -> list[int | None]:
    return [one.tsc for one in records]


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_a_whole_set(tmp_path, style):
    """R43: the CPU is in the file's name only; each file has its own magic."""
    name = write_set(tmp_path, style, {0: RECS, 1: guest(7, 3, vcpu=1), 10: RECS[:5]})
    found, problems = read(name)
    assert list(found) == [0, 1, 10]
    assert times(found[0]) == [rec.time for rec in RECS]
    assert [one.extra[:2] for one in found[1]] == [(4711, 1)] * 9
    assert len(found[10]) == 5
    assert [problem.reason for problem in problems] == ["the file of CPU 2-9 is not there"]


def test_offsets_are_those_in_the_file(tmp_path):
    style = Style("packed", ">")
    found, _ = read(write_set(tmp_path, style, {0: RECS}))
    expected, at = [], 4
    for rec in RECS:
        expected.append(at)
        at += len(style.record(rec))
    assert [one.offset for one in found[0]] == expected


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_pieces_of_any_size_say_the_same(tmp_path, style, monkeypatch):
    """Also of a file with damage in it, before which a record is not trusted."""
    name = write_set(tmp_path, style, {0: RECS, 1: RECS[:1], 2: []})
    data = bytearray(style.file(RECS))
    data[300:340] = b"\xff" * 40
    data[700:1500] = bytes(800)
    (tmp_path / "guest.kvmtrace.3").write_bytes(data + bytes(3))
    whole = read(name)
    assert len(whole[1]) == 3
    for size in (128, 132, 204, 1000):
        monkeypatch.setattr(member, "READ_BYTES", size)
        assert read(name) == whole


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_cut_at_every_byte(tmp_path, style):
    """R21: all that is whole before the cut, and one problem with offset and missing bytes."""
    recs = RECS[:4]
    sizes = [len(style.record(rec)) for rec in recs]
    whole = style.file(recs)
    head = len(whole) - sum(sizes)
    path = tmp_path / "x.kvmtrace.0"
    for length in range(head + sizes[0], len(whole)):
        path.write_bytes(whole[:length])
        found, problems = read(path)
        end, count = head, 0
        while end + sizes[count] <= length:
            end += sizes[count]
            count += 1
        assert times(found[0]) == [rec.time for rec in recs[:count]]
        left = length - end
        missing = sizes[count] if left >= 4 else left
        expected = [Problem(str(path), end, "the file ends within a record", missing)]
        assert problems == (expected if left else [])


@pytest.mark.parametrize("style", STYLES, ids=str)
@pytest.mark.parametrize("zeros", [True, False])
def test_damage_in_the_middle(tmp_path, style, zeros):
    """A sector of zeros, or of anything: the records around it, and where it lies."""
    data = bytearray(style.file(RECS))
    filling = bytes(512) if zeros else random.Random(7).randbytes(512)
    data[600:1112] = filling
    path = tmp_path / "x.kvmtrace.3"
    path.write_bytes(data)
    found, [problem] = read(path)
    starts, at = [], len(style.file([]))
    for rec in RECS:
        starts.append(at)
        at += len(style.record(rec))
    sizes = [len(style.record(rec)) for rec in RECS]
    before = [start for start, size in zip(starts, sizes, strict=True) if start + size <= 600]
    after = [start for start in starts if start >= 1112]
    assert [one.offset for one in found[3]] == before + after
    first = before[-1] + sizes[len(before) - 1]
    assert (problem.offset, problem.missing_bytes) == (first, after[0] - first)


@pytest.mark.parametrize(
    ("filling", "kept"), [(b"\xff" * 64, 3), (bytes(64), 4)], ids=["anything", "zeros"]
)
def test_the_record_before_damage(tmp_path, filling, kept):
    """Damage may have begun within it, and no checksum tells: it is not shown. It is if zeros
    follow a word that is none, since then they begin right behind it."""
    style = Style("packed")
    recs = [leave(1 << 33, 1), handler(0x05, 0x60, 1), entry(3 << 33), handler(0x05, 0x70, 1)]
    path = tmp_path / "x.kvmtrace.0"
    path.write_bytes(style.file(recs) + filling + style.record(entry(5 << 33)))
    found, [problem] = read(path)
    assert times(found[0]) == [rec.time for rec in recs[:kept]] + [5 << 33]
    assert problem.missing_bytes == 64 + sum(len(style.record(rec)) for rec in recs[kept:])


def test_zeros_up_to_the_end(tmp_path):
    """kvmtrace makes its files longer ahead of writing, and was killed before it cut them."""
    data = Style("halves").file(RECS)
    (tmp_path / "x.kvmtrace.0").write_bytes(data + bytes(5000))
    found, problems = read(tmp_path / "x.kvmtrace")
    assert len(found[0]) == len(RECS)
    assert [(p.offset, p.missing_bytes) for p in problems] == [(len(data), 5000)]
    assert "killed" in problems[0].reason


def test_several_passes_find_the_same(tmp_path):
    (tmp_path / "x.kvmtrace.0").write_bytes(Style("packed").file(RECS)[:-3])
    with closing(tracelib.open(tmp_path / "x.kvmtrace")) as reader:
        rows = [[bytes(chunk.payload) for chunk in reader.chunks()] for _ in range(3)]
        assert rows[0] == rows[1] == rows[2]
        assert len(reader.problems) == 1
        assert not reader.losses()
        assert reader.info.losses_unknown


@pytest.mark.parametrize(
    ("other", "said"),
    [(Style("packed", ">"), "packed, big-endian"), (Style("halves"), "halves, little-endian")],
)
def test_a_file_of_another_machine_is_left_out(tmp_path, other, said):
    """R43: mixed orders, mixed layouts: the first file counts, the other one is named."""
    write_set(tmp_path, Style("packed"), {0: RECS, 2: RECS})
    name = write_set(tmp_path, other, {1: RECS})
    found, problems = read(name)
    assert list(found) == [0, 2]
    assert [Path(p.file).name for p in problems] == ["guest.kvmtrace.1"]
    assert said in problems[0].reason
    assert "packed or timestamp, little-endian" in problems[0].reason


def test_garbage_beside_a_good_file(tmp_path):
    """What is intact is read, the rest named."""
    name = write_set(tmp_path, Style("timestamp"), {0: RECS})
    (tmp_path / "guest.kvmtrace.1").write_bytes(random.Random(1).randbytes(3000))
    found, problems = read(name)
    assert len(found[0]) == len(RECS)
    assert not found[1]
    assert [(Path(p.file).suffix, p.offset, p.missing_bytes) for p in problems] == [(".1", 0, 3000)]


def test_nothing_but_garbage_is_refused(tmp_path):
    """R15: refused with offset 0, and no events."""
    (tmp_path / "x.kvmtrace.0").write_bytes(random.Random(1).randbytes(5000))
    with pytest.raises(FormatError) as caught:
        tracelib.open(tmp_path / "x.kvmtrace")
    assert caught.value.offset == 0


def test_empty_files_are_a_set_without_records(tmp_path):
    name = write_set(tmp_path, Style("packed"), {0: [], 1: []})
    (tmp_path / "guest.kvmtrace.2").touch()
    assert read(name) == ({}, [])
    (tmp_path / "guest.kvmtrace.3").write_bytes(bytes(3))
    with pytest.raises(FormatError):
        tracelib.open(name)


def test_untimed_records_keep_their_place(tmp_path):
    recs = [handler(0x0F), leave(5, 1), handler(0x05, 1, 1), entry(9)]
    found, _ = read(write_set(tmp_path, Style("packed"), {0: recs}))
    assert times(found[0]) == [None, 5, None, 9]


@pytest.mark.parametrize(
    ("style", "asked", "hz"),
    [
        (Style("timestamp", ">"), None, 10**9), (Style("timestamp"), Kind.TIMESTAMP, 10**9),
        (Style("timestamp"), None, None), (Style("packed", ">"), None, None),
        (Style("halves"), None, None),
    ],
)  # fmt: skip
def test_only_nanoseconds_have_a_rate(tmp_path, style, asked, hz):
    name = write_set(tmp_path, style, {0: RECS})
    with closing(tracelib.open(name, kvmtrace_layout=asked)) as reader:
        assert (reader.info.kind, reader.info.tsc_hz) == ("kvmtrace", hz)


@pytest.mark.parametrize(
    ("order", "words", "family"),
    [("<", (0x800000FD,), "vmx"), ("<", (), "svm"), (">", (0x800000FD,), "ppc")],
)
def test_whose_exits_they_are(tmp_path, order, words, family):
    """vmx.c logs an interrupt with VM_EXIT_INTR_INFO, svm.c without anything; big-endian is
    PowerPC."""
    recs = [*RECS, handler(0x0E, *words)]
    name = write_set(tmp_path, Style("timestamp", order), {0: RECS, 1: recs})
    with closing(tracelib.open(name)) as reader:
        assert reader.info.exit_family == family


def test_nothing_tells_whose_exits_they_are(tmp_path):
    with closing(tracelib.open(write_set(tmp_path, Style("packed"), {0: RECS}))) as reader:
        assert reader.info.exit_family is None


def test_what_a_set_can_be_called(tmp_path, monkeypatch):
    name = write_set(tmp_path, Style("packed"), {0: RECS, 1: RECS}, name="a.b")
    both = {cpu: Path(f"{name}.{cpu}") for cpu in (0, 1)}
    assert members(str(name)) == members(str(tmp_path / "a.b")) == both
    assert members(f"{name}.1") == {1: both[1]}
    monkeypatch.chdir(tmp_path)
    assert list(members("a.b.kvmtrace")) == [0, 1]
    (tmp_path / "a.b").mkdir()
    assert not members(str(tmp_path / "a.b"))
    assert len(parts(name)) == 1


@pytest.mark.parametrize(
    "name", ["", ".", "/", "x", "x.kvmtrace", "x.kvmtrace.0", "no/x.kvmtrace", "x" * 5000, "a\0b"]
)
def test_what_is_no_set(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.kvmtrace.65536").touch()
    (tmp_path / "x.kvmtrace.01").touch()
    (tmp_path / "x.kvmtrace.0x").touch()
    assert not members(name)


@pytest.mark.parametrize(
    ("name", "cpu"),
    [("x.kvmtrace.0", 0), ("x.kvmtrace.65535", 65535), ("x.kvmtrace.65536", None),
     ("x.kvmtrace.00", None), (".kvmtrace.1", None), ("x.kvmtrace", None), ("x.0", None)],
)  # fmt: skip
def test_the_cpu_in_a_name(name, cpu):
    assert member_cpu(name) == cpu


def test_a_file_by_another_name_is_told_what_it_lacks(tmp_path):
    path = tmp_path / "renamed"
    path.write_bytes(Style("packed").file(RECS))
    with pytest.raises(FormatError) as caught:
        tracelib.open(path)
    assert "NAME.kvmtrace.CPU" in str(caught.value.hint)


def test_a_set_is_not_replayed(tmp_path):
    """Its records are no records of Xen's, which is what a store holds."""
    with pytest.raises(FormatError):
        open_replay(write_set(tmp_path, Style("packed"), {0: RECS}))


def test_a_file_that_may_not_be_opened(tmp_path):
    (tmp_path / "x.kvmtrace.1").mkdir()
    path = tmp_path / "x.kvmtrace.0"
    path.write_bytes(Style("packed").file(RECS))
    with pytest.raises(StoreError):
        KvmtraceReader({0: path, 1: tmp_path / "x.kvmtrace.2"}, "x")


def test_a_member_that_is_a_pipe_is_refused_without_waiting(tmp_path):
    """Nobody may ever write into it."""
    name = write_set(tmp_path, Style("packed"), {0: RECS})
    os.mkfifo(tmp_path / "guest.kvmtrace.1")
    with pytest.raises(StoreError, match=r"guest\.kvmtrace\.1: it is no regular file"):
        read(name)
