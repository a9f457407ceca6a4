"""One file of a kvmtrace set: its records as chunks, and what is wrong in it."""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tracelib.chunks import Chunk, Problem
from tracelib.errors import StoreError
from tracelib.kvmtrace.layout import WORD, Kind, Layout, detect, magic_order, words_of
from tracelib.kvmtrace.records import CUT, find, head, last, size, translate
from tracelib.store.fsops import translated
from tracelib.units import CpuId

READ_BYTES = 1 << 20


@dataclass(slots=True)
class _Damage:
    """A stretch in which no record can start."""

    offset: int
    zeros: bool = True
    """Nothing but zeros so far."""

    def reason(self, *, last: bool) -> str:
        if self.zeros and last:
            return "zeros up to the end, as kvmtrace leaves them when it is killed"
        return "zeros instead of records" if self.zeros else "no record starts here"


class Member:
    """Opens its file when it is made; reads it with pread, as often as wanted."""

    def __init__(self, cpu: CpuId, path: Path) -> None:
        """Raises StoreError."""
        self.cpu = cpu
        self.name = str(path)
        self._path = path
        with translated("open", path):
            # Not to wait for whoever might write into a pipe.
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        if not regular:
            self.close()
            raise StoreError(f"cannot read {path}: it is no regular file")

    @property
    def length(self) -> int:
        """In bytes, as the file is now."""
        with translated("read", self._path):
            return os.fstat(self._descriptor).st_size

    @property
    def empty(self) -> bool:
        """Whether nothing came on this CPU: no byte, or only the magic."""
        start = self._read(0, WORD + 1)
        return not start or (len(start) == WORD and magic_order(start) is not None)

    def layout(self, asked: Kind | None) -> Layout | None:
        """What its beginning shows; None if there is no record. Raises FormatError."""
        return detect(self._read(0), self.name, asked)

    def close(self) -> None:
        """Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def chunks(self, layout: Layout, note: Callable[[Problem], None]) -> Iterator[Chunk]:
        """Every intact row of records; `note` is told what lies between them. Raises StoreError."""
        scan = _Scan(self, layout, note)
        if magic_order(self._read(0, WORD)) is not None:
            scan.offset = WORD
        final = False
        while not final:
            data = self._read(scan.offset)
            final = len(data) < READ_BYTES
            yield from scan.rows(data, final=final)
        scan.end()

    def _read(self, offset: int, size: int = READ_BYTES) -> bytes:
        with translated("read", self._path):
            return os.pread(self._descriptor, size, offset)


class _Scan:
    """Goes through a file once."""

    def __init__(self, member: Member, layout: Layout, note: Callable[[Problem], None]) -> None:
        self._member = member
        self._layout = layout
        self._note = note
        self._damage: _Damage | None = None
        self._rest = b""
        self.offset = 0
        """How far it has got, in bytes: what lies behind is to be read again."""

    def rows(self, data: bytes, *, final: bool) -> Iterator[Chunk]:
        """The rows in a piece that begins at `offset`. They go on to where the piece ends or a
        record is cut by that; the last record waits for what follows it, if more does."""
        words = memoryview(words_of(data, big_endian=self._layout.big_endian))
        out = memoryview(array("I", bytes(WORD * len(words))))
        form, base, at, end = self._layout.form, self.offset, 0, len(words)
        while at < end and size(words, at, end, form) != CUT:
            stop = translate(words, at, end, form, out)
            following = find(words, stop, end, form)
            damaged = following > stop
            content = not _zeros(data[WORD * stop : WORD * following])
            if stop > at and (_doubtful(words, stop) if damaged else not final):
                stop = last(words, at, stop, form)
            if stop > at:
                self._over(base + WORD * at)
                payload = out[at:stop].cast("B")
                yield Chunk(self._member.cpu, payload, self._member.name, base + WORD * at)
            at = stop
            if not damaged:
                break
            self._bad(base + WORD * at, content)
            at = following
        self.offset = base + WORD * at
        self._rest = data[WORD * at :]

    def end(self) -> None:
        """The file ends; what is left is no whole record."""
        if self._damage is not None:
            self._bad(self.offset, not _zeros(self._rest))
            self._over(self.offset + len(self._rest), last=True)
        elif self._rest:
            missing = max(len(self._rest), self._whole())
            self._report(self.offset, "the file ends within a record", missing)

    def _whole(self) -> int:
        """How many bytes the record that is cut should have, as far as its head is there."""
        words = words_of(self._rest, big_endian=self._layout.big_endian)
        if not words:
            return 0
        word = head(words[0], self._layout.form)
        return WORD * (3 + 2 * (word >> 31) + (word >> 28 & 7))

    def _bad(self, offset: int, content: bool) -> None:
        if self._damage is None:
            self._damage = _Damage(offset)
        self._damage.zeros &= not content

    def _over(self, offset: int, *, last: bool = False) -> None:
        """A stretch of damage ends here."""
        if self._damage is not None:
            found, self._damage = self._damage, None
            self._report(found.offset, found.reason(last=last), offset - found.offset)

    def _report(self, offset: int, reason: str, missing: int) -> None:
        self._note(Problem(self._member.name, offset, reason, missing))


def _zeros(data: bytes) -> bool:
    """Whether nothing else is there: compared in C, for files are mostly holes at times."""
    return data == bytes(len(data))


def _doubtful(words: memoryview, at: int) -> bool:
    """Whether damage that is noticed at words[at] may begin in the record before: always, but
    for zeros behind a word that is none."""
    return bool(words[at] or not words[at - 1])
