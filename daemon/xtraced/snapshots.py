"""Snapshots: sealed segments under a second name, where retention does not look for them.

A snapshot is a directory of hard links, a store like any other to those who read. It costs
nothing until retention deletes the segments' first names. Nobody deletes it but people.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tracelib.errors import StoreError, XtraceError
from tracelib.store import fsops
from tracelib.store.directory import SegmentEntry
from tracelib.store.segment import SegmentReader
from tracelib.units import Nanoseconds

DIRECTORY = "snapshots"
"""In the store; no segment's name, so it is left alone by everything else."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was kept."""

    path: str | None
    """None if no sealed segment is of that time."""
    segments: int = 0
    records: int = 0
    bytes: int = 0
    first: Nanoseconds | None = None
    last: Nanoseconds | None = None
    """From when to when, CLOCK_REALTIME."""


def take_snapshot(
    directory: Path, entries: Iterable[SegmentEntry], since: Nanoseconds | None,
    now: Nanoseconds, *, group: int | None,
) -> Snapshot:
    """Keep those of a store's sealed segments that reach to `since` or later; None: all.

    Runs in the writer's thread, so that none of them is deleted meanwhile. Raises StoreError,
    and leaves nothing half made.
    """
    chosen = [(entry, *_looked_at(entry)) for entry in entries]
    if since is not None:
        chosen = [one for one in chosen if one[2] is None or one[2][1] >= since]
    if not chosen:
        return Snapshot(None)
    moment = datetime.datetime.fromtimestamp(now // 10**9, datetime.UTC)
    name = f"{moment:%Y%m%dT%H%M%SZ}-{chosen[-1][0].sequence:08d}"
    target = directory / DIRECTORY / name
    _link(target, [entry for entry, _, _ in chosen], group)
    spans = [span for _, _, span in chosen if span is not None]
    return Snapshot(
        str(target), len(chosen), sum(records for _, records, _ in chosen),
        sum(entry.bytes for entry, _, _ in chosen),
        min((first for first, _ in spans), default=None),
        max((last for _, last in spans), default=None),
    )


def _looked_at(entry: SegmentEntry) -> tuple[int, tuple[Nanoseconds, Nanoseconds] | None]:
    """Records and time of a segment; one too damaged to tell is kept for sure."""
    try:
        with SegmentReader(entry.path) as segment:
            return sum(cpu.records for cpu in segment.totals.values()), segment.span
    except XtraceError:
        return 0, None


def _link(target: Path, entries: Iterable[SegmentEntry], group: int | None) -> None:
    fsops.make_directory(target.parent, group=group)
    # Under a hidden name until it is whole.
    unfinished = target.with_name(f".{target.name}")
    _remove(unfinished)
    fsops.make_directory(unfinished, group=group)
    try:
        for entry in entries:
            fsops.link(entry.path, unfinished / entry.path.name)
        fsops.sync_directory(unfinished)
        fsops.rename_noreplace(unfinished, target)
    except StoreError:
        _remove(unfinished)
        raise
    fsops.sync_directory(target.parent)


def _remove(directory: Path) -> None:
    """Of links, those that another attempt left."""
    with fsops.translated("clear", directory):
        if directory.is_dir():
            for path in directory.iterdir():
                path.unlink()
            directory.rmdir()
