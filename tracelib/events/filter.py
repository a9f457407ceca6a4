"""Which events somebody asked to see (`dump --event`): numbers, names, classes, patterns."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tracelib.errors import UsageError
from tracelib.events.catalogue import GUEST_FIRST, GUEST_LAST, GUEST_NAME, NAMES
from tracelib.events.classes import CLASSES, SUBCLASSES
from tracelib.events.kvm import KVM_CLASS, KVM_CLASSES, KVM_NAMES
from tracelib.records import CLASS_MASK, EVENT_MASK

_HINT = "write an event such as vmexit or 0x81102, a class such as sched.min, or a pattern"
_ID = re.compile(r"(0x)?([0-9a-f]+)\Z")


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Plain numbers, so that a whole column can be tested as well as one event."""

    ids: frozenset[int]
    ranges: tuple[tuple[int, int], ...] = ()
    """Inclusive at both ends."""

    def matches(self, event: int) -> bool:
        """Whether this event (28 bits, flags included) was asked for."""
        return event in self.ids or any(first <= event <= last for first, last in self.ranges)


def parse_event_filter(texts: Iterable[str]) -> EventFilter:
    """The events that any of `texts` names; each is a list of terms with commas between:

        vmexit            every form of the event of that name
        csched2_*         events whose name matches the pattern (* ? [...])
        sched hvm.emul    all of a class or subclass; all is everything
        0x81102 81102     one event number, always hexadecimal, flag bits included

    Raises UsageError naming a term that is wrong or means no event.
    """
    ids: set[int] = set()
    ranges: set[tuple[int, int]] = set()
    for term in (term.strip().lower() for text in texts for term in text.split(",")):
        if span := _range(term):
            ranges.add(span)
        else:
            ids |= _ids(term)
    return EventFilter(frozenset(ids), tuple(sorted(ranges)))


def _range(term: str) -> tuple[int, int] | None:
    if term == "all":
        return 0, EVENT_MASK
    if term in (GUEST_NAME, "guest"):
        return GUEST_FIRST, GUEST_LAST
    if term in SUBCLASSES:
        return SUBCLASSES[term], SUBCLASSES[term] | 0xFFF
    if term in KVM_CLASSES:
        return KVM_CLASSES[term], KVM_CLASSES[term] | 0xFFF
    if term == "kvm":
        return KVM_CLASS, KVM_CLASS | 0xFFFF
    if term in CLASSES:
        first = CLASSES[term] & CLASS_MASK
        return first, first | 0xFFFF
    return None


def _ids(term: str) -> set[int]:
    if match := _ID.match(term):
        return {_number(term, int(match[2], 16))}
    found = {
        number for names in (NAMES, KVM_NAMES) for number, name in names.items()
        if fnmatchcase(name, term)
    }
    if not found:
        raise _unknown(term)
    return found


def _number(term: str, number: int) -> int:
    if number > EVENT_MASK or not number & CLASS_MASK:
        raise UsageError(
            f"{term!r} is no event number", hint="it has 28 bits, with a class among 16-27"
        )
    return number


def _unknown(term: str) -> UsageError:
    if not term:
        return UsageError("the list of events has an empty part", hint=_HINT)
    if set(term) & set("*?["):
        return UsageError(f"no event has a name like {term!r}", hint=_HINT)
    known = [*NAMES.values(), *KVM_NAMES.values(), *CLASSES, *SUBCLASSES, "kvm", *KVM_CLASSES]
    close = difflib.get_close_matches(term, known, n=1)
    hint = f"did you mean {close[0]}?" if close else _HINT
    return UsageError(f"no event or class is called {term!r}", hint=hint)
