"""Lines by a user's rules: the `formats` files of xentrace_format (tools/xentrace in Xen to 4.18).

A rule is a line: an event's number, blanks, and a text in which these stand for values:

    %(cpu)d %(event)x              of the record
    %(tsc)d                        in cycles; 0 if the record has none of its own
    %(reltsc)d                     cycles since the last time stamp on that CPU; 0 if the
                                   record has none, or none came before it
    %(1)d ... %(7)d                extra words; 0 where the record has fewer

with Python's conversions (%(2)08x, %(reltsc)8d), as that program had them: the first word of
PV_HYPERCALL_V2 comes without the bits that say which arguments follow. The rule of event 0
is for events without one; if there is none either, an event is shown raw, where that program
left it out. Blank lines and those that begin with "#" are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tracelib.columns import I64, MAX_EXTRA, Columns, Flag
from tracelib.errors import UsageError
from tracelib.export.engine import MARGIN, MAX_TEXT, Engine, Steps
from tracelib.export.program import CPU, ELAPSED, STOP, TSC, Program, Value, Workshop
from tracelib.gaps import STATED_LOSS, gap_at
from tracelib.losses import Loss
from tracelib.records import EVENT_MASK
from tracelib.selection import Selection
from tracelib.store.fsops import translated

DEFAULT = 0
"""The event whose rule is for events without one."""

_RAW = (
    "CPU%(cpu)d  %(tsc)d (+%(reltsc)8d)  unknown (0x%(event)08x)"
    "  [ 0x%(1)08x 0x%(2)08x 0x%(3)08x 0x%(4)08x 0x%(5)08x 0x%(6)08x 0x%(7)08x ]"
)
_MOST_BYTES = 1 << 20
_TARGET_BYTES = 1 << 20

_WITH_ARGUMENT_BITS = frozenset({0x20100D, 0x20100E})
"""The events of whose first word xentrace_format took the low 20 bits."""

_RELATIVE = ELAPSED
"""These lines have no elapsed time, so the engine gets reltsc in its column."""

_CONVERSION = re.compile(
    r"%(?:(?P<percent>%)|\((?P<name>\w+)\)"
    r"(?P<format>(?P<flags>[#0 +-]*)(?P<width>[0-9]*)(?P<precision>\.[0-9]*)?[hlL]?(?P<type>\w)))"
)


class Conversion(NamedTuple):
    """A value in a rule, and how it is written."""

    name: str
    format: str
    """What Python's % makes of it: "%08x"."""
    radix: int
    """10, 16 or 8 if the engine can write it; else 0."""
    width: int
    zeros: bool

    @property
    def longest(self) -> int:
        """So many bytes at most."""
        return max(self.width, 22) if self.radix else MAX_TEXT


Rule = tuple[str | Conversion, ...]
Rules = Mapping[int, Rule]
"""By event number."""


def read_rules(path: Path) -> Rules:
    """Of a file. Raises StoreError; UsageError naming file, line and reason for a rule that
    is none."""
    with translated("read", path), path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{path}: larger than 1 MiB: not a file of rules")
    rules = {DEFAULT: _parse_text(_RAW)}
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


def _parse(line: str) -> tuple[int, Rule]:
    """Raises ValueError."""
    word, *rest = line.strip().split(maxsplit=1)
    event = int(word, 0)
    if not 0 <= event <= EVENT_MASK:
        raise ValueError(f"{word} is no event's number")
    if not rest:
        raise ValueError(f"nothing is to be written for {word}")
    return event, _parse_text(rest[0])


def _parse_text(text: str) -> Rule:
    zeros = dict.fromkeys(["cpu", "tsc", "reltsc", "event", *map(str, range(1, MAX_EXTRA + 1))], 0)
    try:
        text % zeros
    except KeyError as exc:
        raise ValueError(f"there is no value named {exc.args[0]!r}") from None
    except (TypeError, ValueError, OverflowError) as exc:
        raise ValueError(f"{exc} in {text!r:.60}") from None
    rule: list[str | Conversion] = []
    end = 0
    for match in _CONVERSION.finditer(text):
        rule += [text[end : match.start()], _conversion(match)]
        end = match.end()
    rule.append(text[end:])
    if any("%" in part for part in rule if isinstance(part, str) and part != "%"):
        raise ValueError(f"a % without (name) in {text!r:.60}")
    if sum(len(p) if isinstance(p, str) else p.longest for p in rule) > MARGIN // 4:
        raise ValueError("a line that long is none")
    return tuple(rule)


