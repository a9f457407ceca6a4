# cython: annotation_typing=False, initializedcheck=False
"""What is known of one vCPU and of one CPU at a moment: state, no behaviour.

Times are in cycles; a moment is a place in the merged order of all CPUs, so it never goes
back. `states` and `pairs` work on these; compiled with the types in vcpus.pxd.
"""

from __future__ import annotations

from array import array

from tracelib.analysis import codes
from tracelib.ring import shared

_NEVER = 0xFFFFFFFFFFFFFFFF
_NO_WORDS = memoryview(array("I", [0]))


class Vcpu:
    """One vCPU. Also made for each CPU, to stand for whoever runs there unknown to us."""

    def __init__(self, who: int, index: int, start: int) -> None:
        """`who` is domain << 16 | number, in which a domain from units.PROCESSES on is a process;
        `index` names it in keys of tables."""
        self.who = who
        self.index = index
        self.state = codes.UNKNOWN
        self.before = codes.UNKNOWN
        """The state before this one."""
        self.since = start
        self.clean = False
        """Whether the present state was seen to begin."""
        self.newborn = False
        """Whether nothing is known of it but when its domain was made, which was at `since`."""
        self.cpu = codes.NOWHERE
        """Where it runs or ran last."""
        self.moves = 0
        self.contradictions = 0
        """Changes from a state that it was not in, as far as seen."""
        self.times = memoryview(array("Q", bytes(8 * codes.STATES)))
        """Cycles in each state."""

        # The exit that waits for its entry (pairs).
        self.exit_row = codes.NO_EXIT
        self.exit_at = 0
        self.exit_address = 0
        """Where in the guest, if exits are noted one by one."""
        self.exit_runnable = 0
        self.exit_blocked = 0
        """Cycles off the CPU since the exit: waiting for one; and all other."""
        self.pending = memoryview(array("Q", bytes(8 * codes.PENDING)))
        self.pending_count = 0
        self.lone_entries = 0
        """Entries whose exit was not seen."""

        # A change that must have happened and has not been seen yet (states).
        self.doubt = False
        self.doubt_from = codes.UNKNOWN
        self.doubt_to = codes.UNKNOWN
        self.doubt_cycles = 0
        self.doubt_at = 0
        self.doubt_cpu = codes.NOWHERE
        """Where the record came from that raised the doubt."""

    def reset_counts(self) -> None:
        """Forget what was added up, not what is going on."""
        for state in range(codes.STATES):
            self.times[state] = 0
        self.moves = self.contradictions = self.lone_entries = 0
        self.doubt = False


class Cpu:
    """One physical CPU, and the records of it that are loaded."""

    def __init__(self, number: int, nobody: Vcpu) -> None:
        self.number = number
        self.current: Vcpu | None = None
        """Who runs here, if known."""
        self.nobody = nobody
        """Stands for whoever runs here while that is unknown."""
        self.unknown = True
        """Nobody knows who runs here: this is no moment between two vCPUs."""
        self.since = 0
        self.lost_since = _NEVER
        """From when on records of it are missing, while they are."""
        self.gone: Vcpu | None = None
        """Who ran here then, if known."""
        self.time_row = 0
        """The row where the present occupant's time is added up."""

        self.key = 0
        """The highest TSC so far; 0 before the first."""
        self.next_key = 0
        """That of the next record."""
        self.tsc = 0
        self.dated = False
        """Whether a record of it had a time stamp yet."""
        self.steps_back = 0
        """How often its TSC went back."""
        self.wraps = 0
        self.held = _NO_WORDS
        self.data = shared.address(_NO_WORDS)
        """The loaded words, and in C where they are."""
        self.recent = memoryview(array("I", bytes(8 << codes.RECENT_BITS)))
        """Headers that occurred, and the rows where they are counted."""
        self.bin = 0
        self.bin_end = 0
        """Where the volume is counted now, and until when."""
        self.at = 0
        self.end = 0
        """Where the next record lies, and the loaded words end."""
