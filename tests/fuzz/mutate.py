"""Mutations of bytes: what disks, networks and people do to them."""

from __future__ import annotations

import random
from collections.abc import Callable

_WORDS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x1F003, 0x2001F003)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """One to four mutations, one after another."""
    out = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        if not out:
            out += chance.randbytes(chance.randrange(1, 64))
        chance.choice(_MUTATIONS)(out, chance)
    return bytes(out)


def truncate(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def flip(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.randrange(1, 8)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def overwrite(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.randrange(1, 40)):
        data[chance.randrange(len(data))] = chance.randrange(256)


def delete(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    del data[at : at + chance.randrange(1, 200)]


def zero_a_sector(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data)) // 512 * 512
    data[at : at + 512] = bytes(min(512, len(data) - at))


def start_later(data: bytearray, chance: random.Random) -> None:
    del data[: chance.randrange(1, len(data) // 2 + 2)]


def repeat(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    piece = data[at : at + chance.randrange(1, 5000)]
    to = chance.randrange(len(data))
    data[to:to] = piece


def place_a_word(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data)) // 4 * 4
    data[at : at + 4] = chance.choice(_WORDS).to_bytes(4, "little")


def append(data: bytearray, chance: random.Random) -> None:
    data += chance.randbytes(chance.randrange(1, 300))


_MUTATIONS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    truncate, flip, overwrite, delete, zero_a_sector, start_later, repeat, place_a_word, append,
)  # fmt: skip
