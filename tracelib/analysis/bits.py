"""How many bits a number takes: in C one instruction (bits.pxd), here a method of int."""

from __future__ import annotations


def length(value: int) -> int:
    """The position of the highest bit that is set, counted from 1; 0 for 0."""
    return value.bit_length()
