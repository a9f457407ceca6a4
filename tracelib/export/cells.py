"""Lines of text put together side by side, thousands at once, with numpy.

A sheet has a row for each line and a column for each four bytes of it. Whatever is shorter
than its columns is filled up with zero bytes, which vanish when the lines are taken out.
So every step works on whole columns of 32-bit numbers: digits come from tables of four at
a time, words that repeat from a table of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tracelib.columns import I64, U32, U64, Mask

Column: TypeAlias = U32 | np.uint32
Unsigned: TypeAlias = U32 | U64
Integers: TypeAlias = npt.NDArray[np.integer]

_BLANK = np.uint32(0)
_MINUS = np.uint32(ord("-"))


class Sheet:
    """So many lines, growing to the right. Texts must not contain NUL."""

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self._columns: list[Column] = []

    def text(self, text: str) -> None:
        """The same on every line."""
        self._columns.extend(np.uint32(word) for word in _words(text))

    def choice(self, codes: Integers | Mask, texts: Sequence[str]) -> None:
        """On each line the text that its code is the index of."""
        table = _table(texts)
        if table.shape[0] == 1:
            self._columns.extend(table[0])
        else:
            at = codes.astype(np.intp)
            self._columns.extend(column[at] for column in table.T)

    def spelled(self, values: Integers, spell: Callable[[int], str]) -> None:
        """Each value as `spell` writes it; called once for each distinct value."""
        distinct, codes = np.unique(values, return_inverse=True)
        self.choice(codes, [spell(value) for value in distinct.tolist()])

    def decimal(self, values: Unsigned) -> None:
        """Without leading zeros."""
        self._digits(values, _DECIMAL, _leading_decimals, _all_decimals)

    def signed(self, values: I64) -> None:
        """Decimal, with a minus sign where there is need for one."""
        negative = values < 0
        if negative.any():
            self._columns.append(np.where(negative, _MINUS, _BLANK))
        self.decimal(np.abs(values).view(np.uint64))

    def fixed(self, values: Unsigned, digits: int) -> None:
        """Decimal with leading zeros; no value may need more digits."""
        self._columns.extend(_exact_digits(values, digits))

    def aligned(self, values: Unsigned, digits: int) -> None:
        """Decimal, with blanks on the left where it is shorter."""
        lengths = np.ones(len(values), np.intp)
        for power in range(1, digits):
            lengths += values >= np.uint64(10**power)
        self.choice(digits - lengths, [" " * blanks for blanks in range(digits)])
        self.decimal(values)

    def hexadecimal(self, values: Unsigned) -> None:
        """Lower case, without prefix or leading zeros."""
        self._digits(values, _HEXADECIMAL, _leading_hexadecimals, _all_hexadecimals)

    def beside(self, others: Sequence[tuple[Integers, Sheet]]) -> None:
        """Put other sheets to the right, each with the numbers of the lines it is for."""
        width = max((len(other._columns) for _, other in others), default=0)
        block = np.zeros((width, self.lines), np.uint32)
        for rows, other in others:
            for number, column in enumerate(other._columns):
                block[number, rows] = column
        self._columns.extend(block)

    def render(self) -> bytes:
        """The lines, one behind the other; line ends are the caller's."""
        table = np.empty((self.lines, len(self._columns)), np.uint32)
        for number, column in enumerate(self._columns):
            table[:, number] = column
        return table.tobytes().translate(None, b"\0")

    def _digits(
        self, values: Unsigned, base: int, leading: Callable[[], U32], every: Callable[[], U32]
    ) -> None:
        """Groups of digits from tables; the highest one that is not 0 without its zeros.

        `leading` has two tables of `base` words: numbers as they are, and as they are but
        nothing for 0. `every` has all their digits.
        """
        top = int(values.max()) if len(values) else 0
        rest = values.astype(np.uint32) if top < 1 << 32 else values
        groups: list[U32] = []
        blank_zero = 0
        while True:
            higher, digits = np.divmod(rest, rest.dtype.type(base))
            index = digits.astype(np.intp)
            if top < base:
                groups.append(leading()[index + blank_zero])
                break
            none_higher = higher == 0
            groups.append(
                np.where(none_higher, leading()[index + blank_zero], every()[index])
            )
            rest, top, blank_zero = higher, top // base, base
        self._columns.extend(reversed(groups))


_DECIMAL = 10_000
_HEXADECIMAL = 0x10000


def _words(text: str) -> list[int]:
    data = text.encode()
    data += bytes(-len(data) % 4)
    words: list[int] = np.frombuffer(data, np.uint32).tolist()
    return words


def _table(texts: Sequence[str]) -> U32:
    """One row a text, as many columns as the longest needs."""
    rows = [text.encode() for text in texts]
    width = (max((len(row) for row in rows), default=0) + 3) // 4 * 4
    return np.frombuffer(
        b"".join(row.ljust(width, b"\0") for row in rows), np.uint32
    ).reshape(len(rows), width // 4)


def _digit_table(base: int, *, leading_zeros: bool, zero: str = "0") -> U32:
    """The numbers of four digits to a base, as four characters in a word."""
    numbers = np.arange(base**4)
    characters = np.empty((4, len(numbers)), np.uint8)
    for place in range(4):
        left = numbers // base ** (3 - place)
        digit = left % base
        characters[place] = np.where(digit < 10, digit + ord("0"), digit - 10 + ord("a"))
        if not leading_zeros:
            characters[place][left == 0] = 0
    if not leading_zeros:
        characters[3, 0] = ord(zero) if zero else 0
    return np.ascontiguousarray(characters.T).view(np.uint32)[:, 0]


def _leading(base: int) -> U32:
    plain = _digit_table(base, leading_zeros=False)
    return np.concatenate([plain, _digit_table(base, leading_zeros=False, zero="")])


@cache
def _all_decimals() -> U32:
    return _digit_table(10, leading_zeros=True)


@cache
def _leading_decimals() -> U32:
    return _leading(10)


@cache
def _all_hexadecimals() -> U32:
    return _digit_table(16, leading_zeros=True)


@cache
def _leading_hexadecimals() -> U32:
    return _leading(16)


@cache
def _some_decimals(digits: int) -> U32:
    return _table([f"{number:0{digits}}" for number in range(10**digits)])[:, 0].copy()


def _exact_digits(values: Unsigned, digits: int) -> list[U32]:
    groups: list[U32] = []
    rest = values
    while digits > 4:
        rest, low = np.divmod(rest, rest.dtype.type(_DECIMAL))
        groups.append(_all_decimals()[low.astype(np.intp)])
        digits -= 4
    groups.append(_some_decimals(digits)[rest.astype(np.intp)])
    return groups[::-1]
