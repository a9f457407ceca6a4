# cython: annotation_typing=False, initializedcheck=False
"""Who runs where, and the state of every vCPU, through the merged records of all CPUs.

Every cycle of the span is added to exactly one state of each vCPU and to exactly one
occupant of each CPU, so the sums are the span. What was not seen is called that:

- before a vCPU's first record its state is unknown, unless the trace shows its domain being
  made: until then it was offline, and after that too if its first change is from there;
- a lost record makes the vCPU that ran there lost from the first record that is missing to
  the lost record, which says who runs then;
- while records of any CPU are missing, others' records go on to say what they know, but no
  spell, and no exit that was off its CPU, is known to be whole;
- a change from a state that the vCPU was not in, as far as seen, makes the time since its
  last change unknown. If the missing change turns up late, from another CPU, the two
  clocks disagree: the time goes to the state it belongs to, and the step is counted.

Compiled with the types in states.pxd.
"""

from __future__ import annotations

from tracelib.analysis import codes
from tracelib.analysis.pairs import Pairs
from tracelib.analysis.tables import Table
from tracelib.analysis.vcpus import Cpu, Vcpu

_MOST_VCPUS = 1 << 16
_MOST_ROWS = 1 << 18
_NOBODY = 0xFFFFFFFF
_NEVER = 0xFFFFFFFFFFFFFFFF


