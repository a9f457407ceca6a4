"""Plain values as msgpack bytes and back: the only module that imports msgpack.

Plain means None, bool, int, float, str, bytes, list and dict with str keys. A bare msgpack
stream decodes most bit flips without an error and ends silently when cut, so everything
packed here is framed with its length and, on disk, checksummed by the caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it ships no annotations

from tracelib.errors import DamageError

MAX_ITEMS = 1 << 20
MAX_DEPTH = 16


def pack(value: object) -> bytes:
    """One value as msgpack; a tuple becomes a list. Raises TypeError for anything not plain.

    File names that are not UTF-8 keep their bytes (surrogateescape, as os.fsdecode has them).
    """
    packed: bytes = msgpack.packb(value, use_bin_type=True, unicode_errors="surrogateescape")
    return packed


def unpack(
    data: bytes | bytearray | memoryview, *, max_items: int = MAX_ITEMS, max_depth: int = MAX_DEPTH
) -> Any:
    """The one value that `data` holds, whole and nothing more.

    `max_items` bounds each array and map: msgpack allocates what a header announces before
    it sees the items, and nesting multiplies that. Raises DamageError for everything that
    is not a plain value within the limits.
    """
    items = min(len(data), max_items)
    try:
        value = msgpack.unpackb(
            data, raw=False, strict_map_key=True, unicode_errors="surrogateescape",
            ext_hook=_refuse_extension, max_array_len=items, max_map_len=items,
        )
    except (ValueError, msgpack.UnpackException) as exc:
        # ValueError covers limits, odd keys, nesting beyond msgpack's own stack, cut input.
        raise DamageError(f"not a packed value: {str(exc) or type(exc).__name__}") from exc
    _check_plain(value, max_depth)
    return value


def _refuse_extension(code: int, _data: bytes) -> object:
    raise ValueError(f"extension type {code}")


def _check_plain(value: object, depth: int) -> None:
    inner: Iterable[object]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise DamageError("not a packed value: a key that is not a string")
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    elif isinstance(value, msgpack.Timestamp):
        # msgpack decodes its own extension -1 without asking ext_hook.
        raise DamageError("not a packed value: extension type -1")
    else:
        return
    if depth == 0:
        raise DamageError("not a packed value: nested too deeply")
    for item in inner:
        _check_plain(item, depth - 1)
