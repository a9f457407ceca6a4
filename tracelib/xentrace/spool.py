"""Pipes: merging by time reads its input in many places at once, and a pipe has only one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tracelib.segment.block import MAGIC
from tracelib.store import fsops
from tracelib.xentrace.decoder import WindowDecoder
from tracelib.xentrace.reader import READ_BYTES, named


def spool(descriptor: int, name: str) -> int:
    """Copy a pipe's rest to a file without a name; returns a descriptor for reading it.

    The file lies in $TMPDIR or /tmp and is gone with its descriptor. Raises StoreError, and
    FormatError as soon as it is clear that this is no trace, before a disk is filled with it.
    """
    path = Path(tempfile.gettempdir(), f"xtraced-{os.getpid()}-{os.urandom(8).hex()}")
    writer = fsops.create_exclusive(path, mode=0o600)
    try:
        with fsops.translated("open", path):
            reader = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        fsops.unlink(path)
        offset = 0
        try:
            for data in _checked(descriptor, name):
                fsops.write_all(writer, data, offset, path=path)
                offset += len(data)
        except BaseException:
            os.close(reader)
            raise
    finally:
        os.close(writer)
    return reader


def _checked(descriptor: int, name: str) -> Iterator[bytes]:
    """The pipe's data, decoded as far as its first window unless it is one of our segments."""
    decoder: WindowDecoder | None = WindowDecoder()
    start = True
    while True:
        with fsops.translated("read", Path(name)):
            data = os.read(descriptor, READ_BYTES)
        if not data:
            return
        if start and data.startswith(MAGIC):
            decoder = None
        start = False
        if decoder is not None:
            decoder.feed(data)
            with named(name):
                if decoder.next_event() is not None:
                    decoder = None
        yield data
