"""What records of one form say, written into cells: for people, and as JSON members.

A form is an event, a number of extra words and, for hypercalls, which arguments are there.
The text is what `EventType.text` gives for one record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracelib.columns import I64, Columns
from tracelib.events.catalogue import lookup
from tracelib.events.layout import EventType, Field
from tracelib.events.pv import hypercall_arguments
from tracelib.events.values import vcpu_name
from tracelib.export.cells import Sheet, Unsigned

_NUMBERS = frozenset({"dec", "x", "dom", "vcpu", "ns", "slice", "opt", "ec", "budget"})
"""Kinds whose number says it all; the others have names, which JSON gives beside it."""

_INTS = frozenset({"dec", "vcpu"})


@dataclass(frozen=True, slots=True)
class Catalogue:
    """How to look events up for one trace."""

    family: str | None = None
    version: tuple[int, int] | None = None

    def form(self, event: int, extra: int) -> EventType | None:
        return lookup(event, extra, family=self.family, xen_version=self.version)


class Group(NamedTuple):
    """The records of one form in a batch."""

    event: int
    form: EventType | None
    """None: to be shown raw."""
    arguments: int
    """For hypercalls bits 20-31 of their first word, else 0."""
    rows: I64
    records: Columns


def groups(batch: Columns, catalogue: Catalogue) -> Iterator[Group]:
    """Split a batch by form; rows in each group keep their order."""
    keys = batch.event | batch.extra.astype(np.uint32) << np.uint32(28)
    for key, rows in split(keys):
        event, extra = key & 0x0FFFFFFF, key >> 28
        form = catalogue.form(event, extra)
        records = batch.take(rows)
        if form is None or form.tail is not hypercall_arguments:
            yield Group(event, form, 0, rows, records)
            continue
        for arguments, part in split(records.word(0) >> np.uint32(20)):
            yield Group(event, form, arguments, rows[part], records.take(part))


def split(keys: Unsigned) -> Iterator[tuple[int, I64]]:
    """Each distinct key and the rows that have it, ascending."""
    if not len(keys):
        return
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for rows in np.split(order, starts):
        yield int(keys[rows[0]]), rows


def text_fields(sheet: Sheet, group: Group) -> None:
    """ "name=value name=value"; the words in hexadecimal if the form is unknown."""
    form = group.form
    if form is None:
        _raw_text(sheet, group.records)
        return
    pairs = {field.name: pair for pair in form.pairs() for field in pair[:2]}
    written: set[str] = set()
    for field in form.fields:
        dom, vcpu, name = pairs.get(field.name, (field, None, field.name))
        if name in written:
            continue
        sheet.text(f" {name}=" if written else f"{name}=")
        written.add(name)
        if vcpu is None:
            _value_text(sheet, field, group.records)
        else:
            _pair_text(sheet, dom, vcpu, group.records)
    for name, word, wide in _arguments(group):
        sheet.text(f" {name}=0x")
        sheet.hexadecimal(_argument(group.records, word, wide=wide))


def json_fields(sheet: Sheet, group: Group) -> None:
    """',"name":value,"name":value', a comma before each.

    Numbers of up to 32 bits are numbers, longer ones strings (see `lines`). A value that
    has a name, such as a runstate, is followed by it as "<field>_name".
    """
    form = group.form
    if form is None:
        _raw_json(sheet, group.records)
        return
    for field in form.fields:
        sheet.text(f',"{field.name}":')
        _value_json(sheet, field, group.records)
        if field.kind not in _NUMBERS:
            sheet.text(f',"{field.name}_name":"')
            _value_text(sheet, field, group.records)
            sheet.text('"')
    for name, word, wide in _arguments(group):
        sheet.text(f',"{name}":')
        _number_json(sheet, _argument(group.records, word, wide=wide), wide=wide, kind="x")


def named_domains(group: Group) -> Iterator[I64]:
    """The domains that the group's records name: a value for each row, field by field."""
    if group.form is not None:
        for field in group.form.fields:
            if field.kind == "dom":
                yield signed_values(field, group.records)


def values_of(field: Field, records: Columns) -> Unsigned:
    """The field's bits in each record, as an unsigned number."""
    if field.constant is not None:
        return np.full(len(records), field.constant, np.uint32)
    if field.width == 64:
        return records.wide(field.word)
    values = records.word(field.word)
    if field.shift:
        values = values >> np.uint32(field.shift)
    return values if field.width == 32 else values & np.uint32((1 << field.width) - 1)


