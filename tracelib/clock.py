"""From cycles to time: exact integers in nanoseconds, for whole columns at once.

Where the rate comes from, best first: what the user says (--cpu-hz), what the file says,
what two clock anchors of the file imply. Without any of them, times are cycles: no guess.
Wall-clock time needs an anchor, and is piecewise linear from one anchor to the next.

numpy is loaded with the first column: the analysis has no columns, and does not wait for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tracelib.chunks import ClockAnchor, TraceInfo
from tracelib.errors import UsageError
from tracelib.units import Nanoseconds, Tsc

if TYPE_CHECKING:
    from tracelib.columns import I64, U64

_SECOND = 10**9
_NO_TIME = 1 << 63
"""In the year 2262: does not fit into the columns of times."""
_TOO_LONG = 1 << 61
"""Cycles between two anchors, some decades: `scale` cannot divide by more."""

MAX_HZ = 10**12
"""No time stamp counter is faster; what says so is damaged, and taken for not saying."""

NO_RATE_HINT = "this trace does not say its clock rate; give it with --cpu-hz, e.g. --cpu-hz 2.4G"


CYCLES = "cycles"
"""TraceInfo.tick of all traces but some of KVM's."""


def without_rate(info: TraceInfo) -> str:
    """In what times are, of a trace of which nobody knows the rate, and what would help."""
    if info.tick == CYCLES:
        return "cycles; the clock rate is not known (--cpu-hz)"
    return f"{info.tick}; the files do not tell which (--kvmtrace-layout)"


@dataclass(frozen=True, slots=True)
class Rate:
    """Cycles per second, and who says so."""

    hz: int
    source: str

    def __str__(self) -> str:
        return f"{self.hz} Hz ({self.source})"


def find_rate(info: TraceInfo, override: int | None = None) -> Rate | None:
    """The rate to use for a trace; None if nobody knows it."""
    if override is not None:
        return Rate(override, "--cpu-hz")
    if info.tsc_hz and info.tsc_hz <= MAX_HZ:
        return Rate(info.tsc_hz, info.tsc_source or "the trace")
    anchors = usable_anchors(info.anchors)
    if len(anchors) >= 2:
        cycles = anchors[-1].tsc - anchors[0].tsc
        elapsed = anchors[-1].monotonic - anchors[0].monotonic
        hz = (cycles * _SECOND + elapsed // 2) // elapsed if elapsed > 0 else 0
        if 0 < hz <= MAX_HZ:
            return Rate(hz, "clock anchors")
    return None


def usable_anchors(anchors: Sequence[ClockAnchor]) -> list[ClockAnchor]:
    """In time order, one for each TSC; without those whose time no clock has shown."""
    by_tsc = {anchor.tsc: anchor for anchor in anchors if 0 <= anchor.realtime < _NO_TIME}
    return [by_tsc[tsc] for tsc in sorted(by_tsc)]


@dataclass(frozen=True, slots=True)
class _Piece:
    """From one anchor on, `cycles` cycles are `elapsed` nanoseconds."""

    tsc: int
    realtime: int
    cycles: int
    elapsed: int


class Clock:
    """The time base of one trace: where its time starts, and how fast it runs."""

    def __init__(
        self, start: Tsc, rate: Rate | None, anchors: Sequence[ClockAnchor] = ()
    ) -> None:
        """`start` is the trace's first TSC, from which elapsed time counts."""
        self.start = start
        self.rate = rate
        self._pieces = _pieces(usable_anchors(anchors), rate)
        self._piece_tscs = [piece.tsc for piece in self._pieces]

    @property
    def dated(self) -> bool:
        """Whether wall-clock times are known."""
        return bool(self._pieces)

    def elapsed(self, tsc: U64) -> I64:
        """Nanoseconds since the start. Only with a rate."""
        assert self.rate is not None
        return scale(_difference(tsc, self.start), _SECOND, self.rate.hz)

    def realtime(self, tsc: U64) -> I64:
        """Nanoseconds since the Unix epoch. Only if `dated`."""
        import numpy as np

        tscs = np.array(self._piece_tscs, np.uint64)
        which = np.clip(np.searchsorted(tscs, tsc, side="right") - 1, 0, None)
        times = np.empty(len(tsc), np.int64)
        for number in np.flatnonzero(np.bincount(which)).tolist():
            piece = self._pieces[number]
            rows = which == number
            since = scale(_difference(tsc[rows], piece.tsc), piece.elapsed, piece.cycles)
            times[rows] = since + piece.realtime
        return times

    def tsc_at_elapsed(self, elapsed: Nanoseconds) -> Tsc:
        """The first TSC that is so long after the start. Raises UsageError without a rate."""
        if self.rate is None:
            raise UsageError("a time needs the clock rate", hint=NO_RATE_HINT)
        return _clamped(self.start - (-elapsed * self.rate.hz // _SECOND))

    def tsc_at_realtime(self, realtime: Nanoseconds) -> Tsc:
        """The first TSC at or after a wall-clock time. Raises UsageError if not `dated`."""
        if not self._pieces:
            raise UsageError(
                "this trace has no clock anchors: wall-clock times are unknown in it",
                hint="give a time since its first record, such as 2.5s"
                + (", and the clock rate: --cpu-hz 2.4G" if self.rate is None else ""),
            )
        number = bisect_right([piece.realtime for piece in self._pieces], realtime) - 1
        piece = self._pieces[max(number, 0)]
        return _clamped(piece.tsc - (-(realtime - piece.realtime) * piece.cycles // piece.elapsed))


def _pieces(anchors: Sequence[ClockAnchor], rate: Rate | None) -> list[_Piece]:
    """One from each anchor to the next, the last one going on as before."""
    pieces = [
        _Piece(a.tsc, a.realtime, b.tsc - a.tsc, b.realtime - a.realtime)
        for a, b in pairwise(anchors)
        if b.realtime > a.realtime and b.tsc - a.tsc < _TOO_LONG
    ]
    if not pieces and anchors and rate is not None:
        pieces = [_Piece(anchors[0].tsc, anchors[0].realtime, rate.hz, _SECOND)]
    return pieces


def _clamped(tsc: int) -> Tsc:
    return Tsc(min(max(tsc, 0), (1 << 64) - 1))


def _difference(tsc: U64, start: int) -> I64:
    """tsc - start, signed; right for everything less than 2**63 apart."""
    import numpy as np

    return (tsc - np.uint64(start)).view(np.int64)


def scale(values: I64, numerator: int, denominator: int) -> I64:
    """floor(values * numerator / denominator), exact although the product needs 128 bits.

    Long division in base 2**bits: what is carried over is below the denominator, so with
    bits small enough nothing overflows. Both must be positive; the denominator below 2**61.
    """
    # Not np.divmod: floor division by one number for all is several times faster.
    whole = values // denominator
    rest = values - whole * denominator
    bits = 62 - denominator.bit_length()
    digits = []
    left = numerator
    while left:
        digits.append(left & (1 << bits) - 1)
        left >>= bits
    product = rest * digits.pop()
    quotient = product // denominator
    while digits:
        product = ((product - product // denominator * denominator) << bits) + rest * digits.pop()
        quotient = (quotient << bits) + product // denominator
    return whole * numerator + quotient
