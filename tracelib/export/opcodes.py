"""The steps of a line program, and where values come from (tracelib.export.engine).

A step is STEP numbers: the opcode and its operands. Those that write a value have the value's
place in operands 1 to 3: source, shift, bits. opcodes.pxd has the C twins.
"""

from __future__ import annotations

STEP = 8

END = 0
STOP = 1
"""The line is the caller's to write."""
BY_ARGUMENTS = 2
"""Look up another program, by bits 20-31 of the first extra word too."""
LITERAL = 3
"""Operands 1 and 2: start and end in the pool."""
DECIMAL = 4
SIGNED = 5
HEXADECIMAL = 6
ALIGNED = 7
"""Operand 4: width; blanks on the left."""
SECONDS = 8
"""Nanoseconds, signed, as seconds with nine decimals; operand 4: width; blanks on the left."""
MICROS = 9
"""Nanoseconds as microseconds with three decimals. Operand 4: the highest of how many bits is
the sign; 0 if there is none."""
UNLESS = 10
"""Operand 4: a value, 5 and 6: start and end in the pool. If the value is that one, write
what is in the pool and skip the next step."""
SPELLED = 11
"""Operand 4: number of the speller."""
PAIR = 12
"""Operands 4 to 6: place of a second value; 7: number of the speller, which gets both:
first << 32 | second."""
WALL = 13
"""Nanoseconds since 1970, with nine decimals. Operand 4: number of the speller, which gets
the whole seconds, as 64 bits."""
NUMBER = 14
"""Operand 4: width; 5: radix, up to 16; 6: the character that fills the width; 7: whether the
highest bit is a sign. A sign goes before zeros that fill, and behind blanks."""

WORD = 0
"""Sources 0 to 6 are extra words; 64 bits take the next word too."""
TSC = 8
ELAPSED = 9
REALTIME = 10
CPU = 11
RUNNING = 12
"""The columns of that name; shift and bits do not count."""

LOW32 = 0xFFFFFFFF
ALL64 = 0xFFFFFFFFFFFFFFFF
HASH_FACTOR = 0x9E3779B1

ENTRY = 4
"""Words of an entry in the engine's table: kind plus one (0: free), value, two results."""
TABLE_WORDS = ENTRY << 15
HASH_SHIFT = 32 - 15
