"""`dump -f`: reading on as the store grows, until a signal says that it is enough."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracelib.errors import ServiceError, UsageError
from tracelib.store.reader import StoreReader
from xtracectl.client import Client
from xtracectl.dump.dumping import Dump
from xtracectl.inputs import warn
from xtracectl.stopping import Stopped

INTERVAL = 1.0
"""Seconds between two looks."""


class Flusher:
    """Asks the service to put what is in the rings on disk now, as long as it answers."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._gave_up = False

    def flush(self) -> None:
        """Never raises: without the service, what it writes by itself is shown."""
        if self._gave_up:
            return
        try:
            with Client(self._socket) as client:
                client.ask("flush")
        except ServiceError as error:
            self._gave_up = True
            warn(f"not flushing: {error.message}; records appear when the service writes them")


class Ending:
    """What a signal means: when following it is the normal end, else it breaks off."""

    def __init__(self, *, normal: bool) -> None:
        self._normal = normal
        self.reached = False

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Run a part that a signal may end."""
        try:
            yield
        except Stopped:
            if not self._normal:
                raise
            self.reached = True


def follow(reader: object, dump: Dump, socket: Path) -> None:
    """Show what comes, in time order within each look. Raises UsageError for anything that
    does not grow."""
    if not isinstance(reader, StoreReader):
        raise UsageError("only a store can be followed", hint="name its directory")
    flusher = Flusher(socket)
    while dump.left != 0:
        flusher.flush()
        dump.more(reader.new_chunks(), reader.new_losses)
        time.sleep(INTERVAL)
