"""What records of one form say, as steps of a line program: for people, and as JSON.

The text is what `EventType.text` gives for one record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from tracelib.events.layout import EventType, Field
from tracelib.events.values import vcpu_name
from tracelib.export.program import Program, Value

_NUMBERS = frozenset({"dec", "x", "dom", "vcpu", "pid", "ns", "slice", "opt", "ec", "budget"})
"""Kinds whose number says it all; the others have names, which JSON gives beside it."""

_LOW32 = 0xFFFFFFFF


class Form(NamedTuple):
    """What a program is made for."""

    event: int
    extra: int
    type: EventType | None
    """None: to be shown raw."""
    arguments: int
    """For hypercalls bits 20-31 of their first word, else 0."""

    @property
    def long(self) -> bool:
        """Whether a field has more bits than a step can take: to be written one by one."""
        return self.type is not None and any(field.width > 64 for field in self.type.fields)


def value_of(field: Field) -> Value:
    """Where a field lies."""
    return Value(field.word, field.shift, field.width)


def text_fields(program: Program, form: Form) -> None:
    """ "name=value name=value"; the words in hexadecimal if the form is unknown."""
    if form.type is None:
        for number in range(form.extra):
            program.text(" 0x" if number else "0x")
            program.hexadecimal(Value(number, bits=32))
        return
    pairs = {field.name: pair for pair in form.type.pairs() for field in pair[:2]}
    written: set[str] = set()
    for field in form.type.fields:
        dom, vcpu, name = pairs.get(field.name, (field, None, field.name))
        if name in written:
            continue
        program.text(f" {name}=" if written else f"{name}=")
        written.add(name)
        if vcpu is None:
            _value_text(program, field)
        else:
            _pair_text(program, dom, vcpu)
    for name, value in _arguments(form):
        program.text(f" {name}=0x" if written else f"{name}=0x")
        program.hexadecimal(value)


def _pair_text(program: Program, dom: Field, vcpu: Field) -> None:
    def spell(packed: int) -> str:
        domain, number = _signed(dom, packed >> 32), _signed(vcpu, packed & _LOW32)
        return vcpu_name(domain, number) if domain >= 0 else "none"

    name = ("pair", dom.signed, dom.width, vcpu.signed, vcpu.width)
    program.pair(value_of(dom), value_of(vcpu), name, spell)


def _signed(field: Field, raw: int) -> int:
    return raw - (1 << field.width) if field.signed and raw >> field.width - 1 else raw


def _value_text(program: Program, field: Field) -> None:
    value = value_of(field)
    if field.constant is not None:
        program.text(field.text(field.constant))
    elif field.kind in ("dec", "vcpu", "pid"):
        (program.signed if field.signed else program.decimal)(value)
    elif field.kind == "x" and not field.signed:
        program.text("0x")
        program.hexadecimal(value)
    elif field.kind in ("ns", "slice"):
        if field.kind == "slice":
            program.unless(value, (1 << field.width) - 1, "none")
        program.micros(value, signed=field.signed)
    else:
        program.spelled(
            value, (field.kind, field.signed, field.width),
            lambda raw: field.text(_signed(field, raw)),
        )


def json_fields(program: Program, form: Form) -> None:
    """',"fields":{"name":value,"name":value}', or ',"words":[number,number]' if the form is
    unknown. An object of its own: fields have names such as "cpu", like members of a record.

    Numbers of up to 32 bits are numbers, longer ones strings (see `lines`). A value that
    has a name, such as a runstate, is followed by it as "<field>_name".
    """
    if form.type is None:
        program.text(',"words":[')
        for number in range(form.extra):
            if number:
                program.text(",")
            program.decimal(Value(number, bits=32))
        program.text("]")
        return
    comma = ""
    program.text(',"fields":{')
    for field in form.type.fields:
        program.text(f'{comma}"{field.name}":')
        comma = ","
        _value_json(program, field)
        if field.kind not in _NUMBERS:
            program.text(f',"{field.name}_name":"')
            _value_text(program, field)
            program.text('"')
    for name, value in _arguments(form):
        program.text(f'{comma}"{name}":')
        comma = ","
        _number_json(program, value, kind="x")
    program.text("}")


def _value_json(program: Program, field: Field) -> None:
    if field.constant is not None:
        program.text(str(field.constant))
    elif field.signed:
        program.signed(value_of(field))
    else:
        _number_json(program, value_of(field), kind=field.kind)


def _number_json(program: Program, value: Value, *, kind: str) -> None:
    if value.bits <= 32:
        program.decimal(value)
        return
    program.text('"0x' if kind == "x" else '"')
    (program.hexadecimal if kind == "x" else program.decimal)(value)
    program.text('"')


def json_members(type_: EventType, extra: tuple[int, ...]) -> str:
    """The same for one record, of a form with fields of more than 64 bits."""
    members: dict[str, object] = {}
    for field in type_.fields:
        number = type_.decode(extra)[field.name]
        members[field.name] = number if field.width <= 32 else hex(number)
        if field.kind not in _NUMBERS:
            members[f"{field.name}_name"] = field.text(number)
    return f',"fields":{json.dumps(members, separators=(",", ":"))}'


def _arguments(form: Form) -> Iterator[tuple[str, Value]]:
    """A hypercall's arguments: 1 means that one of 32 bits is there, 2 one of 64."""
    if form.type is None or form.type.tail is None:
        return
    word = 1
    for number in range(6):
        size = form.arguments >> 2 * number & 3
        if size in (1, 2) and word + size <= form.extra:
            yield f"a{number}", Value(word, bits=32 * size)
            word += size