class States:
    """All vCPUs and CPUs."""

    def __init__(self, pairs: Pairs, *, by_cpu: bool = False) -> None:
        """`by_cpu` keeps exits and tallies by the CPU they were on instead of by vCPU."""
        self.pairs = pairs
        self.by_cpu = by_cpu
        self.start = 0
        """When the span starts; 0 until that is known."""
        self.started = False
        self.vcpus: list[Vcpu] = [Vcpu(_NOBODY, 0, 0)]
        """By index; the first stands for those that found no room."""
        self.spells = Table(codes.SPELL_COLUMNS, _MOST_ROWS)
        """Times in one state, from change to change: (index of the vCPU, kind)."""
        self.occupied = Table(1, _MOST_ROWS)
        """Cycles of (CPU, vCPU or CPU_ code)."""
        self.steps = Table(codes.SPELL_COLUMNS, _MOST_ROWS)
        """Clock disagreements: (CPU that is ahead, CPU that is behind)."""
        self._index = Table(0, _MOST_VCPUS)
        self._open_gaps = 0
        """How many CPUs' records are missing now. Until none are, `pairs.last_gap` is _NEVER:
        nothing that goes on is known to be whole."""
        self._last_gap = 0
        self._unscheduled = False
        """Whether there are vCPUs of which nothing says when they come and go: KVM's."""
        self._made: dict[int, int] = {}
        """When domains were made, of those whose making the trace shows."""

    def add_cpu(self, number: int) -> Cpu:
        """A CPU of which nothing is known yet."""
        nobody = self._named(1, number)
        nobody.cpu = number
        cpu = Cpu(number, nobody)
        cpu.time_row = self.occupied.row(number, codes.CPU_UNKNOWN)
        return cpu

    def vcpu(self, who: int) -> Vcpu:
        """The vCPU of this name; all that find no room are one."""
        return self._named(0, who)

    def owner(self, cpu: Cpu, vcpu: Vcpu) -> int:
        """By whom to keep what a vCPU does on a CPU."""
        return cpu.number if self.by_cpu else vcpu.index

    def seen_on(self, cpu: Cpu, vcpu: Vcpu) -> None:
        """A record of this CPU is of a vCPU of which nothing says when it comes and goes."""
        self._unscheduled = True
        self._moves_to(cpu, vcpu)

    # What records say

    def change(self, cpu: Cpu, who: int, old: int, new: int, now: int) -> None:
        """A runstate change."""
        if old > codes.OFFLINE or new > codes.OFFLINE:
            return
        vcpu = self.vcpu(who)
        if vcpu.newborn:
            vcpu.newborn = False
            if old == codes.OFFLINE and self.pairs.last_gap < vcpu.since:
                vcpu.state = codes.OFFLINE
        if vcpu.state <= codes.OFFLINE and (
            vcpu.state != old or (old == codes.RUNNING and vcpu.cpu != cpu.number)
        ):
            if self._explains(vcpu, cpu, old, new):
                self._settle(vcpu, cpu, old, now)
                return
            self._contradict(vcpu, cpu, old, now)
        if self.pairs.notes.wanted & codes.WANT_SPELLS:
            self._note_change(vcpu, cpu, new, now)
        self._spend(vcpu, now)
        if old == codes.RUNNING:
            self._leave(cpu, vcpu, now)
        vcpu.before = old
        vcpu.state = new
        vcpu.clean = True
        if new == codes.RUNNING:
            self._arrive(cpu, vcpu, now)

    def runs_on(self, cpu: Cpu, who: int, now: int) -> None:
        """The vCPU that runs on a CPU goes on doing so."""
        if cpu.current is not None and cpu.current.who == who:
            return
        vcpu = self.vcpu(who)
        if vcpu.state <= codes.OFFLINE:
            self._contradict(vcpu, cpu, codes.RUNNING, now)
        self._set(vcpu, codes.RUNNING, now)
        if cpu.unknown:
            self.pairs.hand_over(cpu.nobody, vcpu, self.owner(cpu, vcpu))
        self._arrive(cpu, vcpu, now)

    def gap(self, cpu: Cpu, first: int, last: int, who: int) -> None:
        """Records of a CPU from `first` to `last` are missing; `who` runs there then, or
        _NOBODY if that is not known."""
        if cpu.lost_since == _NEVER:
            self.gap_begins(cpu, min(first, last))
        self._gap_ends(cpu, last, who)

    def gap_begins(self, cpu: Cpu, first: int) -> None:
        """Records of a CPU are missing from `first` on; `gap` will say until when. Others'
        records are complete, but what a vCPU did here is not in them."""
        if cpu.lost_since != _NEVER:
            return
        cpu.lost_since = max(first, cpu.since)
        cpu.gone = None
        self._open_gaps += 1
        self.pairs.last_gap = _NEVER
        self._lose_current(cpu, cpu.lost_since)

    def _gap_ends(self, cpu: Cpu, last: int, who: int) -> None:
        if cpu.current is not None:
            # Of what only a segment says is missing, some may be there.
            self._lose_current(cpu, min(cpu.since, last))
        gone = cpu.gone
        first = min(cpu.lost_since, last)
        cpu.lost_since = _NEVER
        self._open_gaps -= 1
        self._last_gap = max(self._last_gap, last)
        if self._open_gaps == 0:
            self.pairs.last_gap = self._last_gap
        if gone is not None and gone.state == codes.LOST:
            self._set(gone, codes.UNKNOWN, last)
        self._occupy(cpu, None, codes.CPU_UNKNOWN, last)
        if who != _NOBODY:
            vcpu = self.vcpu(who)
            if vcpu.state == codes.RUNNING:
                self._contradict(vcpu, cpu, codes.RUNNING, last)
            elif vcpu.state <= codes.OFFLINE:
                self._lose(vcpu, first, last)
            self._set(vcpu, codes.RUNNING, last)
            self._arrive(cpu, vcpu, last)

    def create(self, domain: int, now: int) -> None:
        """A domain is being made: it has no vCPUs yet."""
        if domain not in self._made:
            self._made[domain] = now

    def remove(self, domain: int, now: int) -> None:
        """A domain is gone: its vCPUs are offline."""
        for vcpu in self.vcpus:
            if vcpu.who >> 16 == domain:
                self.pairs.cut(vcpu, codes.CUT_END)
                self._set(vcpu, codes.OFFLINE, now)

    # What is known from elsewhere

    def place(self, cpu: Cpu | None, who: int, state: int, now: int) -> None:
        """A segment's preamble says so. What records have told already counts more."""
        vcpu = self.vcpu(who)
        if vcpu.state != codes.UNKNOWN or state > codes.OFFLINE:
            return
        if state != codes.RUNNING:
            self._set(vcpu, state, now)
        elif cpu is not None and cpu.current is None:
            self._set(vcpu, state, now)
            vcpu.cpu = cpu.number
            self._occupy(cpu, vcpu, who, now)

    def open(self, now: int) -> None:
        """The span starts: with the first time stamp, or later to leave out what is earlier."""
        self.start = now
        self.started = True
        for vcpu in self.vcpus:
            vcpu.clean = False
            self._spend(vcpu, now)
            vcpu.since = now
            vcpu.exit_row = codes.NO_EXIT
            vcpu.reset_counts()

    def reset(self) -> None:
        """Forget what was counted, not what is going on."""
        for column in range(codes.SPELL_HISTOGRAM):
            self.spells.zero(column)
            self.steps.zero(column)
        for column in range(codes.EXIT_HISTOGRAM):
            self.pairs.exits.zero(column)
        for column in range(codes.TALLY_COLUMNS):
            self.pairs.tallies.zero(column)
        self.occupied.zero(0)
        self.pairs.histograms.zero()

    def finish(self, now: int) -> None:
        """The span ends."""
        for vcpu in self.vcpus:
            vcpu.clean = False
            self._spend(vcpu, now)
            self.pairs.cut(vcpu, codes.CUT_END)

    def finish_cpu(self, cpu: Cpu, now: int) -> None:
        """The span ends for a CPU too."""
        lost = cpu.lost_since != _NEVER
        self._occupy(cpu, cpu.current, codes.CPU_LOST if lost else codes.CPU_UNKNOWN, now)

    # Parts

    def _lose_current(self, cpu: Cpu, now: int) -> None:
        """What goes on here is not known to go on."""
        gone = cpu.current
        self.pairs.cut(cpu.nobody, codes.CUT_LOSS)
        self._occupy(cpu, None, codes.CPU_LOST, now)
        if self._unscheduled:
            self._cut_all(cpu)
        if gone is not None and gone.cpu == cpu.number and gone.state == codes.RUNNING:
            self.pairs.cut(gone, codes.CUT_LOSS)
            self._set(gone, codes.LOST, now)
            cpu.gone = gone

    def _cut_all(self, cpu: Cpu) -> None:
        """Any vCPU last seen here may have entered, and exited again, unseen."""
        for vcpu in self.vcpus:
            if vcpu.cpu == cpu.number:
                self.pairs.cut(vcpu, codes.CUT_LOSS)

    def _named(self, kind: int, name: int) -> Vcpu:
        index = self._index.row(kind, name)
        if index == len(self.vcpus):
            vcpu = Vcpu(_NOBODY if kind else name, index, self.start)
            self.vcpus.append(vcpu)
            made = -1 if kind else self._made.get(name >> 16, -1)
            if made >= 0:
                vcpu.newborn = True
                vcpu.since = max(made, self.start)
                vcpu.times[codes.OFFLINE] = vcpu.since - self.start
        return self.vcpus[index]

    def _spend(self, vcpu: Vcpu, now: int) -> None:
        """Account for the time since the last change."""
        if now < vcpu.since:
            return
        cycles = now - vcpu.since if self.started else 0
        vcpu.times[vcpu.state] += cycles
        if vcpu.exit_row != codes.NO_EXIT:
            if vcpu.state == codes.RUNNABLE:
                vcpu.exit_runnable += cycles
            elif vcpu.state != codes.RUNNING:
                vcpu.exit_blocked += cycles
        if vcpu.clean and self.pairs.last_gap < vcpu.since:
            self._note_spell(vcpu, cycles)
        vcpu.since = now

    def _note_change(self, vcpu: Vcpu, cpu: Cpu, new: int, now: int) -> None:
        """The spell that ends, if it was seen from its beginning and untouched by losses."""
        if not vcpu.clean or self.pairs.last_gap >= vcpu.since or now < vcpu.since:
            return
        what = vcpu.before << 8 | vcpu.state << 4 | new
        at = self.pairs.notes.add(codes.SPELL, vcpu.index, cpu.number, what, vcpu.since)
        self.pairs.notes.cells[at] = now

    def _note_spell(self, vcpu: Vcpu, cycles: int) -> None:
        if vcpu.state == codes.RUNNING:
            kind = codes.RAN
        elif vcpu.state == codes.BLOCKED:
            kind = codes.SLEPT
        elif vcpu.state != codes.RUNNABLE:
            return
        elif vcpu.before == codes.RUNNING:
            kind = codes.PREEMPTED
        else:
            kind = codes.WOKEN
        row = self.spells.row(vcpu.index, kind)
        self.spells.add(row, codes.NUMBER, 1)
        self.spells.add(row, codes.SUM, cycles)
        self.spells.raise_to(row, codes.MOST, cycles)
        self.pairs.spread(self.spells, row, codes.SPELL_HISTOGRAM, cycles)

    def _set(self, vcpu: Vcpu, state: int, now: int) -> None:
        """A new state that was not seen to begin."""
        vcpu.clean = False
        vcpu.newborn = False
        self._spend(vcpu, now)
        vcpu.before = vcpu.state
        vcpu.state = state

    def _lose(self, vcpu: Vcpu, first: int, last: int) -> None:
        """Nothing is known of it from `first` to `last`, nor after."""
        self.pairs.cut(vcpu, codes.CUT_LOSS)
        self._set(vcpu, codes.LOST, first)
        self._set(vcpu, codes.UNKNOWN, last)

    def _occupy(self, cpu: Cpu, vcpu: Vcpu | None, code: int, now: int) -> None:
        """A CPU has a new occupant, for whom `code` stands in `occupied`."""
        if now > cpu.since:
            if self.started:
                self.occupied.add(cpu.time_row, 0, now - cpu.since)
            cpu.since = now
        if vcpu is not None:
            code = vcpu.who
        cpu.time_row = self.occupied.row(cpu.number, code)
        cpu.current = vcpu
        cpu.unknown = code == codes.CPU_UNKNOWN
        self.pairs.cut(cpu.nobody, codes.CUT_UNSEEN)

    def _leave(self, cpu: Cpu, vcpu: Vcpu, now: int) -> None:
        self._moves_to(cpu, vcpu)
        if cpu.current is not vcpu:
            if cpu.unknown:
                # Nobody left since records are complete here: it was this one all along.
                self.pairs.hand_over(cpu.nobody, vcpu, self.owner(cpu, vcpu))
            self._displace(cpu, now)
        self._occupy(cpu, None, codes.CPU_SWITCH, now)

    def _arrive(self, cpu: Cpu, vcpu: Vcpu, now: int) -> None:
        if cpu.current is not vcpu:
            self._displace(cpu, now)
        self._moves_to(cpu, vcpu)
        self._occupy(cpu, vcpu, vcpu.who, now)

    def _moves_to(self, cpu: Cpu, vcpu: Vcpu) -> None:
        """It runs here, or did until now."""
        if vcpu.cpu != cpu.number:
            vcpu.moves += vcpu.cpu != codes.NOWHERE
            vcpu.cpu = cpu.number

    def _displace(self, cpu: Cpu, now: int) -> None:
        """Somebody else runs here: whoever did left unseen."""
        gone = cpu.current
        if gone is not None and gone.cpu == cpu.number and gone.state == codes.RUNNING:
            self.pairs.cut(gone, codes.CUT_UNSEEN)
            self._set(gone, codes.UNKNOWN, now)

    # Contradictions

    def _contradict(self, vcpu: Vcpu, cpu: Cpu, old: int, now: int) -> None:
        """A change to `old` is missing: nothing is known since the last one."""
        self.pairs.cut(vcpu, codes.CUT_UNSEEN)
        cycles = now - vcpu.since if now > vcpu.since else 0
        vcpu.contradictions += 1
        vcpu.doubt = True
        vcpu.doubt_from = vcpu.state
        vcpu.doubt_to = old
        vcpu.doubt_cycles = cycles
        vcpu.doubt_at = now
        vcpu.doubt_cpu = cpu.number
        vcpu.state = codes.UNKNOWN
        vcpu.clean = False
        self._spend(vcpu, now)

    def _explains(self, vcpu: Vcpu, cpu: Cpu, old: int, new: int) -> bool:
        """Whether this is the change that was missing, come late from another CPU."""
        return (
            vcpu.doubt and vcpu.doubt_from == old and vcpu.doubt_to == new
            and vcpu.doubt_cpu != cpu.number
        )

    def _settle(self, vcpu: Vcpu, cpu: Cpu, old: int, now: int) -> None:
        """The clocks disagree: at `doubt_at`, by the other CPU's, it was `now` here."""
        vcpu.doubt = False
        vcpu.contradictions -= 1
        vcpu.times[codes.UNKNOWN] -= vcpu.doubt_cycles
        vcpu.times[old] += vcpu.doubt_cycles
        row = self.steps.row(cpu.number, vcpu.doubt_cpu)
        self.steps.add(row, codes.NUMBER, 1)
        self.steps.add(row, codes.SUM, now - vcpu.doubt_at)
        self.steps.raise_to(row, codes.MOST, now - vcpu.doubt_at)
        if old == codes.RUNNING and cpu.current is vcpu:
            self._occupy(cpu, None, codes.CPU_SWITCH, now)
