"""Compressed files are told apart from damaged ones: nothing here reads them."""

from __future__ import annotations

from tracelib.errors import FormatError

_MAGIC = {
    b"\xfd7zXZ\x00": ("xz", "xz"),
    b"\x1f\x8b\x08": ("gzip", "gzip"),
    b"\x28\xb5\x2f\xfd": ("Zstandard", "zstd"),
    b"BZh": ("bzip2", "bzip2"),
    b"\x04\x22\x4d\x18": ("LZ4", "lz4"),
}
"""How such a file begins; its name, and the program that undoes it."""

LOOK_BYTES = max(map(len, _MAGIC))


def refuse(start: bytes, name: str) -> None:
    """Raises FormatError if a file that begins so is compressed; `name` is "-" for one that
    has none."""
    for magic, (kind, program) in _MAGIC.items():
        if start.startswith(magic):
            source = "..." if name == "-" else name
            raise FormatError(
                f"compressed ({kind})", file=name, offset=0,
                hint=f"decompress it on the way: {program} -dc {source} | xtracectl dump -",
            )
