"""Signals as a process finds them whose parent ignores none."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def none_ignored() -> Iterator[None]:
    """What is ignored stays so in children: whoever runs the tests in the background ignores
    some, and so does a service that a test before this one has run in this process."""
    before = [(number, signal.signal(number, signal.default_int_handler)) for number in ENDING]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
