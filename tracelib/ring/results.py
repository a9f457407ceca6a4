"""What fastpath's functions return, as plain values."""

from __future__ import annotations

from typing import NamedTuple

DRAINED = 0
EMPTY = 1
BAD_INDEXES = 2
NO_ROOM = 3
"""What a drain can come to: Drain.status."""


class Drain(NamedTuple):
    """What one drain of one ring did. Counts are of records in the payload: wrap fillers
    and CPU changes are not counted, lost records are."""

    status: int
    """DRAINED, EMPTY, BAD_INDEXES or NO_ROOM (not even the first record fits)."""
    cons: int
    prod: int
    """Both indexes as they were read, once, before."""
    new_cons: int
    """What is published, or to be; equals `cons` when nothing was taken."""
    payload_bytes: int = 0
    """Whole records copied to the destination, wrap fillers among them."""
    records: int = 0
    lost_marks: int = 0
    """How many of the records are lost records, of whatever shape."""
    lost: int = 0
    """Sum of the counts in them."""
    lost_first_tsc: int = 0
    """When the first was lost, as far as a lost record says so; else 0."""
    lost_last_tsc: int = 0
    """Time stamp of the last lost record; 0 if none has one."""
    first_tsc: int = 0
    last_tsc: int = 0
    """First and last time stamp in the payload; 0 if no record carries one."""
    corrupt_bytes: int = 0
    """Rest of the waiting span, skipped because the chain of records breaks there."""
    malformed_lost: int = 0
    """Lost records of neither known shape; what they lost is in no count."""


class Scan(NamedTuple):
    """The same counts over records already in memory."""

    stop: int
    """Word where the chain of records broke or was cut; the end if neither."""
    records: int
    wraps: int
    lost_marks: int
    lost: int
    lost_first_tsc: int
    lost_last_tsc: int
    first_tsc: int
    last_tsc: int
    malformed_lost: int
