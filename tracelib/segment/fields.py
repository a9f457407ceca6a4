"""Typed access to the maps that metadata, notes and seals are packed as."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tracelib import packing
from tracelib.errors import DamageError

_T = TypeVar("_T")
_MAX_ITEMS = 1 << 16
"""In one array: more vCPUs than Xen allows, or anchors for 45 days."""


class Fields:
    """One map. Keys that nobody asks for are ignored, which is what lets newer writers add
    some; one that is missing or mistyped raises DamageError, naming it."""

    def __init__(self, value: object, what: str) -> None:
        if not isinstance(value, dict):
            raise DamageError(f"{what} is {_kind(value)}, not a map")
        self._map: Mapping[str, object] = value
        self._what = what

    @classmethod
    def unpack(cls, data: bytes | memoryview, what: str) -> Fields:
        """From msgpack bytes."""
        return cls(packing.unpack(data, max_items=_MAX_ITEMS), what)

    def value(self, key: str) -> object:
        """Whatever is there; raises if nothing is."""
        if key not in self._map:
            raise DamageError(f"{self._what} has no {key!r}")
        return self._map[key]

    def integer(self, key: str) -> int:
        """An integer from 0 up: nothing that is stored is ever negative."""
        return _integer(self.value(key), f"{self._what}: {key!r}")

    def text(self, key: str) -> str:
        value = self.value(key)
        if not isinstance(value, str):
            raise DamageError(f"{self._what}: {key!r} is {_kind(value)}, not text")
        return value

    def sequence(self, key: str) -> Sequence[object]:
        value = self.value(key)
        if not isinstance(value, list):
            raise DamageError(f"{self._what}: {key!r} is {_kind(value)}, not an array")
        return value

    def maps(self, key: str) -> list[Fields]:
        return [Fields(item, f"an item of {self._what}: {key!r}") for item in self.sequence(key)]

    def integers(self, key: str) -> tuple[int, ...]:
        what = f"an item of {self._what}: {key!r}"
        return tuple(_integer(item, what) for item in self.sequence(key))

    def texts(self, key: str) -> tuple[str, ...]:
        items = self.sequence(key)
        texts = tuple(item for item in items if isinstance(item, str))
        if len(texts) != len(items):
            raise DamageError(f"{self._what}: {key!r} holds more than text")
        return texts

    def rows(self, key: str, width: int) -> list[tuple[int, ...]]:
        """An array of arrays of integers. Columns beyond `width` are ignored: newer writers
        may add some."""
        what = f"{self._what}: {key!r}"
        return [_row(item, width, what) for item in self.sequence(key)]

    def optional(self, key: str, read: Callable[[str], _T]) -> _T | None:
        """`read(key)`, as in `fields.optional("host", fields.text)`; None for null or no key."""
        return None if self._map.get(key) is None else read(key)


def _integer(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise DamageError(f"{what} is {_kind(value)}, not a number from 0 up")
    return value


def _row(item: object, width: int, what: str) -> tuple[int, ...]:
    if not isinstance(item, list) or len(item) < width:
        raise DamageError(f"{what} holds a row that is not {width} numbers")
    return tuple(_integer(cell, what) for cell in item[:width])


def _kind(value: object) -> str:
    names = {dict: "a map", list: "an array", str: "text", bytes: "bytes", type(None): "null"}
    return names.get(type(value), repr(value))
