"""FORMAT.md is the specification: its example is decoded, its tables are held against the code."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import tracelib.segment
from tracelib.losses import Cause
from tracelib.records import iter_records, parse_lost
from tracelib.segment.block import (
    _FIELDS,
    PAGE,
    BlockHeader,
    Flag,
    Kind,
    payload_checksum,
    verify_payload,
)
from tracelib.segment.index import ENTRY
from tracelib.segment.metadata import Metadata

TEXT = (Path(tracelib.segment.__file__).parent / "FORMAT.md").read_text()


def section(title: str) -> str:
    """From a heading to the next one of the same or a higher level."""
    match = re.search(rf"^(#+) {re.escape(title)}$", TEXT, re.MULTILINE)
    assert match is not None
    rest = TEXT[match.end() :]
    end = re.search(rf"^#{{1,{len(match[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def table(text: str) -> list[list[str]]:
    """The cells of the first table, without head and rule."""
    rows = re.search(r"(^\|.*\n)+", text, re.MULTILINE)
    assert rows is not None
    lines = rows[0].strip().split("\n")[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def example() -> bytes:
    dump = re.search(r"```\n(.*?)```", section("Example"), re.DOTALL)
    assert dump is not None
    data = bytearray()
    for line in dump[1].splitlines():
        place, _, octets = line.partition("  ")
        assert int(place, 16) == len(data)
        data += bytes.fromhex(octets)
    return bytes(data).ljust(PAGE, b"\0")


def test_the_example_is_what_the_text_says():
    """A records block of CPU 3 with two records, round 7, that ring, those positions."""
    block = example()
    header = BlockHeader.decode(block)
    verify_payload(memoryview(block), header)
    assert header == BlockHeader(
        kind=Kind.RECORDS, payload_bytes=44, block_bytes=4096, sequence=4,
        flags=Flag.FULL_ROUND, cpu=3, records=2, lost_marks=1, lost=9,
        lost_first_tsc=0xF00, lost_last_tsc=0x1800, first_tsc=0x1000, last_tsc=0x1800,
        round=7, ring_id=0x1122334455667788, ring_start=100, ring_end=144,
        drained_at=1_796_076_000 * 10**9, checksum=payload_checksum(block[128:172]),
    )  # fmt: skip
    runstate, lost = iter_records(block[128 : 128 + 44])
    assert (runstate.event, runstate.tsc) == (0x21011, 0x1000)
    assert parse_lost(lost.extra) == (9, 5, 0, 0xF00)
    (rest,) = re.findall(r"remaining (\d+) bytes", section("Example"))
    assert block[-int(rest) :] == bytes(int(rest))
    assert int(rest) == PAGE - 128 - 44


def test_example_cut_or_flipped_is_caught():
    """The example's checksums are real ones."""
    block = example()
    for at in range(172):
        damaged = bytearray(block)
        damaged[at] ^= 1
        with pytest.raises(Exception, match=r"differs|no block|version|length|sizes"):
            verify_payload(memoryview(damaged), BlockHeader.decode(damaged))


def test_header_table_fills_the_header():
    """Field after field, without a hole, to the end."""
    at = 0
    for offset, size, *_ in table(section("Block header")):
        assert int(offset) == at
        at += int(size)
    assert at == 128 == _FIELDS.size + 8


def test_index_entry_table_fills_the_entry():
    text = section("Seal")
    rows = table(text[text.index("Index entry:") :])
    assert [int(row[0]) for row in rows] == [
        sum(int(row[1]) for row in rows[:n]) for n in range(len(rows))
    ]
    assert sum(int(row[1]) for row in rows) == ENTRY.size


def test_kinds_and_flags():
    assert {(int(n), name.upper()) for n, name, _ in table(section("Kinds"))} == {
        (kind.value, kind.name) for kind in Kind
    }
    assert {(1 << int(n), name.upper().replace(" ", "_")) for n, name, _ in table(section("Flags"))
            } == {(flag.value, flag.name) for flag in Flag}


def test_metadata_keys():
    said = {row[0] for row in table(section("Metadata"))}
    assert said == {field.name for field in fields(Metadata)}


def test_causes():
    row = table(section("Losses"))[0]
    assert set(re.findall(r"\w+", row[2])) == {cause.value for cause in Cause}


def test_every_rule_has_its_reason():
    """One "Why" at least in each section that lays down a structure."""
    for title in ("A file", "Block header", "Records", "Metadata", "Anchors", "State preamble",
                  "Seal", "Other versions"):  # fmt: skip
        assert "**Why" in section(title), title
