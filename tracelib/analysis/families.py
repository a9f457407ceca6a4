"""Whose exit reasons a trace has, Intel's or AMD's, and how that is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tracelib.events.exits import Family, guess_family

FAMILIES: dict[str, Family] = {
    "vmx": "vmx", "svm": "svm", "intel": "vmx", "amd": "svm",
    "ppc": "ppc", "powerpc": "ppc",
    "genuineintel": "vmx", "authenticamd": "svm", "hygongenuine": "svm",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`family` is None where nobody can tell; reasons are numbers then."""

    family: Family | None
    source: str
    """Who says so, in words."""
    guessed: bool = False


def judge(
    exits: Iterable[tuple[int, int]], *, vendor: str | None = None, stated: str | None = None
) -> Verdict:
    """By what the user says, else what the file says, else the records themselves.

    `exits` are pairs: whether it was logged under AMD's own number, and the reason.
    """
    if vendor is not None:
        return Verdict(FAMILIES[vendor.lower()], "--vendor")
    if stated is not None and stated.lower() in FAMILIES:
        return Verdict(FAMILIES[stated.lower()], "the trace says so")
    seen = list(exits)
    shared = {reason for own, reason in seen if not own}
    if not shared:
        return Verdict("svm" if seen else None, "the events are AMD's own" if seen else "no exits")
    family = guess_family(shared)
    if family is None:
        return Verdict(None, "nothing in the trace tells; see --vendor")
    return Verdict(family, "guessed from the reasons that occur; see --vendor", guessed=True)
