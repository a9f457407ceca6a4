"""What the values of tallies are, in words."""

from __future__ import annotations

from functools import cache

from tracelib.analysis.forms import VALUES
from tracelib.events.catalogue import CATALOGUE
from tracelib.events.kvm import KVM
from tracelib.events.layout import Field


def value_text(event: str, value: int | None) -> str:
    """ "port=0x3f8", "vector=LOCAL_TIMER", "gpa=0xfee00000"; empty for None."""
    field = _field(event)
    if value is None or field is None:
        return ""
    whole = value << VALUES[event][1]
    text = field.text(whole)
    # A name alone hides which vector or number it was.
    return f"{field.name}={text}" if field.kind != "vector" else f"{field.name}={value:#x} {text}"


@cache
def _field(event: str) -> Field | None:
    """The field that an event's records are told apart by."""
    if event not in VALUES:
        return None
    wanted, _ = VALUES[event]
    forms = (*CATALOGUE, *KVM)
    fields = (field for form in forms if form.name == event for field in form.fields)
    return next((field for field in fields if field.name == wanted), None)
