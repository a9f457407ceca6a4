# cython: annotation_typing=False, initializedcheck=False
"""Lines out of columns: runs, for each record, the program that was made for its form.

Plain Python; engine.pxd gives it C types where a compiler was at hand at install time.

What depends only on an event's form is decided once, when its first record comes: `plan`
makes a program out of it (tracelib.export.program). What depends on a value and takes
Python to say, such as the name of a hypercall, is spelled once for each value and kept.
Both lie in one hash table, by kind and value: kind 0 are programs, the others are spellers.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from tracelib.export import memory, opcodes

MARGIN = 1 << 16
"""Room that must be left in the target for another line."""

MAX_STEPS = 1 << 18
MAX_TEXT_BYTES = 4 << 20
MAX_POOL_BYTES = 1 << 18
MAX_TEXT = 1024
"""No spelling is longer."""

Steps = Sequence[int]
"""A program: opcodes.STEP numbers a step."""
Plan = Callable[[int, int, int | None], Steps]
"""Event, number of extra words, and bits 20-31 of the first of them if the program asked for
them (opcodes.BY_ARGUMENTS): the program for such records."""
Speller = Callable[[int], bytes]


class Engine:
    """One format's writer. What it knows only grows, up to a bound; then it is `stale`, and
    the caller makes a new one."""

    def __init__(
        self, prefixes: Sequence[Steps], plan: Plan, spellers: Sequence[Speller], pool: bytearray
    ) -> None:
        """`prefixes`: the program that a line begins with, by the record's flags (0 to 15).
        `spellers` and `pool` may grow while programs are planned."""
        self._plan = plan
        self._spellers = spellers
        self._pool_bytes = pool
        self.stale = False
        self._used = 0
        self._table = memoryview(array("Q", bytes(8 * opcodes.TABLE_WORDS)))
        self._texts = memoryview(bytearray(1 << 16))
        self._texts_end = 0
        self._steps = memoryview(array("q", bytes(8 * opcodes.STEP * 256)))
        self._steps_end = 0
        self._take_pool()
        self._prefixes = memoryview(array("q", [self._add(p) for p in prefixes]))

    def write(
        self, columns: Sequence[memoryview], start: int, target: memoryview
    ) -> tuple[int, int, bool]:
        """Write lines for the rows from `start` on, until there are no more, or `target` is
        nearly full, or a row is the caller's to write, or the engine is stale.

        `columns`: event, extra, flags, at, words, tsc, elapsed, realtime, cpu and running,
        of formats I B B q I Q q q H I. Returns the next row, the number of bytes written,
        and whether that row is the caller's.
        """
        self._event, self._extra, self._flags, self._at, self._words = columns[:5]
        self._tsc, self._elapsed, self._realtime, self._cpu, self._running = columns[5:]
        buffer = memory.characters(target)
        rows = len(self._event)
        room = len(target) - MARGIN
        row = start
        out = 0
        while row < rows and out <= room and not self.stale:
            program = self._program(row)
            if self._steps[program] == opcodes.STOP:
                return row, out, True
            out = self._run(self._prefixes[self._flags[row]], row, buffer, out)
            out = self._run(program, row, buffer, out)
            row += 1
        return row, out, False

    def write_prefix(self, row: int, target: memoryview) -> int:
        """Write only how the row's line begins, of the columns given last; its length."""
        return self._run(self._prefixes[self._flags[row]], row, memory.characters(target), 0)

    # Programs and spellings, found or made.

    def _program(self, row: int) -> int:
        """Where the row's program starts."""
        key = self._extra[row]
        key = key << 28 | self._event[row]
        entry = self._find(0, key)
        program = self._table[entry + 2] if entry >= 0 else self._learn_program(key)
        if self._steps[program] == opcodes.BY_ARGUMENTS:
            arguments = self._words[self._at[row]] >> 20
            key |= (arguments | 0x1000) << 32
            entry = self._find(0, key)
            program = self._table[entry + 2] if entry >= 0 else self._learn_program(key)
        return program

    def _find(self, kind: int, value: int) -> int:
        """The table entry of a kind and value; -1 if there is none."""
        entry = self._home(kind, value)
        while self._table[entry]:
            if self._table[entry + 1] == value and self._table[entry] == kind + 1:
                return entry
            entry = (entry + opcodes.ENTRY) & (opcodes.TABLE_WORDS - 1)
        return -1

    def _home(self, kind: int, value: int) -> int:
        """Where its search begins."""
        mixed = ((value ^ value >> 32 ^ kind << 24) & opcodes.LOW32) * opcodes.HASH_FACTOR
        return ((mixed & opcodes.LOW32) >> opcodes.HASH_SHIFT) * opcodes.ENTRY

    def _learn_program(self, key: int) -> int:
        # Bit 44 tells arguments that are all absent from those not asked for.
        arguments = key >> 32 & 0xFFF if key >> 44 else None
        program = self._add(self._plan(key & 0x0FFFFFFF, key >> 28 & 7, arguments))
        self._take_pool()
        self._enter(0, key, program, 0)
        return program

    def _take_pool(self) -> None:
        """Planning adds literals."""
        self._pool = memoryview(bytes(self._pool_bytes) + bytes(memory.SLACK))
        self.stale = self.stale or len(self._pool) > MAX_POOL_BYTES

    def _learn_text(self, kind: int, value: int) -> int:
        text = self._spellers[kind](value)[:MAX_TEXT]
        end = self._texts_end + len(text)
        if end + memory.SLACK > len(self._texts):
            self._texts = memoryview(bytearray(self._texts) + bytearray(len(self._texts)))
        bytearray_view = self._texts
        for number in range(len(text)):
            bytearray_view[self._texts_end + number] = text[number]
        entry = self._enter(kind, value, self._texts_end, end)
        self._texts_end = end
        self.stale = self.stale or end > MAX_TEXT_BYTES
        return entry

    def _enter(self, kind: int, value: int, first: int, second: int) -> int:
        """Half of the table stays free; lines under way find room in it beyond that."""
        entry = self._home(kind, value)
        while self._table[entry]:
            entry = (entry + opcodes.ENTRY) & (opcodes.TABLE_WORDS - 1)
        self._table[entry] = kind + 1
        self._table[entry + 1] = value
        self._table[entry + 2] = first
        self._table[entry + 3] = second
        self._used += 1
        self.stale = self.stale or self._used > opcodes.TABLE_WORDS // opcodes.ENTRY // 2
        return entry

    def _add(self, steps: Steps) -> int:
        """Put a program behind the others; where it starts."""
        start = self._steps_end
        end = start + len(steps)
        while end > len(self._steps):
            grown = array("q", self._steps)
            self._steps = memoryview(grown + array("q", bytes(8 * len(grown))))
        for number, step in enumerate(steps):
            self._steps[start + number] = step
        self._steps_end = end
        self.stale = self.stale or end > MAX_STEPS
        return start

    # Running a program.

    def _run(self, at: int, row: int, target: memoryview, out: int) -> int:
        """Write what the program at `at` says of a row; where it ends in the target."""
        steps = memory.numbers(self._steps)
        while True:
            op = steps[at]
            if op == opcodes.LITERAL:
                out = memory.copy(
                    target, out, memory.characters(self._pool), steps[at + 1], steps[at + 2]
                )
            elif op == opcodes.END:
                return out
            elif op == opcodes.SECONDS:
                out = _seconds(target, out, self._elapsed[row], steps[at + 4])
            elif op == opcodes.WALL:
                out = self._wall(steps[at + 4], self._realtime[row], target, out)
            else:
                value = self._value(at + 1, row)
                if op == opcodes.SPELLED:
                    out = self._spell(steps[at + 4], value, target, out)
                elif op == opcodes.DECIMAL:
                    out = _decimal(target, out, value, 0, False)
                elif op == opcodes.PAIR:
                    other = self._value(at + 4, row)
                    out = self._spell(steps[at + 7], value << 32 | other, target, out)
                elif op == opcodes.HEXADECIMAL:
                    out = _hexadecimal(target, out, value)
                elif op == opcodes.SIGNED:
                    out = _signed(target, out, value, steps[at + 3])
                elif op == opcodes.ALIGNED:
                    out = _decimal(target, out, value, steps[at + 4], False)
                elif op == opcodes.MICROS:
                    out = _micros(target, out, value, steps[at + 4])
                elif op == opcodes.NUMBER:
                    negative = steps[at + 7] != 0 and value >> 63 != 0
                    if negative:
                        value = opcodes.ALL64 - value + 1
                    out = _number(
                        target, out, value, steps[at + 4], steps[at + 5], steps[at + 6], negative
                    )
                elif op == opcodes.UNLESS:
                    special = steps[at + 4]
                    if value == special:
                        out = memory.copy(
                            target, out, memory.characters(self._pool), steps[at + 5], steps[at + 6]
                        )
                        at += opcodes.STEP
            at += opcodes.STEP

    def _value(self, place: int, row: int) -> int:
        """An unsigned value of up to 64 bits; its place is in three numbers from `place` on."""
        source = self._steps[place]
        if source < opcodes.TSC:
            at = self._at[row] + source
            value = self._words[at]
            bits = self._steps[place + 2]
            if bits == 64:
                high = self._words[at + 1]
                return value | high << 32
            mask = opcodes.LOW32 >> (32 - bits)
            return value >> self._steps[place + 1] & mask
        if source == opcodes.TSC:
            return self._tsc[row]
        if source == opcodes.CPU:
            return self._cpu[row]
        if source == opcodes.RUNNING:
            return self._running[row]
        if source == opcodes.ELAPSED:
            return self._elapsed[row] & opcodes.ALL64
        return self._realtime[row] & opcodes.ALL64

    def _spell(self, kind: int, value: int, target: memoryview, out: int) -> int:
        entry = self._find(kind, value)
        if entry < 0:
            entry = self._learn_text(kind, value)
        return memory.copy(
            target, out, memory.characters(self._texts), self._table[entry + 2],
            self._table[entry + 3],
        )

    def _wall(self, kind: int, realtime: int, target: memoryview, out: int) -> int:
        whole = realtime // 1000000000
        if whole * 1000000000 > realtime:
            # C rounds towards 1970.
            whole -= 1
        out = self._spell(kind, whole & opcodes.ALL64, target, out)
        target[out] = 46
        return _fixed(target, out + 1, realtime - whole * 1000000000, 9)


