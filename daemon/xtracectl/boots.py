"""One boot of the hypervisor after the other: which of them a command is about."""

from __future__ import annotations

from collections.abc import Callable

from tracelib.chunks import TraceReader
from tracelib.errors import UsageError
from tracelib.kvmtrace.layout import Kind
from tracelib.reading import parts

Opener = Callable[[], TraceReader]


def chosen(
    path: str, boot: int | None, *, kvmtrace_layout: Kind | None = None
) -> list[Opener]:
    """What opens each part of an input, oldest boot first: all of them, or one. Boots count
    from 1, the oldest, or back from 0, the last. Raises StoreError; UsageError if there is no
    such boot."""
    found = parts(path, kvmtrace_layout=kvmtrace_layout)
    if boot is None:
        return list(found)
    index = boot - 1 if boot > 0 else boot + len(found) - 1
    if not 0 <= index < len(found):
        raise UsageError(
            f"{path}: there is no boot {boot}",
            hint=f"boots 1 to {len(found)} are in it; 0 is the last",
        )
    return [found[index]]


def refuse_several(path: str, number: int, what: str) -> None:
    """Raises UsageError if there is more than one boot in a file that can hold only one."""
    if number > 1:
        raise UsageError(
            f"{path}: {number} boots of the hypervisor, whose time stamps have nothing in common; "
            f"{what} can hold one",
            hint=f"choose one with --boot 1 to --boot {number}, or --boot 0 for the last",
        )
