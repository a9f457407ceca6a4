"""Every event of the catalogue, written in columns, reads as it does written one by one."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from tests.support.captures import capture
from tests.support.xentrace import chunks_from, decode
from tracelib.batches import CpuDecoder
from tracelib.chunks import ClockAnchor
from tracelib.clock import Clock, Rate
from tracelib.columns import Columns, concatenate
from tracelib.events.catalogue import CATALOGUE
from tracelib.events.layout import EventType
from tracelib.export.fields import json_fields, json_members, text_fields
from tracelib.export.groups import Catalogue, groups, named_domains, split
from tracelib.export.lines import CSV, JSON, LineWriter, Style
from tracelib.export.timebase import TimeBase
from tracelib.records import make_record
from tracelib.selection import Selection
from tracelib.units import CpuId, Nanoseconds, Tsc


def batch_of(*records: bytes) -> Columns:
    return concatenate(
        list(CpuDecoder(CpuId(0)).batches(chunks_from([(0, b"".join(records))])))
    )


PROBE = "~"
CLOCK = Clock(Tsc(0), Rate(10**9, "x"), [ClockAnchor(Tsc(0), Nanoseconds(1), Nanoseconds(0))])


def written(batch: Columns, fields, catalogue: Catalogue) -> list[str]:
    """What `fields` writes of each row."""

    def record(program, form):
        fields(program, form)
        program.text(PROBE)

    def long_record(form, extra):
        text = form.type.text(extra) if fields is text_fields else json_members(form.type, extra)
        return text + PROBE

    style = Style("", lambda *_: None, record, long_record, lambda *_: PROBE)
    writer = LineWriter(style, TimeBase.choose(Clock(Tsc(0), None), None), catalogue, Selection())
    return b"".join(writer.lines(batch)).decode().split(PROBE)[:-1]


def interesting(rng: random.Random) -> int:
    return rng.choice([
        0, 1, 2, 0x7FFF, 0xFFFF, 0x10000, 0x7FFF0001, 0x80000000, 0xFFFFFFFF, 0xFFFFFF9C,
        rng.randrange(100), rng.getrandbits(32),
    ])  # fmt: skip


FORMS = [form for form in CATALOGUE if form.event not in (0x1F001, 0x1F002, 0x1F003)]


def catalogue_for(form: EventType) -> Catalogue:
    return Catalogue(form.family, form.since)


@pytest.mark.parametrize(
    "form", FORMS, ids=lambda form: f"{form.event:x}-{form.name}-{form.words}-{form.family}"
)
def test_like_the_catalogue(form):
    rng = random.Random(form.event + form.words)
    extras = [tuple(interesting(rng) for _ in range(form.words)) for _ in range(40)]
    batch = batch_of(*(make_record(form.event, *extra, tsc=1000) for extra in extras))
    catalogue = catalogue_for(form)
    used = catalogue.form(form.event, form.words)
    assert used is not None
    texts = written(batch, text_fields, catalogue)
    assert texts == [used.text(e) for e in extras]
    objects = [members_of(line)["fields"] for line in written(batch, json_fields, catalogue)]
    for extra, got in zip(extras, objects, strict=True):
        for name, value in used.decode(extra).items():
            said = int(got[name], 0) if isinstance(got[name], str) else got[name]
            assert said in (value, value % (1 << 64)), name


def members_of(line: str) -> dict:
    """A line's members behind its first one. No object may name two of its members the same:
    of those most readers silently keep the last."""

    def no_name_twice(pairs):
        assert len({name for name, _ in pairs}) == len(pairs), line
        return dict(pairs)

    members = json.loads(f'{{"_":0{line}}}', object_pairs_hook=no_name_twice)
    del members["_"]
    return members


@pytest.mark.parametrize(
    "form", FORMS, ids=lambda form: f"{form.event:x}-{form.name}-{form.words}-{form.family}"
)
@pytest.mark.parametrize("arguments", [0, 0x555, 0xAAA])
def test_no_name_twice(form, arguments):
    """Neither in a line of JSON, whose record has members of its own, nor in the fields of
    text and CSV; for hypercalls with as many arguments as their words hold."""
    extra = (arguments << 20, *range(6))[: form.words]
    batch = batch_of(make_record(form.event, *extra, tsc=1000))
    catalogue = catalogue_for(form)
    writer = LineWriter(JSON, TimeBase.choose(CLOCK, None), catalogue, Selection())
    (line,) = b"".join(writer.lines(batch)).decode().splitlines()
    members = members_of("," + line[1:-1])
    assert (members["cpu"], members["tsc"], members["event"]) == (0, "1000", form.name)
    (text,) = written(batch, text_fields, catalogue)
    names = [pair.partition("=")[0] for pair in text.split()]
    assert len(set(names)) == len(names), text


def test_columns_of_csv_have_names_of_their_own():
    names = CSV.head(None).strip().split(",")
    assert len(set(names)) == len(names)


def test_domains_are_those_of_the_catalogue():
    rng = random.Random(1)
    for form in FORMS:
        extra = tuple(rng.randrange(1, 0x7FFF) for _ in range(form.words))
        (group,) = groups(batch_of(make_record(form.event, *extra, tsc=5)), catalogue_for(form))
        assert group.form is not None
        found = [int(values[0]) for values in named_domains(group)]
        assert [value for value in found if value >= 0] == list(group.form.domains(extra))


@pytest.mark.parametrize(
    ("record", "text", "members"),
    [
        (make_record(0x0FFFFFFF, *range(7), tsc=1), "0x0 0x1 0x2 0x3 0x4 0x5 0x6",
         {"words": [0, 1, 2, 3, 4, 5, 6]}),
        (make_record(0x01000123, 255, tsc=1), "0xff", {"words": [255]}),
        (make_record(0x01000123, tsc=1), "", {"words": []}),
        (make_record(0x0800F123, 7, tsc=1), "number=0x123 word0=0x7",
         {"fields": {"number": 0x123, "word0": 7}}),
    ],
)  # fmt: skip
def test_unknown_events_are_raw(record, text, members):
    """R34"""
    batch = batch_of(record)
    assert written(batch, text_fields, Catalogue()) == [text]
    (line,) = written(batch, json_fields, Catalogue())
    assert members_of(line) == members


@pytest.mark.parametrize("words", [1, 7])
def test_known_events_of_another_length(words):
    """R35: a runstate change of 1 word is decoded, one of 7 is raw; never the next record."""
    batch = batch_of(
        make_record(0x21201, 5 << 16 | 1, *range(words - 1), tsc=1),
        make_record(0x28004, 9, 9, tsc=2),
    )
    first, second = written(batch, text_fields, Catalogue())
    assert second == "vcpu=d9v9"
    if words == 1:
        assert first == "vcpu=d5v1 old=blocked new=running"
    else:
        assert first == "0x50001 0x0 0x1 0x2 0x3 0x4 0x5"


def test_old_and_new_forms_of_one_event():
    """R35: decrease_reservation has had two layouts; each length has its own, others are raw."""
    known = {form.words for form in CATALOGUE if form.event == 0x10F005}
    for words in range(8):
        (text,) = written(batch_of(make_record(0x10F005, *range(words))), text_fields, Catalogue())
        assert ("gfn=" in text) == (words in known)


@pytest.mark.parametrize("name", ["destroy.trace", "pvh-hvm.trace", "lost.trace"])
def test_real_records(name):
    """Every record of a capture, in columns and one by one."""
    windows, _ = decode(capture(name))
    catalogue = Catalogue("svm", (4, 17))
    for window in windows[:40]:
        batch = batch_of(bytes(window.payload))
        texts = written(batch, text_fields, catalogue)
        for row, text in enumerate(texts):
            at, extra = int(batch.at[row]), int(batch.extra[row])
            form = catalogue.form(int(batch.event[row]), extra)
            assert form is not None
            said = form.text(tuple(batch.words[at : at + extra].tolist()))
            assert text == said


def test_split():
    keys = np.array([5, 3, 5, 5, 0], np.uint32)
    assert [(key, rows.tolist()) for key, rows in split(keys)] == [
        (0, [4]), (3, [1]), (5, [0, 2, 3])
    ]
    assert list(split(np.array([], np.uint32))) == []
