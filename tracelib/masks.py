"""Event masks: Xen's 32-bit filter on what is recorded at all, as people write it.

    sched,hvm.handler     classes and subclasses (tracelib.events.classes)
    0x0002f000            numbers, as xentrace takes them
    vmexit                an event's name, which stands for its subclass
    0 or none             nothing; all is everything

joined by commas or bars. A mask is one number, in which the subclass bits of all its
classes are the same ones, so a union can let more through than was asked for: sched.min
and hvm.handler together are 0xa3000, which also means sched.class and hvm.entryexit.
That is accepted, and said (`EventMask.warnings`).
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import reduce
from operator import or_

from tracelib.errors import UsageError
from tracelib.events.catalogue import GUEST_NAME, NAMES
from tracelib.events.classes import (
    ALL_CLASSES,
    CLASS_BITS,
    CLASSES,
    LEAVES,
    SUBCLASS_BITS,
    SUBCLASSES,
    UNDIVIDED,
    describe,
    passes,
)

__all__ = ["EventMask", "describe", "parse_event_mask", "passes"]

_NUMBER = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|[0-9]+)\Z")
_HINT = "write all, none, classes such as sched,hvm.handler, or a number such as 0x2f000"
_WORDS = {"all": ALL_CLASSES, "none": 0, **CLASSES, **SUBCLASSES}

_UNDIVIDED_BITS = frozenset(CLASSES[name] for name in UNDIVIDED)


@dataclass(frozen=True, slots=True)
class EventMask:
    """A mask and what it does beyond what was asked for."""

    mask: int
    surplus: tuple[str, ...] = ()
    """Subclasses that it lets through although no part of the text asked for them."""
    widened: tuple[tuple[str, str], ...] = ()
    """Event names in the text, each with the part of the mask that it became."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each way in which more is recorded than was asked for."""
        found = [
            f"the mask cannot select {name} alone: it lets through all of {part}"
            for name, part in self.widened
        ]
        if self.surplus:
            parts = ", ".join(f"{name} ({LEAVES[name]:#x})" for name in self.surplus)
            found.append(
                f"the mask {self.mask:#010x} also lets through {parts}: "
                "its subclass bits count for each of its classes"
            )
        return tuple(found)


def parse_event_mask(text: str) -> EventMask:
    """The mask that `text` means. Raises UsageError naming the part that is wrong, and for
    a mask that is not 0 and still lets nothing through."""
    exact: list[int] = []
    loose = 0
    widened = []
    for part in re.split("[,|]", text):
        word = part.strip().lower()
        bits = _number(word) if _NUMBER.match(word) else _WORDS.get(word)
        if bits is None:
            bits = _event_bits(word, text)
            widened.append((word, describe(bits)))
        # An undivided class is content with any subclass bit, so its name brings none of
        # its own where there are others; a number is taken as it stands.
        if bits in _UNDIVIDED_BITS and not _NUMBER.match(word):
            loose |= bits & CLASS_BITS
        else:
            exact.append(bits)
    mask = reduce(or_, exact, loose)
    if loose and not mask & SUBCLASS_BITS:
        mask |= SUBCLASS_BITS
    _check_not_void(mask)
    surplus = tuple(
        name
        for name, leaf in LEAVES.items()
        if passes(mask, leaf)
        and not leaf & loose & CLASS_BITS
        and not any(passes(term, leaf) for term in exact)
    )
    return EventMask(mask, surplus, tuple(widened))


def _number(part: str) -> int:
    if part.startswith("-"):
        raise UsageError(f"event mask {part!r} is negative", hint=_HINT)
    if re.match("0[0-9]", part):
        raise UsageError(f"event mask {part!r}: octal or decimal?", hint="write it as 0x...")
    # int() refuses decimals of thousands of digits with a ValueError.
    number = int(part, 0) if len(part) < 100 else 1 << 32
    if number >> 32:
        raise UsageError(f"event mask {part!r} has more than 32 bits", hint=_HINT)
    return number


def _event_bits(word: str, text: str) -> int:
    if word == GUEST_NAME:
        return CLASSES["guest"]
    bits = 0
    for number, name in NAMES.items():
        if name == word:
            bits |= number & ALL_CLASSES
    if not bits:
        raise _unknown(word, text)
    return bits


def _unknown(word: str, text: str) -> UsageError:
    if not word:
        return UsageError(f"event mask {text!r} has an empty part", hint=_HINT)
    close = difflib.get_close_matches(word, [*_WORDS, *NAMES.values()], n=1)
    hint = f"did you mean {close[0]}?" if close else _HINT
    return UsageError(f"event mask: nothing is called {word!r}", hint=hint)


def _check_not_void(mask: int) -> None:
    if mask == 0 or (mask & CLASS_BITS and mask & SUBCLASS_BITS):
        return
    if mask & CLASS_BITS:
        raise UsageError(
            f"event mask {mask:#010x} lets nothing through: it has no subclass bit (12-15)",
            hint=f"for all subclasses write {mask | SUBCLASS_BITS:#010x}; for no events, 0",
        )
    raise UsageError(
        f"event mask {mask:#010x} lets nothing through: it has no class bit (16-27)", hint=_HINT
    )
