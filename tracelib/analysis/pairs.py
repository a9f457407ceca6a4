# cython: annotation_typing=False, initializedcheck=False
"""VM exits, each with the entry that ends it, and what their handlers had to say.

A pair belongs to a vCPU: the exit may be on one CPU and the entry on another, with others
running in between. That time is not a cost of the exit; `states` adds it up beside it.
Compiled with the types in pairs.pxd.
"""

from __future__ import annotations

from tracelib.analysis import cells, codes
from tracelib.analysis.histograms import Histograms
from tracelib.analysis.notes import Notes
from tracelib.analysis.tables import Table
from tracelib.analysis.vcpus import Vcpu

_MOST_EXITS = 1 << 16
_MOST_TALLIES = 1 << 18
_MOST_HISTOGRAMS = 1 << 13
# C constants when compiled.
_EXIT_STRIDE = codes.KEYS + codes.EXIT_COLUMNS
_TALLY_STRIDE = codes.KEYS + codes.TALLY_COLUMNS


class Pairs:
    """Exits by owner and reason, and tallies of what else the guests did.

    An owner is the index of a vCPU, or whatever else the caller wants rows to be kept by.
    """

    def __init__(self, noted: int = 0) -> None:
        """`noted`: what to note event by event, a sum of codes.WANT_ bits."""
        self.exits = Table(codes.EXIT_COLUMNS, _MOST_EXITS)
        """(owner << KIND_BITS | kind, reason)."""
        self.tallies = Table(codes.TALLY_COLUMNS, _MOST_TALLIES)
        """(owner << 32 | kind of event, value)."""
        self.histograms = Histograms(_MOST_HISTOGRAMS)
        self.notes = Notes(noted)
        self.last_gap = 0
        """The end of the last gap in any CPU's records."""

    def exit(self, vcpu: Vcpu, owner: int, kind: int, reason: int, now: int) -> None:
        """The vCPU left guest mode."""
        if vcpu.exit_row != codes.NO_EXIT:
            self.cut(vcpu, codes.CUT_UNSEEN)
        row = self.exits.row(owner << codes.KIND_BITS | kind, reason)
        self.exits.cells[row * _EXIT_STRIDE + codes.KEYS + codes.SEEN] += 1
        vcpu.exit_row = row
        vcpu.exit_at = now
        vcpu.exit_runnable = 0
        vcpu.exit_blocked = 0
        vcpu.pending_count = 0

    def entry(self, vcpu: Vcpu, now: int) -> None:
        """The vCPU is back in guest mode: its exit, if there is one, is complete."""
        row = vcpu.exit_row
        if row == codes.NO_EXIT:
            vcpu.lone_entries += 1
            return
        off = vcpu.exit_runnable + vcpu.exit_blocked
        whole = now - vcpu.exit_at
        if off != 0 and self.last_gap >= vcpu.exit_at:
            # It may have entered and exited again on the CPU whose records are missing.
            self.cut(vcpu, codes.CUT_LOSS)
            return
        cycles = whole - off
        place = row * _EXIT_STRIDE + codes.KEYS
        counters = cells.address(self.exits.cells)
        counters[place + codes.PAIRED] += 1
        counters[place + codes.CYCLES] += cycles
        counters[place + codes.LONGEST] = max(counters[place + codes.LONGEST], cycles)
        counters[place + codes.OFF_RUNNABLE] += vcpu.exit_runnable
        counters[place + codes.OFF_BLOCKED] += vcpu.exit_blocked
        self.spread(self.exits, row, codes.EXIT_HISTOGRAM, cycles)
        if self.notes.wanted & codes.WANT_EXITS:
            self._note(vcpu, now, cycles)
        counters = cells.address(self.tallies.cells)
        for number in range(vcpu.pending_count):
            place = vcpu.pending[number] * _TALLY_STRIDE + codes.KEYS
            counters[place + codes.COSTED] += 1
            counters[place + codes.COST] += cycles
            counters[place + codes.OFF_CPU] += off
        vcpu.exit_row = codes.NO_EXIT

    def _note(self, vcpu: Vcpu, now: int, cycles: int) -> None:
        """The exit that is complete now, and what its handlers had to say."""
        for place in range(-1, vcpu.pending_count):
            tag = codes.EXITED if place < 0 else codes.HANDLED
            row = vcpu.exit_row if place < 0 else vcpu.pending[place]
            at = self.notes.add(tag, vcpu.index, vcpu.cpu, row, vcpu.exit_at)
            self.notes.cells[at] = now
            self.notes.cells[at + 1] = cycles
            self.notes.cells[at + 2] = vcpu.exit_address

    def spread(self, table: Table, row: int, column: int, cycles: int) -> None:
        """Note a duration in the histogram that a row's column has the number of."""
        number = table.cells[row * table.stride + codes.KEYS + column]
        if number == 0 and row != codes.OTHERS:
            number = self.histograms.new()
            table.add(row, column, number)
        self.histograms.note(number, cycles)

    def cut(self, vcpu: Vcpu, why: int) -> None:
        """The vCPU's exit will find no entry; `why` is one of the CUT columns."""
        if vcpu.exit_row != codes.NO_EXIT:
            self.exits.add(vcpu.exit_row, why, 1)
            vcpu.exit_row = codes.NO_EXIT

    def hand_over(self, nobody: Vcpu, vcpu: Vcpu, owner: int) -> None:
        """It turns out that `vcpu` made the open exit of an unknown one."""
        row = nobody.exit_row
        if row == codes.NO_EXIT or vcpu.exit_row != codes.NO_EXIT:
            return
        self.exits.cells[row * self.exits.stride + codes.KEYS + codes.SEEN] -= 1
        kind, reason = self.exits.keys(row)
        kind &= (1 << codes.KIND_BITS) - 1
        row = self.exits.row(owner << codes.KIND_BITS | kind, reason)
        self.exits.add(row, codes.SEEN, 1)
        vcpu.exit_row = row
        vcpu.exit_at = nobody.exit_at
        vcpu.exit_address = nobody.exit_address
        vcpu.exit_runnable = 0
        vcpu.exit_blocked = 0
        vcpu.pending_count = 0
        nobody.exit_row = codes.NO_EXIT

    def tally(self, owner: int, kind: int, value: int) -> int:
        """Count a record; the row it was counted in."""
        row = self.tallies.row(owner << 32 | kind, value)
        self.count(row)
        return row

    def count(self, row: int) -> None:
        """Count a record in a row of tallies."""
        self.tallies.cells[row * _TALLY_STRIDE + codes.KEYS + codes.COUNT] += 1

    def lasted(self, row: int, cycles: int) -> None:
        """What was counted in a row of tallies took so long."""
        self.tallies.add(row, codes.COSTED, 1)
        self.tallies.add(row, codes.COST, cycles)

    def handler(self, vcpu: Vcpu, owner: int, kind: int, value: int) -> None:
        """Count a record that belongs to the vCPU's open exit, and is to share its cost."""
        self.belongs(vcpu, self.tally(owner, kind, value))

    def belongs(self, vcpu: Vcpu, row: int) -> None:
        """What was counted in a row of tallies is to share the cost of the open exit, once."""
        for number in range(vcpu.pending_count):
            known = vcpu.pending[number]
            if known == row:
                return
        if vcpu.exit_row != codes.NO_EXIT and vcpu.pending_count < codes.PENDING:
            vcpu.pending[vcpu.pending_count] = row
            vcpu.pending_count += 1