# Each writes at target[out:] and returns where that ends.


def _decimal(target: memoryview, out: int, value: int, width: int, negative: bool) -> int:
    """With a sign if it is to be negative, and with blanks on the left up to `width`."""
    count = 1
    power = 10
    while value >= power:
        count += 1
        if count == 20:
            # The next power would not fit into 64 bits.
            break
        power *= 10
    while width > count + negative:
        target[out] = 32
        out += 1
        width -= 1
    if negative:
        target[out] = 45
        out += 1
    return _fixed(target, out, value, count)


def _fixed(target: memoryview, out: int, value: int, count: int) -> int:
    """The last `count` decimal digits, two at a time."""
    at = out + count
    while at > out + 1:
        rest = value // 100
        memory.pair(target, at - 2, value - rest * 100)
        value = rest
        at -= 2
    if at > out:
        target[out] = 48 + value % 10
    return out + count


def _number(
    target: memoryview, out: int, value: int, width: int, radix: int, fill: int, negative: bool
) -> int:
    count = 1
    rest = value // radix
    while rest:
        count += 1
        rest //= radix
    if negative and fill == 48:
        target[out] = 45
        out += 1
    while width > count + negative:
        target[out] = fill
        out += 1
        width -= 1
    if negative and fill != 48:
        target[out] = 45
        out += 1
    at = out + count
    while at > out:
        at -= 1
        digit = value % radix
        target[at] = digit + 48 if digit < 10 else digit + 87
        value //= radix
    return out + count


