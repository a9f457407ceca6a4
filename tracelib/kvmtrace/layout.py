"""The three ways in which kvmtrace records lie in a file, and how a file shows its own.

| layout    | Linux          | magic | head                       | time                     |
|-----------|----------------|-------|----------------------------|--------------------------|
| halves    | 2.6.26         | no    | the compiler's bit fields  | cycles, low word first   |
| packed    | 2.6.27         | yes   | the compiler's bit fields  | cycles, 64 bits          |
| timestamp | 2.6.28-2.6.30  | yes   | a word: fields from bit 0  | ktime_get(), nanoseconds |

The magic is the file's first word, 0x12345678 in the byte order of the machine that wrote.
On little-endian machines a record's bytes are the same in all three: there the magic tells
the first from the others, and nothing tells whether times are cycles or nanoseconds. On
big-endian ones the heads tell the last from the others.
"""

from __future__ import annotations

import enum
from array import array
from dataclasses import dataclass, replace

from tracelib.errors import FormatError
from tracelib.kvmtrace.records import FIELDS_FROM_TOP, HIGH_HALF_FIRST, coverage, size

MAGIC = 0x12345678
WORD = 4

OPTION = "--kvmtrace-layout"
"""How the user says it."""


class Kind(enum.StrEnum):
    """What the layouts are called."""

    HALVES = "halves"
    PACKED = "packed"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Layout:
    """How the words of a file are to be read."""

    big_endian: bool
    kind: Kind | None
    """None: packed or timestamp, whose records are the same bytes."""

    @property
    def form(self) -> int:
        """For tracelib.kvmtrace.records, with the words in this machine's order."""
        if not self.big_endian:
            return 0
        from_top = 0 if self.kind is Kind.TIMESTAMP else FIELDS_FROM_TOP
        return from_top | (0 if self.kind is Kind.HALVES else HIGH_HALF_FIRST)

    @property
    def tick(self) -> str:
        """What a time stamp counts."""
        if self.kind is None:
            return "cycles or nanoseconds"
        return "nanoseconds" if self.kind is Kind.TIMESTAMP else "cycles"

    @property
    def order(self) -> str:
        return "big-endian" if self.big_endian else "little-endian"

    def __str__(self) -> str:
        return f"{self.kind or 'packed or timestamp'}, {self.order}"


_LITTLE = Layout(False, None)
_BIG_FIELDS = Layout(True, Kind.PACKED)
_BIG_WORD = Layout(True, Kind.TIMESTAMP)


def words_of(data: bytes | memoryview, *, big_endian: bool) -> array[int]:
    """The whole words of `data`, as numbers."""
    words = array("I", bytes(data[: len(data) // WORD * WORD]))
    if big_endian:
        words.byteswap()
    return words


def magic_order(start: bytes) -> bool | None:
    """Whether the magic at the start of a file is a big-endian one; None if there is none."""
    if start[:WORD] == MAGIC.to_bytes(WORD, "little"):
        return False
    return True if start[:WORD] == MAGIC.to_bytes(WORD, "big") else None


def detect(start: bytes, file: str, asked: Kind | None = None) -> Layout | None:
    """The layout of a file that starts like this, by which its records hang together best;
    None if no record is in it. What the user said (`asked`) is not doubted, but for the byte
    order. Raises FormatError if it remains open how to read the times."""
    candidates = (_LITTLE, _BIG_FIELDS, _BIG_WORD)
    if asked is not None:
        candidates = (Layout(False, asked), Layout(True, asked), Layout(True, asked))
    scores = [_score(start, candidate) for candidate in candidates]
    best = candidates[scores.index(max(scores))]
    if max(scores) == 0:
        return None
    if asked is not None or best is _BIG_WORD or magic_order(start) is best.big_endian:
        return best
    words = words_of(start, big_endian=best.big_endian)
    if size(memoryview(words), 0, len(words), best.form) > 0:
        return replace(best, kind=Kind.HALVES)
    return _headless(best, file)


def _headless(best: Layout, file: str) -> Layout:
    """A file that begins neither with the magic nor with a record."""
    if best is _LITTLE:
        return best
    raise FormatError(
        "the beginning is damaged, and with it what tells in which order the two halves of "
        "times are", file=file, offset=0, hint=f"say {OPTION} halves (Linux 2.6.26) or packed",
    )


def _score(start: bytes, candidate: Layout) -> int:
    words = words_of(start, big_endian=candidate.big_endian)
    return coverage(memoryview(words), candidate.form)
