"""What is fuzzed: every parser that reads what others wrote.

A target takes any bytes and says by an exception that something is wrong: only errors of
our own (XtraceError) are answers. Some also compare two ways that must give the same.
"""

from __future__ import annotations

import os
import random
import struct
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from tests.support.captures import capture
from tests.support.kvmtrace import KINDS, ORDERS, Style, guest
from tests.support.segments import SegmentBuilder, make_anchor, make_metadata, make_records
from tracelib import packing
from tracelib.chunks import Problem
from tracelib.control.connection import CLOSED, NEED_DATA, Connection, Role
from tracelib.control.messages import Hello, Request
from tracelib.counting import count
from tracelib.cpulist import parse_cpu_list
from tracelib.errors import ProtocolError, XtraceError
from tracelib.events.filter import parse_event_filter
from tracelib.export.rules import read_rules
from tracelib.kvmtrace.member import READ_BYTES
from tracelib.kvmtrace.reader import KvmtraceReader
from tracelib.losses import Cause, Loss
from tracelib.masks import parse_event_mask
from tracelib.records import make_record
from tracelib.ring.layout import parse_t_info
from tracelib.segment import notes
from tracelib.segment.block import BlockHeader
from tracelib.segment.metadata import Metadata
from tracelib.segment.seal import Seal, find_seal
from tracelib.store.ledger import NAME as LEDGER
from tracelib.store.ledger import Ledger
from tracelib.store.reader import SegmentReader
from tracelib.store.repair import repair_segment
from tracelib.store.verify import verify_segment
from tracelib.symbols import load_book
from tracelib.units import CpuId, Nanoseconds, parse_duration, parse_hz, parse_size
from tracelib.xentrace.decoder import Damage, WindowDecoder
from tracelib.xentrace.reader import XentraceReader
from xtracectl.times import parse_moment
from xtraced.config import load
from xtraced.handover import Legacy, StagingMemory
from xtraced.staging import StagingPool


class Target(NamedTuple):
    """One parser, and good inputs to start from."""

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]


# Files


def _in_file(data: bytes, use: Callable[[Path], None], name: str = "input") -> None:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        path = Path(directory) / name
        path.write_bytes(data)
        use(path)


def segment(data: bytes) -> None:
    """Reading gives each chunk at most once; repair keeps what reading gives, and its result is
    found in order."""
    _in_file(data, _segment)


def _segment(path: Path) -> None:
    left = _chunks(path)
    for _ in verify_segment(path):
        pass
    target = path.with_name("mended")
    repair_segment(path, target)
    kept = _chunks(target)
    assert left <= kept, "repair lost a block that can be read"
    wrong = [finding.reason for finding in verify_segment(target)]
    # What was wrong inside of intact blocks stays so.
    assert not [reason for reason in wrong if "without an intact block" in reason], wrong


def _chunks(path: Path) -> set[tuple[int, bytes]]:
    with SegmentReader(path) as reader:
        chunks = [(int(chunk.cpu), bytes(chunk.payload)) for chunk in reader.chunks()]
        reader.state()
        reader.anchors()
        reader.losses()
        for cpu in reader.cpus():
            for _ in reader.chunks_of(cpu):
                pass
    return set(chunks)


