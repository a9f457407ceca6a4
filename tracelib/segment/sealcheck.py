"""Comparing a seal with the blocks that it sums up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracelib.chunks import ClockAnchor
from tracelib.segment.index import Index, IndexEntry, Tally
from tracelib.segment.seal import Seal


def check_seal(
    seal: Seal, tally: Tally, anchors: Sequence[ClockAnchor], *, damaged: bool
) -> Iterator[str]:
    """What the seal says wrongly. If blocks are `damaged`, sums cannot be compared, and index
    entries without a block are expected."""
    yield from _check_index(seal.index, tally.index, damaged=damaged)
    if damaged:
        return
    if list(seal.anchors) != list(anchors):
        yield f"the seal has {len(seal.anchors)} anchors, not the {len(anchors)} of the blocks"
    for cpu in sorted(seal.cpus.keys() | tally.cpus.keys()):
        said, found = seal.cpus.get(cpu), tally.cpus.get(cpu)
        if said is None or found is None:
            yield f"CPU {cpu} is only in the {'seal' if found is None else 'blocks'}"
            continue
        for name in said._fields:
            if getattr(said, name) != getattr(found, name):
                yield (
                    f"the seal says {getattr(said, name)} for CPU {cpu}'s {name}, "
                    f"the blocks {getattr(found, name)}"
                )


def _check_index(said: Index, found: Index, *, damaged: bool) -> Iterator[str]:
    """Both are in file order."""
    if said.packed == found.packed:
        return
    at = 0
    for entry in found:
        while at < len(said) and said[at].offset < entry.offset:
            yield from _missing(said[at], damaged=damaged)
            at += 1
        if at == len(said) or said[at].offset != entry.offset:
            yield f"the block at {entry.offset} is not in the index"
            continue
        if said[at] != entry:
            yield f"the index entry of the block at {entry.offset} differs from its header"
        at += 1
    for rest in range(at, len(said)):
        yield from _missing(said[rest], damaged=damaged)


def _missing(entry: IndexEntry, *, damaged: bool) -> Iterator[str]:
    if not damaged:
        yield f"the index has a block at {entry.offset} where there is none"
