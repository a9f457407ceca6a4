"""The event catalogue: every record Xen writes, and the look-ups by number and length.

The look-ups know KVM's events too (tracelib.events.kvm), which have numbers of their own.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType

from tracelib.events.emul import HVM_EMUL
from tracelib.events.gen import DOM0OP, GEN
from tracelib.events.hvm import HVM_ENTRYEXIT, HVM_HANDLER
from tracelib.events.hw import HW_IRQ, HW_PM
from tracelib.events.kvm import KVM, KVM_NAMES
from tracelib.events.layout import EventType, Version, event
from tracelib.events.mem import MEM
from tracelib.events.pv import PV_ENTRY, PV_SUBCALL
from tracelib.events.sched import SCHED_MIN, SCHED_VERBOSE
from tracelib.events.schedulers import SCHED_CLASS
from tracelib.events.shadow import SHADOW

CATALOGUE: tuple[EventType, ...] = (
    *GEN, *SCHED_MIN, *SCHED_CLASS, *SCHED_VERBOSE, *DOM0OP, *HVM_ENTRYEXIT, *HVM_HANDLER,
    *HVM_EMUL, *MEM, *PV_ENTRY, *PV_SUBCALL, *SHADOW, *HW_PM, *HW_IRQ,
)  # fmt: skip

GUEST_FIRST = 0x0800F000
GUEST_LAST = 0x0800FFFF
"""Events that guests write themselves (HVMOP_xentrace): any of 4096 numbers, up to seven
words that mean what the guest wants them to mean."""

GUEST_NAME = "guest_event"

NAMES: MappingProxyType[int, str] = MappingProxyType({
    form.event: form.name for form in CATALOGUE
})
"""Event number to name; guest events, being a range, are not in it, nor are KVM's, which no
mask of Xen's lets through."""


def _by_length() -> dict[tuple[int, int], tuple[EventType, ...]]:
    found: dict[tuple[int, int], tuple[EventType, ...]] = {}
    for form in (*CATALOGUE, *KVM):
        key = form.event, form.words
        found[key] = (*found.get(key, ()), form)
    return found


_FORMS = _by_length()


def lookup(
    number: int,
    extra_words: int,
    *,
    family: str | None = None,
    xen_version: Version | None = None,
) -> EventType | None:
    """The form of a record with this event number and so many extra words.

    None if the event is unknown, or known but never of that length: such a record is to
    be shown raw. `family` ("vmx" or "svm") and `xen_version` decide between forms of the
    same length; without them the newest form is taken, and exit reasons that either
    vendor may have written stay numbers.
    """
    for form in _FORMS.get((number, extra_words), ()):
        if form.fits(family, xen_version):
            return form
    if GUEST_FIRST <= number <= GUEST_LAST:
        return _guest_event(number, extra_words)
    return None


def layout_changed(number: int, extra_words: int) -> bool:
    """Whether records of this event and length have been laid out differently by different
    versions of Xen, so that `lookup` without one assumes the newest."""
    forms = _FORMS.get((number, extra_words), ())
    return any(form.since is not None or form.until is not None for form in forms)


def event_name(number: int) -> str:
    """The event's name; its number as "0x0001f0ff" if it has none."""
    name = NAMES.get(number) or KVM_NAMES.get(number)
    if name is not None:
        return name
    return GUEST_NAME if GUEST_FIRST <= number <= GUEST_LAST else f"0x{number:08x}"


def dom_vcpu(number: int, extra: tuple[int, ...]) -> tuple[int, int] | None:
    """The (domain, vCPU) that a record names; None if it names none, or more than one."""
    form = lookup(number, len(extra))
    named = () if form is None else form.vcpus(extra)
    return named[0] if len(named) == 1 else None


@lru_cache(maxsize=1024)
def _guest_event(number: int, words: int) -> EventType:
    layout = " ".join(f"word{word}:u32/x" for word in range(words))
    (form,) = event(number, GUEST_NAME, f"number={number & 0xFFF}/x {layout}", tsc=False)
    return form
