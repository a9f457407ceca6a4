"""xentrace files as a TraceReader: files, pipes, files that change under the reader."""

from __future__ import annotations

import os
import threading

import pytest

import tracelib
from tests.support.captures import NAMES, capture, write
from tests.support.xentrace import noise, records_of, round_robin, row, timed, window
from tracelib.chunks import Chunk, TraceReader
from tracelib.errors import FormatError, StoreError
from tracelib.records import iter_records
from tracelib.xentrace import reader as reader_module
from tracelib.xentrace.encoder import encode_chunks
from tracelib.xentrace.reader import XentraceReader


@pytest.fixture
def open_bytes(tmp_path):
    """Opens bytes as a file; closes all readers at the end."""
    readers = []

    def opened(data: bytes) -> XentraceReader:
        path = tmp_path / f"{len(readers)}.trace"
        path.write_bytes(data)
        readers.append(tracelib.open(path))
        assert isinstance(readers[-1], XentraceReader)
        return readers[-1]

    yield opened
    for one in readers:
        one.close()


def seen(chunks) -> list[tuple[int, int, bytes]]:
    return [(chunk.cpu, chunk.offset, bytes(chunk.payload)) for chunk in chunks]


def test_all_chunks_and_those_of_one_cpu(open_bytes):
    """R22: CPU numbers have holes and are not renumbered."""
    reader: TraceReader = open_bytes(round_robin(cpus=(6, 0, 2, 4), rounds=3))
    assert reader.cpus() == [0, 2, 4, 6]
    every = seen(reader.chunks())
    assert [cpu for cpu, _, _ in every] == [6, 0, 2, 4] * 3
    for cpu in reader.cpus():
        assert seen(reader.chunks_of(cpu)) == [entry for entry in every if entry[0] == cpu]
    assert seen(reader.chunks_of(1)) == []
    assert reader.problems == []
    assert reader.losses() == ()
    assert reader.info.kind == "xentrace"


