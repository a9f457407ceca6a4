"""Names of segment files: number, creation time, and whether it is still being written.

    00000042-20261130T220000Z.xtr         sealed
    00000042-20261130T220000Z.xtr.open    being written, or left by a crash

The number alone gives the order: clocks are set back, numbers are not. Files with any
other name are none of ours.
"""

from __future__ import annotations

import datetime
import re
from typing import NamedTuple

from tracelib.units import Nanoseconds

OPEN_SUFFIX = ".open"
FIRST_SEQUENCE = 1
_NAME = re.compile(r"(\d{8}|[1-9]\d{8,17})-(\d{8}T\d{6}Z)\.xtr(\.open)?\Z", re.ASCII)


class SegmentName(NamedTuple):
    """What a segment's file name says."""

    sequence: int
    created: str
    """UTC to the second, for people."""
    sealed: bool

    @property
    def text(self) -> str:
        """The file name."""
        return f"{self.sequence:08d}-{self.created}.xtr" + ("" if self.sealed else OPEN_SUFFIX)

    def as_sealed(self) -> SegmentName:
        """The same segment's name after its seal."""
        return self._replace(sealed=True)


def new_name(sequence: int, created_at: Nanoseconds) -> SegmentName:
    """The name under which a segment is created: an open one."""
    moment = datetime.datetime.fromtimestamp(created_at // 10**9, datetime.UTC)
    return SegmentName(sequence, moment.strftime("%Y%m%dT%H%M%SZ"), sealed=False)


def parse_name(text: str) -> SegmentName | None:
    """None if this is no segment's name."""
    match = _NAME.match(text)
    if match is None:
        return None
    return SegmentName(int(match[1]), match[2], sealed=match[3] is None)
