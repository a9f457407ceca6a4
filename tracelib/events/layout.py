"""How a row of the event catalogue is written, and how it decodes a record.

A layout is a line that lists the fields of a record in the order of Xen's struct, packed,
as little-endian machines lay them out from bit 0 of the first extra word:

    name:u16    unsigned field of so many bits      name=3      a constant that the event
    name:s32    signed field                                    number itself implies
    _:u16       padding, which Xen may leave full of rubbish
    /kind       how to write the value (events.values.KINDS); without it, decimal,
                and for names that end in dom, vcpu or unit, as a domain or vCPU
    ?           a value known to be unreliable: shown, never to be computed with

A row that Xen wrote differently at different times has several layouts. Their lengths
tell them apart, or the version of Xen, or the CPU's family; a record that no layout fits
is shown raw.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from tracelib.events.values import KINDS, vcpu_name

Version = tuple[int, int]
"""A version of Xen, such as (4, 19)."""

_TOKEN = re.compile(
    r"(?P<name>[a-z_][a-z0-9_]*)"
    r"(?::(?P<sign>[us])(?P<width>[0-9]+)|=(?P<constant>[0-9]+))"
    r"(?:/(?P<kind>[a-z]+))?(?P<doubt>\?)?\Z"
)
_KIND_BY_NAME = {"dom": "dom", "vcpu": "vcpu", "unit": "vcpu"}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record: where it lies and how it is written."""

    name: str
    bit: int
    """Offset of its lowest bit, counted from bit 0 of the first extra word."""
    width: int
    """In bits; 0 for a constant. A field of 64 bits and more starts a word; none of the
    others crosses a word's end."""
    signed: bool = False
    kind: str = "dec"
    reliable: bool = True
    """False where Xen is known to leave rubbish; analysis must not use it."""
    constant: int | None = None

    @property
    def word(self) -> int:
        """Which extra word its lowest bit is in."""
        return self.bit // 32

    @property
    def shift(self) -> int:
        """Its lowest bit within that word."""
        return self.bit % 32

    def extract(self, packed: int) -> int:
        """Its value out of the extra words, packed into one number, low word first."""
        if self.constant is not None:
            return self.constant
        value = packed >> self.bit & (1 << self.width) - 1
        return value - (1 << self.width) if self.signed and value >> self.width - 1 else value

    def text(self, value: int) -> str:
        return KINDS[self.kind](value)