def test_short_windows_joined(open_bytes, monkeypatch):
    """In order, whole, and no more at once than is wanted: three windows' bytes."""
    data = round_robin(cpus=(0, 1), rounds=10)
    reader = open_bytes(data)
    whole = {cpu: b"".join(bytes(c.payload) for c in reader.chunks_of(cpu)) for cpu in (0, 1)}
    (run,) = seen(reader.runs_of(1))
    assert run == (1, next(reader.chunks_of(1)).offset, whole[1])
    monkeypatch.setattr(reader_module, "RUN_BYTES", 3 * len(whole[0]) // 10)
    monkeypatch.setattr(reader_module, "_BLOCK_BYTES", 1024)
    monkeypatch.setattr(reader_module, "_BLOCKS", 2)
    reader = open_bytes(data)
    runs = {cpu: seen(reader.runs_of(cpu)) for cpu in (0, 1)}
    assert {cpu: b"".join(run[2] for run in runs[cpu]) for cpu in runs} == whole
    assert [len(runs[cpu]) for cpu in runs] == [4, 4]
    starts = [chunk.offset for chunk in reader.chunks_of(0)]
    assert [run[1] for run in runs[0]] == starts[::3]
    assert seen(reader.runs_of(2)) == []


def test_nothing_is_joined_in_a_damaged_file(open_bytes):
    """R20: what lies between two windows is told, so each is given by itself."""
    reader = open_bytes(round_robin(rounds=5)[:-7])
    assert seen(reader.runs_of(0)) == seen(reader.chunks_of(0))
    assert len(seen(reader.runs_of(0))) == 5
    assert reader.problems


@pytest.mark.parametrize("place", [0, 5, 700, 2000, 2001, 4100, -30])
@pytest.mark.parametrize("size", [1000, 4096, 1 << 20])
def test_skimming_finds_what_the_whole_pass_does(place, size, open_bytes, monkeypatch):
    """R20: wherever the damage is, and however the file is cut into reads."""
    monkeypatch.setattr(reader_module, "READ_BYTES", size)
    data = bytearray(round_robin(cpus=(0, 3, 1), rounds=9, records=20))
    data[place : place + 20] = noise(19)
    whole = open_bytes(bytes(data))
    every = seen(whole.chunks())
    skimmed = open_bytes(bytes(data))
    assert [seen(skimmed.chunks_of(cpu)) for cpu in (0, 1, 3)] == [
        [entry for entry in every if entry[0] == cpu] for cpu in (0, 1, 3)
    ]
    assert [(p.offset, p.said) for p in skimmed.problems] == [
        (p.offset, p.said) for p in whole.problems
    ]
    assert skimmed.problems


@pytest.mark.parametrize("name", NAMES)
def test_runs_have_the_chunks_bytes(name, open_bytes):
    reader = open_bytes(capture(name))
    for cpu in reader.cpus():
        runs = b"".join(bytes(chunk.payload) for chunk in reader.runs_of(cpu))
        assert runs == b"".join(bytes(chunk.payload) for chunk in reader.chunks_of(cpu))


def test_several_iterators_at_once(open_bytes):
    reader = open_bytes(round_robin(cpus=(0, 1), rounds=5))
    pairs = zip(reader.chunks_of(0), reader.chunks_of(1), reader.chunks(), strict=False)
    assert [(a.cpu, b.cpu) for a, b, _ in pairs] == [(0, 1)] * 5


def test_problems_are_noted_once_however_often_it_is_read(open_bytes):
    """R20"""
    reader = open_bytes(round_robin()[:-7])
    for _ in range(3):
        list(reader.chunks())
        list(reader.chunks_of(1))
    (problem,) = reader.problems
    assert problem.file == reader.info.name
    assert problem.missing_bytes is not None
    assert str(problem).startswith(f"{reader.info.name}: offset {problem.offset}: the file ends")


def test_empty_file(open_bytes):
    """R41: 0 bytes are 0 records, and no problem."""
    reader = open_bytes(b"")
    assert seen(reader.chunks()) == []
    assert reader.cpus() == []
    assert reader.problems == []


def test_random_bytes_name_the_file(open_bytes):
    """R15"""
    reader = open_bytes(noise(5000))
    with pytest.raises(FormatError, match=r"0\.trace: offset 0: not an xentrace file"):
        list(reader.chunks())


def test_truncated_while_it_is_read(open_bytes, monkeypatch):
    """R21: no SIGBUS, no traceback: what is left is given, and what is missing is said."""
    monkeypatch.setattr(reader_module, "_BLOCK_BYTES", 512)
    data = round_robin(cpus=(0, 1), rounds=40, records=100)
    reader = open_bytes(data)
    chunks = reader.chunks_of(0)
    first = next(chunks)
    os.truncate(reader.info.name, first.offset + len(first.payload) * 3 + 5)
    rest = list(chunks)
    assert len(rest) < 39
    assert all(
        sum(len(r.encode()) for r in iter_records(chunk.payload)) == len(chunk.payload)
        for chunk in rest
    )
    assert {problem.reason for problem in reader.problems} == {
        "the file became shorter while it was read"
    }
    assert sum(problem.missing_bytes or 0 for problem in reader.problems) > 0


def test_truncated_while_runs_are_read(open_bytes, monkeypatch):
    """R21"""
    monkeypatch.setattr(reader_module, "_BLOCK_BYTES", 512)
    monkeypatch.setattr(reader_module, "RUN_BYTES", 4000)
    reader = open_bytes(round_robin(cpus=(0, 1), rounds=40, records=100))
    runs = reader.runs_of(0)
    first = next(runs)
    os.truncate(reader.info.name, first.offset + len(first.payload) * 6 + 5)
    rest = list(runs)
    assert 0 < len(rest) < 39
    for chunk in rest:
        assert sum(len(r.encode()) for r in iter_records(chunk.payload)) == len(chunk.payload) > 0
    assert sum(problem.missing_bytes or 0 for problem in reader.problems) > 0


def test_windows_larger_than_a_read(open_bytes, monkeypatch):
    monkeypatch.setattr(reader_module, "READ_BYTES", 100)
    data = round_robin(cpus=(0, 1), rounds=3, records=50)
    assert b"".join(encode_chunks(open_bytes(data).chunks())) == data


@pytest.mark.parametrize("name", NAMES)
def test_encoder_gives_the_file_again(name, open_bytes):
    reader = open_bytes(capture(name))
    assert b"".join(encode_chunks(reader.chunks())) == capture(name)


def test_encoder_leaves_out_empty_windows():
    empty = Chunk(0, memoryview(b""), "", 0)
    full = Chunk(1, memoryview(timed(5)), "", 0)
    assert b"".join(encode_chunks([empty, full])) == window(1, timed(5))


def test_pipe(tmp_path):
    """A pipe is read like a file, by CPU and as often as one likes."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    data = capture("idle.trace")

    def feed() -> None:
        with path.open("wb") as pipe:
            pipe.write(data)

    feeder = threading.Thread(target=feed)
    feeder.start()
    reader = tracelib.open(path)
    feeder.join()
    try:
        assert b"".join(encode_chunks(reader.chunks())) == data
        assert sum(len(c.payload) for cpu in reader.cpus() for c in reader.chunks_of(cpu)) == sum(
            len(c.payload) for c in reader.chunks()
        )
    finally:
        reader.close()


def test_rubbish_from_a_pipe_fills_no_disk(tmp_path, monkeypatch):
    """An endless pipe of zeros is refused while it runs."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    read_end, write_end = os.pipe()
    written = 0

    def feed() -> None:
        nonlocal written
        try:
            while True:
                written += os.write(write_end, bytes(1 << 20))
        except BrokenPipeError:
            os.close(write_end)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        with pytest.raises(FormatError, match="no cpu_change record"):
            tracelib.open(f"/dev/fd/{read_end}")
    finally:
        os.close(read_end)
        feeder.join()
    assert written < 80 << 20
    assert list(tmp_path.iterdir()) == []


def test_missing_and_unreadable(tmp_path):
    with pytest.raises(StoreError, match=r"cannot open .*nothing\.trace"):
        tracelib.open(tmp_path / "nothing.trace")


def test_offsets_are_those_of_the_file(open_bytes):
    data = window(0, *row(1000, 3)) + window(1, *row(1000, 3))
    reader = open_bytes(data)
    for chunk in reader.chunks():
        assert data[chunk.offset : chunk.offset + len(chunk.payload)] == chunk.payload


def test_closing_twice(tmp_path):
    reader = tracelib.open(write("idle.trace", tmp_path))
    reader.close()
    reader.close()


def test_support_agrees_with_itself():
    """records_of and the decoder speak of the same places."""
    from tests.support.xentrace import decode

    data = round_robin()
    assert all(
        data[at : at + len(record.encode())] == record.encode()
        for _, at, record in records_of(decode(data)[0])
    )