def signed_values(field: Field, records: Columns) -> I64:
    """The same with its sign; for fields of less than 64 bits, or signed ones."""
    values = values_of(field, records).astype(np.int64)
    if field.signed and field.width < 64:
        values -= (values >> np.int64(field.width - 1)) << np.int64(field.width)
    return values


def _value_text(sheet: Sheet, field: Field, records: Columns) -> None:
    if field.width > 64:
        packed = _long_values(field, records)
        sheet.choice(np.arange(len(packed)), [field.text(value) for value in packed])
    elif field.constant is not None:
        sheet.text(field.text(field.constant))
    elif field.kind in _INTS:
        _number(sheet, field, records)
    elif field.kind == "x" and not field.signed:
        sheet.text("0x")
        sheet.hexadecimal(values_of(field, records))
    elif field.kind == "ns" and not field.signed:
        whole, rest = np.divmod(values_of(field, records), 1000)
        sheet.decimal(whole)
        sheet.text(".")
        sheet.fixed(rest, 3)
        sheet.text("us")
    else:
        signed = field.signed or field.width < 64
        values = signed_values(field, records) if signed else values_of(field, records)
        sheet.spelled(values, field.text)


def _number(sheet: Sheet, field: Field, records: Columns) -> None:
    if field.signed:
        sheet.signed(signed_values(field, records))
    else:
        sheet.decimal(values_of(field, records))


def _pair_text(sheet: Sheet, dom: Field, vcpu: Field, records: Columns) -> None:
    """Few vCPUs, many records: each is spelled once."""
    doms, vcpus = signed_values(dom, records), signed_values(vcpu, records)
    _, firsts, codes = np.unique(
        doms << np.int64(32) | vcpus & np.int64(0xFFFFFFFF), return_index=True, return_inverse=True
    )
    who = zip(doms[firsts].tolist(), vcpus[firsts].tolist(), strict=True)
    sheet.choice(codes, [vcpu_name(d, v) if d >= 0 else "none" for d, v in who])


def _value_json(sheet: Sheet, field: Field, records: Columns) -> None:
    if field.width > 64:
        texts = [f'"{value:#x}"' for value in _long_values(field, records)]
        sheet.choice(np.arange(len(texts)), texts)
    elif field.signed and field.width < 64:
        sheet.signed(signed_values(field, records))
    else:
        _number_json(sheet, values_of(field, records), wide=field.width == 64, kind=field.kind)


def _number_json(sheet: Sheet, values: Unsigned, *, wide: bool, kind: str) -> None:
    if not wide:
        sheet.decimal(values)
        return
    sheet.text('"0x' if kind == "x" else '"')
    (sheet.hexadecimal if kind == "x" else sheet.decimal)(values)
    sheet.text('"')


def _long_values(field: Field, records: Columns) -> list[int]:
    """Values of more than 64 bits: CPU masks of vector assignments, which are rare."""
    words = [records.word(field.word + number).tolist() for number in range(field.width // 32)]
    return [
        sum(word << 32 * number for number, word in enumerate(row))
        for row in zip(*words, strict=True)
    ]


def _arguments(group: Group) -> Iterator[tuple[str, int, bool]]:
    """A hypercall's arguments: name, word, and whether it takes two of them."""
    if group.form is None or group.form.tail is None:
        return
    word = 1
    for number in range(6):
        size = group.arguments >> 2 * number & 3
        if size in (1, 2) and word + size <= group.form.words:
            yield f"a{number}", word, size == 2
            word += size


def _argument(records: Columns, word: int, *, wide: bool) -> Unsigned:
    return records.wide(word) if wide else records.word(word)


def _raw_text(sheet: Sheet, records: Columns) -> None:
    for number in range(int(records.extra[0])):
        sheet.text(" 0x" if number else "0x")
        sheet.hexadecimal(records.word(number))


def _raw_json(sheet: Sheet, records: Columns) -> None:
    for number in range(int(records.extra[0])):
        sheet.text("," if number else ',"words":[')
        sheet.decimal(records.word(number))
    if records.extra[0]:
        sheet.text("]")