def _segments() -> Iterable[bytes]:
    made = SegmentBuilder()
    for number in range(4):
        made.block(
            number % 2, make_records(10, first_tsc=1000 * (number + 1)), ring_id=7,
            ring_start=160 * (number // 2), ring_end=160 * (number // 2 + 1),
        )  # fmt: skip
    made.losses(Loss(Cause.CRASH, CpuId(1), None))
    yield bytes(made.data)
    yield bytes(made.copy().anchor(9000, seconds=3).data)
    yield bytes(made.seal().data)


def xentrace(data: bytes) -> None:
    """However the bytes come in, the same windows and damages come out; and they can be counted."""
    whole = _decode([data])
    chance = random.Random(data[:64])
    pieces, at = [], 0
    while at < len(data):
        size = chance.choice((1, 2, 3, 7, 64, 5000))
        pieces.append(data[at : at + size])
        at += size
    assert _decode(pieces) == whole
    _in_file(data, _count)


def _decode(pieces: Iterable[bytes]) -> list[object]:
    """Windows joined, since a long one may come in pieces."""
    decoder, out = WindowDecoder(), []
    try:
        for piece in [*pieces, None]:
            if piece is None:
                decoder.close()
            else:
                decoder.feed(piece)
            while (event := decoder.next_event()) is not None:
                if isinstance(event, Damage):
                    out.append(event)
                else:
                    out.append((event.cpu, event.offset, bytes(event.payload)))
    except XtraceError as exc:
        out.append(str(exc))
    return out


def _count(path: Path) -> None:
    reader = XentraceReader(os.open(path, os.O_RDONLY), str(path))
    try:
        count(reader)
    finally:
        reader.close()


def _captures() -> Iterable[bytes]:
    data = capture("idle.trace")
    yield data[:4000]
    yield data[1000:9000]
    lost = make_record(0x1F001, 7, 0x00010002, 900, 0, tsc=2000)
    window = make_records(5) + lost
    yield make_record(0x1F003, 1, len(window)) + window


def kvmtrace(data: bytes) -> None:
    """Every byte is in a record, in damage that is told, or in front: the magic. Reading in small
    pieces says the same."""
    _in_file(data, _kvmtrace, "x.kvmtrace.0")


def _kvmtrace(path: Path) -> None:
    whole, pieces = _records(path, READ_BYTES), _records(path, 160)
    assert whole == pieces
    records, problems = whole
    told = len(records) + sum(one.missing_bytes or 0 for one in problems)
    size = path.stat().st_size
    # Of a record that is cut, what should follow the end of the file is told too.
    assert told in (size, size - 4) or "within a record" in problems[-1].reason


def _records(path: Path, size: int) -> tuple[bytes, list[Problem]]:
    with closing(KvmtraceReader({CpuId(0): path}, str(path))) as reader:
        with patch("tracelib.kvmtrace.member.READ_BYTES", size):
            records = b"".join(bytes(chunk.payload) for chunk in reader.chunks())
        count(reader)
        return records, list(reader.problems)


def _kvmtraces() -> Iterable[bytes]:
    for kind, order in product(KINDS, ORDERS):
        yield Style(kind, order).file(guest(1 << 40, 12))


def ledger(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        directory = Path(name)
        (directory / LEDGER).write_bytes(data)
        found, _ = Ledger.load(directory, Nanoseconds(1))
        found.save(directory)
        again, trouble = Ledger.load(directory, Nanoseconds(1))
        assert trouble is None
        assert again == found


def _ledgers() -> Iterable[bytes]:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        Ledger(Nanoseconds(5), counted=7).save(Path(name))
        yield (Path(name) / LEDGER).read_bytes()


def staging(data: bytes) -> None:
    fd = os.memfd_create("fuzz")
    try:
        os.write(fd, data)
        for block in Legacy.read(fd).staged:
            bytes(block.payload)
    finally:
        os.close(fd)


def _staged() -> Iterable[bytes]:
    fd = os.memfd_create("fuzz")
    try:
        memory = StagingMemory(1, 4096, fd)
        memory.note_run(make_metadata())
        StagingPool(memory).take()
        yield os.pread(fd, 1 << 20, 0)
    finally:
        os.close(fd)


# Parts


def metadata(data: bytes) -> None:
    Metadata.decode(data).encode()


def anchor(data: bytes) -> None:
    notes.decode_anchor(data)


def losses(data: bytes) -> None:
    notes.decode_losses(data)


def state(data: bytes) -> None:
    notes.decode_state(data)


def header(data: bytes) -> None:
    BlockHeader.decode(data)


def seal(data: bytes) -> None:
    find_seal(data[-32:], len(data))
    list(Seal.decode(data).index)


def t_info(data: bytes) -> None:
    parse_t_info(data, 8)


def _sealed() -> Iterable[bytes]:
    made = SegmentBuilder().block(0, make_records(3)).seal()
    yield bytes(made.data[made.blocks[-1] + 128 :])


def packed(data: bytes) -> None:
    packing.unpack(data)


# The socket


def control(data: bytes) -> None:
    """Any cut gives the same messages, and ends in the same way."""
    assert _converse([data]) == _converse([data[i : i + 1] for i in range(len(data))])


def _converse(pieces: Iterable[bytes]) -> list[str]:
    connection = Connection(Role.SERVICE, "fuzz")
    heard: list[str] = []
    try:
        for piece in [*pieces, b""]:
            connection.receive_data(piece)
            while (event := connection.next_event()) is not NEED_DATA:
                heard.append(repr(event))
                if event is CLOSED:
                    return heard
                if isinstance(event, Hello):
                    connection.send(connection.hello())
    except ProtocolError as exc:
        heard.append(str(exc))
    return heard


def _conversations() -> Iterable[bytes]:
    client = Connection(Role.CLIENT, "fuzz")
    hello = client.send(client.hello())
    other = Connection(Role.SERVICE, "fuzz")
    other.receive_data(hello)
    assert isinstance(other.next_event(), Hello)
    client.receive_data(other.send(other.hello()))
    assert isinstance(client.next_event(), Hello)
    yield hello + client.send(Request(1, "status", {})) + client.send(
        Request(2, "mask", {"events": 5, "cpus": "0-3"})
    )


# Texts


def config(data: bytes) -> None:
    _in_file(data, lambda path: void(load(path)), "xtraced.toml")


def rules(data: bytes) -> None:
    _in_file(data, lambda path: void(read_rules(path)))


def symbols(data: bytes) -> None:
    _in_file(data, lambda path: void(load_book([("", path)])))


def texts(data: bytes) -> None:
    text = data.decode(errors="replace")
    for parse in (
        parse_cpu_list, parse_event_mask, parse_size, parse_duration, parse_hz,
        lambda word: parse_event_filter([word]), lambda word: parse_moment(word, Nanoseconds(1)),
    ):
        try:
            parse(text)
        except XtraceError:
            continue


def void(_: object) -> None:
    """Only that it came to be matters."""


TARGETS = {
    "segment": Target(segment, _segments),
    "xentrace": Target(xentrace, _captures),
    "kvmtrace": Target(kvmtrace, _kvmtraces),
    "ledger": Target(ledger, _ledgers),
    "staging": Target(staging, _staged),
    "metadata": Target(metadata, lambda: [make_metadata().encode()]),
    "anchor": Target(anchor, lambda: [notes.encode_anchor(make_anchor(), "start")]),
    "losses": Target(losses, lambda: [notes.encode_losses([Loss(Cause.CRASH, CpuId(1), 5)])]),
    "state": Target(state, lambda: [packing.pack({
        "cpus": [[0, 1, 2]], "vcpus": [[1, 2, 0, 0, 5]], "overflow": 0,
    })]),
    "header": Target(header, lambda: [BlockHeader(2, 5, 4096, 0).encode(b"hello")]),
    "seal": Target(seal, _sealed),
    "t_info": Target(t_info, lambda: [
        struct.pack("<9H12x8I", 1, 8, *[0] * 5, 9, 0, *range(8)) + bytes(4000),
    ]),
    "packing": Target(packed, lambda: [packing.pack({"a": [1, "b", None, b"c"], "d": 1 << 60})]),
    "control": Target(control, _conversations),
    "config": Target(config, lambda: [
        b'[store]\nmax_bytes = "4G"\n[collect]\nevents = "sched,hvm"\ncpus = "0-3"\n',
    ]),
    "rules": Target(rules, lambda: [
        b"# x\n0x00081001  CPU%(cpu)d %(tsc)d (+%(reltsc)8d)  VMENTRY 0x%(1)08x 100%%\n",
    ]),
    "symbols": Target(symbols, lambda: [
        b"ffffffff81000000 T _stext\nffffffff81000100 t f [mod]\n81000200 W g\n",
    ]),
    "texts": Target(texts, lambda: [
        b"0-3,7,^2", b"0x3", b"sched,hvm.emul", b"1.5G", b"250ms", b"2.4GHz", b"tsc:123",
        b"2026-11-30T22:14:05+01:00", b"vmexit,!0x81001",
    ]),
}  # fmt: skip