@dataclass(frozen=True, slots=True)
class EventType:
    """One form of one event: everything known of a record with this number and length."""

    event: int
    """All 28 bits, flags included."""
    name: str
    fields: tuple[Field, ...]
    words: int
    """How many extra words such a record has."""
    tsc: bool
    """Whether Xen stamps it with the time; one without is as old as the record before it."""
    family: str | None = None
    """ "vmx" or "svm" if the fields mean this only on one vendor's CPUs."""
    since: Version | None = None
    until: Version | None = None
    """First version of Xen that writes this form, and first that no longer does."""
    tail: Callable[[tuple[int, ...]], dict[str, int]] | None = None
    """Decodes what depends on the record's own content (hypercall arguments)."""

    def fits(self, family: str | None, version: Version | None) -> bool:
        """Whether a record of this family and version may have this form. A form that is
        bound to versions fits only where the version is known."""
        if self.family is not None and self.family != family:
            return False
        if self.since is None and self.until is None:
            return True
        if version is None:
            return False
        return (self.since or version) <= version and (self.until is None or version < self.until)

    def decode(self, extra: tuple[int, ...]) -> dict[str, int]:
        """The fields of a record with these extra words, by name, in the record's order.

        Raises ValueError if their number is not `words`: the caller did not look it up.
        """
        if len(extra) != self.words:
            raise ValueError(f"{self.name} of {self.words} words given {len(extra)}")
        packed = _pack(extra)
        values = {field.name: field.extract(packed) for field in self.fields}
        return values if self.tail is None else values | self.tail(extra)

    def vcpus(self, extra: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """Every (domain, vCPU) that the record names, in its order; sched units count as
        vCPUs. One that stands for nobody (domain -1) is left out."""
        packed = _pack(extra)
        pairs = ((dom.extract(packed), vcpu.extract(packed)) for dom, vcpu, _ in self.pairs())
        return tuple((dom, vcpu) for dom, vcpu in pairs if dom >= 0)

    def domains(self, extra: tuple[int, ...]) -> tuple[int, ...]:
        """Every domain that the record names, in its order."""
        packed = _pack(extra)
        named = (field.extract(packed) for field in self.fields if field.kind == "dom")
        return tuple(domain for domain in named if domain >= 0)

    def text(self, extra: tuple[int, ...]) -> str:
        """The fields for people: "vcpu=d7v0 old=running new=blocked"."""
        values = self.decode(extra)
        pairs = {field.name: pair for pair in self.pairs() for field in pair[:2]}
        parts: dict[str, str] = {}
        for field in self.fields:
            if field.name in pairs:
                dom, vcpu, key = pairs[field.name]
                who = vcpu_name(values[dom.name], values[vcpu.name])
                parts[key] = who if values[dom.name] >= 0 else "none"
            else:
                parts[field.name] = field.text(values[field.name])
        # What a tail adds has no field: hypercall arguments, in hexadecimal like addresses.
        known = {field.name for field in self.fields}
        parts |= {name: hex(value) for name, value in values.items() if name not in known}
        return " ".join(f"{name}={text}" for name, text in parts.items())

    def pairs(self) -> list[tuple[Field, Field, str]]:
        """Domain and vCPU fields that belong together, by their common prefix."""
        by_name = {field.name: field for field in self.fields}
        pairs = []
        for field in self.fields:
            prefix = field.name.removesuffix("dom")
            vcpu = by_name.get(prefix + "vcpu") or by_name.get(prefix + "unit")
            if field.kind == "dom" and vcpu is not None:
                pairs.append((field, vcpu, prefix.rstrip("_") or "vcpu"))
        return pairs


def event(
    number: int,
    name: str,
    *layouts: str,
    tsc: bool,
    family: str | None = None,
    since: Version | None = None,
    until: Version | None = None,
    tail: Callable[[tuple[int, ...]], dict[str, int]] | None = None,
) -> tuple[EventType, ...]:
    """A row of the catalogue: an EventType for each layout; none given means no words."""
    forms = []
    for layout in layouts or ("",):
        fields, words = parse_layout(layout)
        forms.append(EventType(number, name, fields, words, tsc, family, since, until, tail))
    return tuple(forms)


def table(*rows: tuple[EventType, ...]) -> tuple[EventType, ...]:
    """Rows joined."""
    return tuple(chain.from_iterable(rows))


def parse_layout(layout: str) -> tuple[tuple[Field, ...], int]:
    """Fields and number of words of a layout; raises ValueError for one that is wrong."""
    fields = []
    bit = 0
    for token in layout.split():
        match = _TOKEN.match(token)
        if match is None:
            raise ValueError(f"layout {layout!r}: {token!r}")
        width = int(match["width"] or 0)
        if (bit % 32 + width > 32) if width < 64 else bit % 32:
            raise ValueError(f"layout {layout!r}: {token!r} crosses a word")
        if match["name"] != "_":
            fields.append(_field(match, bit, width))
        bit += width
    if bit % 32:
        raise ValueError(f"layout {layout!r}: {bit} bits are no whole number of words")
    return tuple(fields), bit // 32


def _field(match: re.Match[str], bit: int, width: int) -> Field:
    name = match["name"]
    kind = match["kind"] or _KIND_BY_NAME.get(name.rpartition("_")[2], "dec")
    if kind not in KINDS:
        raise ValueError(f"field {name!r}: no kind {kind!r}")
    constant = None if match["constant"] is None else int(match["constant"])
    return Field(name, bit, width, match["sign"] == "s", kind, match["doubt"] is None, constant)


def _pack(extra: tuple[int, ...]) -> int:
    packed = 0
    for word in reversed(extra):
        packed = packed << 32 | word
    return packed