def _hexadecimal(target: memoryview, out: int, value: int) -> int:
    shift = 60 if value >> 32 else 28
    while shift and not value >> shift:
        shift -= 4
    while shift >= 0:
        digit = value >> shift & 15
        target[out] = digit + 48 if digit < 10 else digit + 87
        out += 1
        shift -= 4
    return out


def _signed(target: memoryview, out: int, value: int, bits: int) -> int:
    """The highest of so many bits is the sign."""
    if value >> (bits - 1):
        return _decimal(target, out, (opcodes.ALL64 >> (64 - bits)) - value + 1, 0, True)
    return _decimal(target, out, value, 0, False)


def _micros(target: memoryview, out: int, value: int, bits: int) -> int:
    """Nanoseconds as "1.005us"; the highest of so many bits is the sign, unless it is 0."""
    negative = bits != 0 and value >> (bits - 1) != 0
    if negative:
        value = (opcodes.ALL64 >> (64 - bits)) - value + 1
    whole = value // 1000
    out = _decimal(target, out, whole, 0, negative)
    target[out] = 46
    out = _fixed(target, out + 1, value - whole * 1000, 3)
    target[out] = 117
    target[out + 1] = 115
    return out + 2


def _seconds(target: memoryview, out: int, elapsed: int, width: int) -> int:
    """Nanoseconds as "1.000000005", with blanks on the left up to `width`."""
    negative = elapsed < 0
    value = -elapsed if negative else elapsed
    whole = value // 1000000000
    out = _decimal(target, out, whole, width - 10, negative)
    target[out] = 46
    return _fixed(target, out + 1, value - whole * 1000000000, 9)
