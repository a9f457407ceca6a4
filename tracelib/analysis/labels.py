"""What the values of tallies are, in words."""

from __future__ import annotations

from functools import cache

from tracelib.analysis.forms import VALUES
from tracelib.events.catalogue import CATALOGUE
from tracelib.events.kvm import KVM
from tracelib.events.layout import Field
from tracelib.events.msrs import MSRS, fault_text

_PAGE_FAULTS = ("page_fault", "pf_xen", "pf_inject")


def value_text(event: str, value: int | None) -> str:
    """ "port=0x3f8", "vector=0xfa LOCAL_TIMER", "msr=0x80b X2APIC_EOI"; empty for None."""
    field = _field(event)
    if value is None or field is None:
        return ""
    text = field.text(value << VALUES[event][1])
    # A name alone hides which vector or number it was.
    if field.kind == "vector":
        text = f"{value:#x} {text}"
    return f"{field.name}={text} {_in_words(event, field.name, value)}".rstrip()


def _in_words(event: str, name: str, value: int) -> str:
    """What an exact number that has no name in the records means."""
    if name == "msr":
        return MSRS.get(value, "")
    if name == "error_code" and event in _PAGE_FAULTS:
        return fault_text(value)
    return ""


@cache
def _field(event: str) -> Field | None:
    """The field that an event's records are told apart by."""
    if event not in VALUES:
        return None
    wanted, _ = VALUES[event]
    forms = (*CATALOGUE, *KVM)
    fields = (field for form in forms if form.name == event for field in form.fields)
    return next((field for field in fields if field.name == wanted), None)
