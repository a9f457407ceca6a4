"""Lines by a user's rules: the `formats` files of xentrace_format (tools/xentrace in Xen to 4.18).

A rule is a line: an event's number, blanks, and a text in which these stand for values:

    %(cpu)d %(tsc)d %(event)x      of the record; tsc in cycles
    %(reltsc)d                     cycles since the record before on that CPU
    %(1)d ... %(7)d                extra words; 0 where the record has fewer

with Python's conversions (%(2)08x, %(reltsc)8d). The rule of event 0 is for events without
one. Blank lines and what follows "#" at a line's start are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tracelib.columns import MAX_EXTRA, Columns, Flag
from tracelib.errors import UsageError
from tracelib.gaps import STATED_LOSS, gap_at
from tracelib.losses import Loss
from tracelib.records import EVENT_MASK
from tracelib.selection import Selection
from tracelib.store.fsops import translated

DEFAULT = 0
"""The event whose rule is for events without one."""

_UNKNOWN = (
    "CPU%(cpu)d  %(tsc)d (+%(reltsc)8d)  unknown (0x%(event)08x)"
    "  [ 0x%(1)08x 0x%(2)08x 0x%(3)08x 0x%(4)08x 0x%(5)08x 0x%(6)08x 0x%(7)08x ]"
)
_MOST_BYTES = 1 << 20

Rules = Mapping[int, str]
"""By event number."""


def read_rules(path: Path) -> Rules:
    """Of a file. Raises StoreError; UsageError naming line and reason for a rule that is none."""
    with translated("read", path), path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{path}: larger than 1 MiB: not a file of rules")
    rules = {DEFAULT: _UNKNOWN}
    for number, line in enumerate(data.decode(errors="replace").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            event, rule = _parse(line)
        except ValueError as exc:
            raise UsageError(
                f"{path}:{number}: {exc}",
                hint="a rule is like: 0x00081001  CPU%(cpu)d %(tsc)d VMENTRY 0x%(1)08x",
            ) from exc
        rules[event] = rule
    return rules


def _parse(line: str) -> tuple[int, str]:
    """Raises ValueError."""
    word, _, rule = line.strip().partition(" ")
    word, tab, rest = word.partition("\t")
    rule = rest + (" " + rule if rule else "") if tab else rule
    event = int(word, 0)
    if not 0 <= event <= EVENT_MASK:
        raise ValueError(f"{word} is no event's number")
    rule = rule.strip()
    try:
        rule % _arguments(0, 0, 0, event, [0] * MAX_EXTRA)
    except KeyError as exc:
        raise ValueError(f"there is no value named {exc.args[0]!r}") from None
    except (TypeError, ValueError) as exc:
        raise ValueError(f"{exc} in {rule!r:.60}") from None
    return event, rule


def _arguments(
    cpu: int, tsc: int, reltsc: int, event: int, words: Sequence[int]
) -> dict[str, int]:
    named = {"cpu": cpu, "tsc": tsc, "reltsc": reltsc, "event": event}
    return named | {str(place): word for place, word in enumerate(words, start=1)}


class RuleWriter:
    """Batches in, lines out; as slow as the tool that it takes the place of."""

    def __init__(self, rules: Rules, selection: Selection) -> None:
        self._rules = rules
        self._selection = selection
        self._last: dict[int, int] = {}
        """The TSC of the last record of each CPU."""

    def lines(self, batch: Columns, stated: Sequence[Loss]) -> Iterator[bytes]:
        """A line for each row; a loss that the file states beside its records has one too."""
        for row in range(len(batch)):
            cpu, tsc = int(batch.cpu[row]), int(batch.tsc[row])
            last = self._last.get(cpu, tsc)
            if batch.flags[row] & Flag.DATED:
                self._last[cpu] = tsc
            event = int(batch.event[row])
            if event == STATED_LOSS:
                gap = self._selection.clip(gap_at(batch, row, stated))
                count = "an unknown number of" if gap.records is None else str(gap.records)
                yield f"CPU{cpu}  {tsc} (+{0:8d})  LOST {count} records ({gap.cause})\n".encode()
                continue
            at, extra = int(batch.at[row]), int(batch.extra[row])
            words = batch.words[at : at + extra].tolist() + [0] * (MAX_EXTRA - extra)
            rule = self._rules.get(event, self._rules[DEFAULT])
            yield (rule % _arguments(cpu, tsc, tsc - last, event, words) + "\n").encode()