def _conversion(match: re.Match[str]) -> str | Conversion:
    """Raises ValueError."""
    if match["percent"]:
        return "%"
    if match["type"] == "c":
        raise ValueError(f"words are not characters: {match.group()!r}")
    radix = {"d": 10, "i": 10, "u": 10, "x": 16, "o": 8}.get(match["type"], 0)
    if match["precision"] or match["flags"] not in ("", "0"):
        radix = 0
    width = int(match["width"] or 0)
    return Conversion(match["name"], f"%{match['format']}", radix, width, "0" in match["flags"])


class RuleWriter:
    """Batches of one trace in, lines out."""

    def __init__(self, rules: Rules, selection: Selection) -> None:
        self._rules = rules
        self._selection = selection
        self._last: dict[int, int] = {}
        """The last time stamp of each CPU."""
        self._target = memoryview(bytearray(_TARGET_BYTES))
        self._engine = self._make_engine()

    def lines(self, batch: Columns, stated: Sequence[Loss]) -> Iterator[bytes | memoryview]:
        """A line for each row; a loss that the file states beside its records has one too.
        Each piece is valid until the next step."""
        columns = self._columns(batch)
        row = 0
        while row < len(batch):
            if self._engine.stale:
                self._engine = self._make_engine()
            row, size, ours = self._engine.write(columns, row, self._target)
            yield self._target[:size]
            if ours:
                yield self._loss_line(batch, row, stated)
                row += 1

    def _make_engine(self) -> Engine:
        self._workshop = Workshop()
        nothing = [Program(self._workshop).steps] * (2 * Flag.QUEUE_FULL)
        return Engine(nothing, self._plan, self._workshop.spellers, self._workshop.pool)

    def _columns(self, batch: Columns) -> list[memoryview]:
        timed = (batch.flags & Flag.TIMED) != 0
        relative = self._relative(batch, np.flatnonzero(timed))
        columns = (
            batch.event, batch.extra, batch.flags, batch.at, batch.words, batch.tsc * timed,
            relative, np.zeros(len(batch), np.int64), batch.cpu, batch.running,
        )
        return [np.ascontiguousarray(column).data for column in columns]

    def _relative(self, batch: Columns, timed: I64) -> I64:
        """Cycles since the last time stamp on the row's CPU, where there are two."""
        relative = np.zeros(len(batch), np.int64)
        cpus = batch.cpu[timed]
        for cpu in np.unique(cpus).tolist():
            rows = timed[cpus == cpu]
            times = batch.tsc[rows].view(np.int64)
            before = self._last.get(cpu, int(times[0]))
            relative[rows] = np.diff(times, prepend=before)
            self._last[cpu] = int(times[-1])
        return relative

    def _plan(self, event: int, extra: int, _: int | None) -> Steps:
        if event == STATED_LOSS:
            return STOP
        program = Program(self._workshop)
        for part in self._rules.get(event, self._rules[DEFAULT]):
            if isinstance(part, str):
                program.text(part)
            elif part.name == "event":
                program.text(part.format % event)
            elif part.name.isdigit() and int(part.name) > extra:
                program.text(part.format % 0)
            else:
                _write(program, part, _place(part.name, event))
        program.text("\n")
        return program.steps

    def _loss_line(self, batch: Columns, row: int, stated: Sequence[Loss]) -> bytes:
        gap = self._selection.clip(gap_at(batch, row, stated))
        count = "an unknown number of" if gap.records is None or gap.cut else str(gap.records)
        tsc = int(batch.tsc[row])
        return f"CPU{gap.cpu}  {tsc} (+{0:8d})  LOST {count} records ({gap.cause})\n".encode()


def _place(name: str, event: int) -> Value:
    if name.isdigit():
        bits = 20 if name == "1" and event in _WITH_ARGUMENT_BITS else 32
        return Value(int(name) - 1, bits=bits)
    return {"cpu": CPU, "tsc": TSC, "reltsc": _RELATIVE}[name]


def _write(program: Program, part: Conversion, value: Value) -> None:
    signed = value is _RELATIVE
    if part.radix:
        program.number(
            value, part.width, radix=part.radix, fill="0" if part.zeros else " ", signed=signed
        )
        return

    def spell(raw: int) -> str:
        return part.format % (raw - (1 << 64) if signed and raw >> 63 else raw)

    program.spelled(value, (part.format, signed), spell)


