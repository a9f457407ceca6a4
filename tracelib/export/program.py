"""Making line programs: what engine.Engine runs, in the words of what is to be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tracelib.export import opcodes


class Value(NamedTuple):
    """Where a value of up to 64 bits lies."""

    source: int
    """An extra word's number, or opcodes.TSC, ELAPSED, REALTIME, CPU, RUNNING."""
    shift: int = 0
    bits: int = 64


TSC = Value(opcodes.TSC)
ELAPSED = Value(opcodes.ELAPSED)
REALTIME = Value(opcodes.REALTIME)
CPU = Value(opcodes.CPU)
RUNNING = Value(opcodes.RUNNING)


class Workshop:
    """What the programs of one format share: the pool of literals, and the spellers."""

    def __init__(self) -> None:
        self.pool = bytearray()
        self.spellers: list[Callable[[int], bytes]] = [lambda _: b""]
        """Number 0 is never called: the engine keeps its programs under it."""
        self._numbers: dict[object, int] = {}

    def speller(self, name: object, spell: Callable[[int], str]) -> int:
        """The number of a speller; `name` tells spellers apart."""
        if name not in self._numbers:
            self._numbers[name] = len(self.spellers)
            self.spellers.append(lambda value: spell(value).encode())
        return self._numbers[name]


class Program:
    """One line's steps, or some of them; each method adds what is written next."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._steps: list[int] = []

    @property
    def steps(self) -> list[int]:
        """The finished program."""
        return [*self._steps, *_step(opcodes.END)]

    def text(self, text: str) -> None:
        """The same on every line."""
        pool = self._workshop.pool
        last = len(self._steps) - opcodes.STEP
        data = text.encode()
        if last >= 0 and self._steps[last] == opcodes.LITERAL and (
            self._steps[last + 2] == len(pool)
        ):
            self._steps[last + 2] += len(data)
        else:
            self._add(opcodes.LITERAL, len(pool), len(pool) + len(data))
        pool += data

    def decimal(self, value: Value) -> None:
        """Without leading zeros."""
        self._add(opcodes.DECIMAL, *value)

    def signed(self, value: Value) -> None:
        """Its highest bit is its sign."""
        self._add(opcodes.SIGNED, *value)

    def hexadecimal(self, value: Value) -> None:
        """Lower case, without prefix or leading zeros."""
        self._add(opcodes.HEXADECIMAL, *value)

    def aligned(self, value: Value, width: int) -> None:
        """Decimal, with blanks on the left."""
        self._add(opcodes.ALIGNED, *value, width)

    def number(
        self, value: Value, width: int, *, radix: int, fill: str, signed: bool
    ) -> None:
        """As printf does: in radix 8, 10 or 16, filled up to `width` with blanks or zeros.
        Signed ones have 64 bits."""
        self._add(opcodes.NUMBER, *value, width, radix, ord(fill), signed)

    def seconds(self, width: int) -> None:
        """The elapsed time with nine decimals, with blanks on the left."""
        self._add(opcodes.SECONDS, *ELAPSED, width)

    def wall(self, spell: Callable[[int], str]) -> None:
        """The wall-clock time with nine decimals, its whole seconds (64 bits, signed) as
        `spell` writes them."""
        self._add(opcodes.WALL, *REALTIME, self._workshop.speller("wall", spell))

    def micros(self, value: Value, *, signed: bool = False) -> None:
        """Nanoseconds as microseconds with three decimals."""
        self._add(opcodes.MICROS, *value, value.bits if signed else 0)

    def unless(self, value: Value, special: int, text: str) -> None:
        """For one special value a text instead of what is added next."""
        pool = self._workshop.pool
        start = len(pool)
        pool += text.encode()
        self._add(opcodes.UNLESS, *value, special, start, len(pool))

    def spelled(self, value: Value, name: object, spell: Callable[[int], str]) -> None:
        """As `spell` writes it, which is called once for each value. Values that many
        records have, not counters."""
        self._add(opcodes.SPELLED, *value, self._workshop.speller(name, spell))

    def pair(
        self, first: Value, second: Value, name: object, spell: Callable[[int], str]
    ) -> None:
        """Two values of up to 32 bits, spelled together as first << 32 | second."""
        self._add(opcodes.PAIR, *first, *second, self._workshop.speller(name, spell))

    def _add(self, *numbers: int) -> None:
        self._steps += _step(*numbers)


STOP = [opcodes.STOP] + [0] * (opcodes.STEP - 1)
"""A program for lines that the caller writes."""

BY_ARGUMENTS = [opcodes.BY_ARGUMENTS] + [0] * (opcodes.STEP - 1)
"""A program that sends the engine for another one, made for the record's arguments."""


def _step(*numbers: int) -> list[int]:
    return [*numbers, *[0] * (opcodes.STEP - len(numbers))]
