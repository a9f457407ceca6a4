# cython: annotation_typing=False, initializedcheck=False
"""The simulated guests: virtual CPUs that are scheduled, exit, make hypercalls, and leave
the records that Xen would, in Xen's order.

Each physical CPU is a small machine of its own: a clock in cycles, random numbers, a run
queue, and a debt in cycles. Every record adds to the debt what its bytes are worth at the
wanted rate; guests computing and CPUs idling pay it off. So the rate comes out right, and
what a guest does between two records takes plausible time. CPUs meet at the end of each
round, where vCPUs may move; so nothing a vCPU does is ever out of order.

Facts are counted where they happen, in clock time without any CPU's skew. Compiled with
the types in engine.pxd; the same seed gives the same records either way.
"""

from __future__ import annotations

from array import array

from tracelib.ring.producer import Host, RingProducer
from xtraced.sources.sim import headers
from xtraced.sources.sim.guests import ExitRow, shares

COMPILED = not __file__.endswith((".py", ".pyc"))

# C constants when compiled, by their types in engine.pxd.
_LOW_WORD = 0xFFFFFFFF
_KERNEL = 0x81000000  # the low word of a Linux kernel's addresses, and the high one
_HIGH_RIP = 0xFFFFFFFF
_LAPIC = 0xFEE00000
_ALL_BITS = 0xFFFFFFFFFFFFFFFF
_RANDOM_FACTOR = 0x2545F4914F6CDD1D
_NEVER = 0xFFFFFFFFFFFFFFFF
_NO_BUDGET = 0x80000000  # csched2's word for it
_SLICE_NS = 2_000_000
_ROWS = 16
_CALLS = 64
_RUNNING = 0
_RUNNABLE = 1
_BLOCKED = 2
_IDLE = 0
_HVM = 2
_NO_EXIT = -1
_DEEPEST_DEBT = -(1 << 40)


class Vcpu:
    """One virtual CPU and what it did. Times are clock cycles."""

    def __init__(self, domain: int, number: int, kind: int, wide: bool) -> None:
        self.domain = domain
        self.number = number
        self.kind = kind
        self.wide = wide
        self.who = domain << 16 | number
        self.state = _RUNNABLE
        self.since = 0
        self.wake_at = 0
        self.credit = 10_500_000
        self.exit_row = _NO_EXIT
        self.exit_at = 0
        self.exit_left = 0
        self.exit_away = 0
        self.reset_counts()

    def reset_counts(self) -> None:
        """Forget what was counted, not what is going on."""
        self.running = self.runnable = self.blocked = 0
        self.changes = 0
        self._exits = array("Q", bytes(8 * 3 * _ROWS))
        self._calls = array("Q", bytes(8 * 2 * _CALLS))

    def exits(self) -> list[tuple[int, int, int]]:
        """By row of the exit table: exits with their entry, cycles of them on a CPU, and
        cycles in all."""
        return [
            (self._exits[3 * row], self._exits[3 * row + 1], self._exits[3 * row + 2])
            for row in range(_ROWS)
        ]

    def hypercalls(self) -> list[tuple[int, int]]:
        """By hypercall number: how often, and how often inside a multicall."""
        return [(self._calls[2 * call], self._calls[2 * call + 1]) for call in range(_CALLS)]


class Cpu:
    """One physical CPU: its clock, its ring, its run queue."""

    def __init__(self, number: int, ring: RingProducer, price: int, skew: int, seed: int) -> None:
        self.number = number
        self.ring = ring
        self.price = price
        self.skew = skew
        self.shift = skew
        self.random = seed
        self.clock = 0
        self.debt = 0
        self.slice_end = 0
        self.slice_began = 0
        self.next_wake = _NEVER
        self.idle = Vcpu(0x7FFF, number, _IDLE, True)
        self.idle.state = _RUNNING
        self.current = self.idle
        self.queue: list[Vcpu] = []


class Engine:
    """All CPUs together. `price` is in 1/256 cycles a byte, `hz` cycles a second."""

    def __init__(self, host: Host, hz: int, exits: list[ExitRow], exit_minor: int) -> None:
        """`exit_minor` is what a VMEXIT's event ends in: 2 for VMX, 3 for SVM."""
        self.host = host
        self.cpus: list[Cpu] = []
        self.vcpus: list[Vcpu] = []
        self.now = 0
        self.offset = 0
        self._stamp = 0
        self._round = hz // 4000
        self._random = 1
        self._exit_minor = exit_minor
        self._guest = 0
        self._reasons = array("I", [row.reason for row in exits])
        self._costs = array("I", [row.cycles for row in exits])
        self._handlers = array("I", [row.handler for row in exits])
        self._firsts = array("I", [row.first for row in exits])
        self._spreads = array("I", [row.spread for row in exits])
        self._picks = array("I", shares([row.weight for row in exits]))

    def add_cpu(self, number: int, ring: RingProducer, price: int, skew: int, seed: int) -> Cpu:
        """A CPU whose records are to come at one byte per price/256 cycles."""
        cpu = Cpu(number, ring, price, skew, seed)
        ring.current = 0x7FFF | number << 16
        self.cpus.append(cpu)
        return cpu

    def add_vcpu(self, domain: int, number: int, kind: int, wide: bool, cpu: Cpu) -> None:
        """A vCPU that starts in this CPU's queue; `wide` is a guest in 64-bit mode."""
        vcpu = Vcpu(domain, number, kind, wide)
        self._guest = domain
        self.vcpus.append(vcpu)
        cpu.queue.append(vcpu)
        cpu.next_wake = 0

    def skip(self, cycles: int) -> None:
        """Let the TSC go on by so many cycles in which nothing happened."""
        self.offset += cycles
        for cpu in self.cpus:
            cpu.shift += cycles

    def run(self, until: int) -> None:
        """Run whole rounds while they begin before the clock time `until`.

        Stops after a round that raised an event, so that the caller delivers it in time,
        and when tracing is off.
        """
        while self.now < until and self.host.enabled:
            raised = self.host.raised
            self.now += self._round
            for cpu in self.cpus:
                while cpu.clock < self.now:
                    self._step(cpu)
            self._migrate()
            if self.host.raised != raised:
                return

    def _step(self, cpu: Cpu) -> None:
        """One thing that happens on a CPU."""
        if cpu.current.kind == _IDLE:
            self._sleep(cpu)
        elif cpu.current.kind == _HVM:
            self._guest_exit(cpu)
        else:
            self._think(cpu)
            if cpu.next_wake <= cpu.clock:
                self._wake(cpu)
            if cpu.slice_end <= cpu.clock:
                self._reschedule(cpu, _RUNNABLE)
            else:
                self._pv_entry(cpu, _next(cpu))

    # What a CPU does when no guest runs

    def _sleep(self, cpu: Cpu) -> None:
        """The idle vCPU: a power state until somebody wakes."""
        state = 1 + (_next(cpu) & 1)
        ticks = _tsc(cpu) >> 6 & _LOW_WORD
        self._put(cpu, headers.PM_IDLE_ENTRY, state, ticks, 200, 150)
        self._think(cpu)
        if cpu.clock < cpu.next_wake and cpu.next_wake != _NEVER:
            _spend(cpu, cpu.next_wake - cpu.clock)
        ticks = _tsc(cpu) >> 6 & _LOW_WORD
        self._put(cpu, headers.PM_IDLE_EXIT, state, ticks)
        self._interrupt(cpu)
        if cpu.next_wake <= cpu.clock:
            self._wake(cpu)
            self._reschedule(cpu, _RUNNABLE)

    def _interrupt(self, cpu: Cpu) -> None:
        """A device's interrupt, handled by Xen."""
        began = _tsc(cpu) & _LOW_WORD
        _spend(cpu, 300)
        ended = _tsc(cpu) & _LOW_WORD
        self._put(cpu, headers.IRQ_HANDLED, 16 + (_next(cpu) & 15), began, ended)

    # Scheduling: credit2's records, then the runstate changes

    def _wake(self, cpu: Cpu) -> None:
        """Wake every vCPU of this queue whose time has come."""
        cpu.next_wake = _NEVER
        for vcpu in cpu.queue:
            if vcpu.state != _BLOCKED:
                continue
            if vcpu.wake_at > cpu.clock:
                cpu.next_wake = min(cpu.next_wake, vcpu.wake_at)
                continue
            self._put(cpu, headers.SCHED_WAKE, vcpu.domain, vcpu.number)
            self._change(cpu, vcpu, _RUNNABLE)
            load = 200_000 + (_next(cpu) & 0xFFFF)
            self._put(cpu, headers.UPDATE_LOAD)
            self._put(cpu, headers.UPDATE_UNIT_LOAD, load, 0, vcpu.who, 18)
            self._put(cpu, headers.RUNQ_POS, vcpu.who)
            self._put(cpu, headers.TICKLE_NEW, vcpu.who, cpu.number, vcpu.credit)
            self._put(cpu, headers.TICKLE, cpu.number)

    def _reschedule(self, cpu: Cpu, leaves_as: int) -> None:
        """Choose who runs next; the current vCPU leaves as runnable or blocked, or stays."""
        before = cpu.current
        chosen = self._choose(cpu, leaves_as)
        ran = cpu.clock - cpu.slice_began
        idle = 1 if chosen.kind == _IDLE else 0
        self._put(cpu, headers.SCHEDULE, cpu.number, idle << 8)
        if before.kind != _IDLE:
            self._burn(cpu, before, ran)
        self._put(cpu, headers.RUNQ_CANDIDATE, chosen.who, _LOW_WORD, chosen.credit)
        self._new_slice(cpu)
        if chosen is before:
            ran &= _LOW_WORD
            self._put(cpu, headers.SWITCH_INFCONT, before.domain, before.number, ran, _SLICE_NS)
            if before.since != 0:
                self._put(cpu, headers.CONTINUE_RUNNING, before.who)
        else:
            self._switch(cpu, before, chosen, leaves_as, ran)
        if chosen.kind == _HVM:
            self._enter(cpu, chosen)

    def _choose(self, cpu: Cpu, leaves_as: int) -> Vcpu:
        """The runnable vCPU that has waited longest; else the current one, else idle."""
        best = cpu.current if leaves_as == _RUNNABLE else cpu.idle
        longest = _NEVER
        for vcpu in cpu.queue:
            if vcpu.state == _RUNNABLE and vcpu.since < longest:
                longest = vcpu.since
                best = vcpu
        return best

    def _burn(self, cpu: Cpu, vcpu: Vcpu, ran: int) -> None:
        """Credit is spent; when it is gone, it is given anew."""
        spent = ran & 0xFFFFF
        vcpu.credit -= spent
        self._put(cpu, headers.CREDIT_BURN, vcpu.who, vcpu.credit & _LOW_WORD, _NO_BUDGET, spent)
        if vcpu.credit < 0:
            old = vcpu.credit & _LOW_WORD
            vcpu.credit = 10_500_000
            self._put(cpu, headers.CREDIT_RESET, vcpu.who, old, vcpu.credit)

    def _new_slice(self, cpu: Cpu) -> None:
        cpu.slice_began = cpu.clock
        length = 2000 * cpu.price >> 8
        cpu.slice_end = cpu.clock + length + (_next(cpu) & 0x3FFF)

    def _switch(self, cpu: Cpu, before: Vcpu, chosen: Vcpu, leaves_as: int, ran: int) -> None:
        waited = (cpu.clock + self.offset - chosen.since) & _LOW_WORD if chosen.since != 0 else 0
        self._put(cpu, headers.SWITCH_INFPREV, before.domain, before.number, ran & _LOW_WORD)
        self._put(cpu, headers.SWITCH_INFNEXT, chosen.domain, chosen.number, waited, _SLICE_NS)
        self._put(
            cpu, headers.SCHED_SWITCH,
            before.domain, before.number, chosen.domain, chosen.number,
        )  # fmt: skip
        self._change(cpu, before, leaves_as)
        cpu.current = chosen
        self._change(cpu, chosen, _RUNNING)
        cpu.ring.current = chosen.domain | chosen.number << 16

    def _change(self, cpu: Cpu, vcpu: Vcpu, state: int) -> None:
        """A runstate change and its account."""
        old = vcpu.state
        self._put(cpu, headers.RUNSTATE_CHANGE | old << 8 | state << 4, vcpu.who)
        now = self._stamp
        if vcpu.since != 0:
            if old == _RUNNING:
                vcpu.running += now - vcpu.since
            elif old == _RUNNABLE:
                vcpu.runnable += now - vcpu.since
            else:
                vcpu.blocked += now - vcpu.since
        if state == _RUNNING:
            vcpu.exit_away += now - vcpu.exit_left
        elif old == _RUNNING:
            vcpu.exit_left = now
        vcpu.changes += 1
        vcpu.since = now
        vcpu.state = state

    def _block(self, cpu: Cpu, vcpu: Vcpu) -> None:
        """The current vCPU waits for something."""
        self._put(cpu, headers.SCHED_BLOCK, vcpu.domain, vcpu.number)
        vcpu.wake_at = cpu.clock + 500 + ((_next(cpu) & 0x3FF) * cpu.price >> 8)
        cpu.next_wake = min(cpu.next_wake, vcpu.wake_at)
        self._reschedule(cpu, _BLOCKED)

    def _migrate(self) -> None:
        """Now and then a blocked guest vCPU will wake on the next CPU."""
        self._random = (self._random * 69069 + 12345) & _LOW_WORD
        if (self._random >> 24) < 16 and len(self.cpus) > 1:
            self._move_one()

    def _move_one(self) -> None:
        place = (self._random & 0xFFFF) % len(self.cpus)
        cpu = self.cpus[place]
        other = self.cpus[place - 1] if place != 0 else self.cpus[len(self.cpus) - 1]
        for vcpu in cpu.queue:
            if vcpu.state == _BLOCKED and vcpu.domain != 0:
                cpu.queue.remove(vcpu)
                other.queue.append(vcpu)
                vcpu.wake_at = max(vcpu.wake_at, cpu.clock)
                other.next_wake = min(other.next_wake, vcpu.wake_at)
                break

    # HVM guests: an exit, its handler, an entry

    def _guest_exit(self, cpu: Cpu) -> None:
        vcpu = cpu.current
        self._think(cpu)
        drawn = _next(cpu)
        woken = cpu.next_wake <= cpu.clock
        row = 0 if woken or cpu.slice_end <= cpu.clock else self._picks[drawn & 255]
        rip = _KERNEL | (drawn >> 8 & 0xFFFFF)
        if vcpu.wide:
            self._put(cpu, headers.EXIT64 | self._exit_minor, self._reasons[row], rip, _HIGH_RIP)
        else:
            self._put(cpu, headers.EXIT | self._exit_minor, self._reasons[row], rip)
        vcpu.exit_row = row
        vcpu.exit_at = self._stamp
        vcpu.exit_away = 0
        self._handle(cpu, row, drawn >> 8)
        cost = self._costs[row]
        _spend(cpu, (cost >> 1) + (cost * (drawn >> 16 & 0xFF) >> 8))
        if woken:
            self._wake(cpu)
        if row == 3:
            self._block(cpu, vcpu)
        elif cpu.slice_end <= cpu.clock:
            self._reschedule(cpu, _RUNNABLE)
        else:
            self._enter(cpu, vcpu)

    def _enter(self, cpu: Cpu, vcpu: Vcpu) -> None:
        """VMENTRY; the exit before it, if it was not the first entry, is complete."""
        self._put(cpu, headers.VMENTRY)
        if vcpu.exit_row != _NO_EXIT:
            at = 3 * vcpu.exit_row
            vcpu._exits[at] += 1
            vcpu._exits[at + 1] += self._stamp - vcpu.exit_at - vcpu.exit_away
            vcpu._exits[at + 2] += self._stamp - vcpu.exit_at
            vcpu.exit_row = _NO_EXIT

    def _handle(self, cpu: Cpu, row: int, drawn: int) -> None:
        """The handler's record, by row of the exit table. None of these carries a TSC.

        Rows that are not dealt with here have what they trace in the table.
        """
        if row == 0:
            if self._exit_minor == 2:
                self._put(cpu, headers.INTR, 0xF3 + (drawn & 7))
            else:
                self._put(cpu, headers.SVM_INTR)
        elif row == 1:
            self._put(cpu, headers.INTR_WINDOW, 0xF3, 2, _LOW_WORD)
        elif row == 2:
            self._put(cpu, headers.CPUID, drawn & 7, 0, 0x16, 0x756E6547, 0x6C65746E, drawn)
        elif row == 3:
            self._put(cpu, headers.HLT)
        elif row == 4:
            tsc = _tsc(cpu)
            self._put(cpu, headers.RDTSC, tsc & _LOW_WORD, tsc >> 32)
        elif row >= 12:
            self._page_fault(cpu, row, drawn)
        elif self._handlers[row] != 0:
            first = self._firsts[row] + (drawn & self._spreads[row])
            self._put(cpu, self._handlers[row], first, drawn & 0xFFFF)
            if row == 10 and (drawn & 0xFF) < 16:
                self._put(cpu, headers.LAPIC_START_TIMER, 40000, 0, 40000, 0, 0xEF)

    def _page_fault(self, cpu: Cpu, row: int, drawn: int) -> None:
        """A nested page fault: memory not there yet, or a device's registers."""
        gpa = _LAPIC | (drawn & 0xFFC) if row == 13 else (drawn & 0xFFFFF) << 12
        kind = 4 if row == 13 else 0
        self._put(cpu, headers.NPF, gpa & _LOW_WORD, 0, drawn & 0xFFFFF, 0, 0x181, kind)
        if row == 13:
            self._put(cpu, headers.IOMEM_WRITE, gpa & _LOW_WORD, drawn & 0xFFFF)

    # PV guests: entries into the hypervisor

    def _pv_entry(self, cpu: Cpu, drawn: int) -> None:
        vcpu = cpu.current
        choice = drawn & 63
        drawn >>= 6
        rip = _KERNEL | (drawn & 0xFFFFF)
        if choice < 2:
            self._call(cpu, 1 << 20 | 29, 1, 1, 0)
            self._block(cpu, vcpu)
        elif choice < 20:
            self._put(cpu, headers.EMULATE_PRIVOP, rip, _HIGH_RIP)
        elif choice < 30:
            self._put(cpu, headers.PAGE_FAULT, rip, _HIGH_RIP, drawn << 3, 0x7FFE, 4 | drawn & 3)
        elif choice < 33:
            pte = drawn << 12 & _LOW_WORD | 0x65
            self._put(cpu, headers.PTWR_EMULATION, pte, 0, drawn & 0xFFFFF8, 0x8880, rip, _HIGH_RIP)
        elif choice < 35:
            self._put(cpu, headers.TRAP, rip, _HIGH_RIP, 13 | 1 << 15)
        elif choice < 36:
            self._put(cpu, headers.MATH_STATE_RESTORE)
        else:
            self._hypercall(cpu, vcpu, choice - 36, drawn)
        _spend(cpu, 150 + (drawn & 127))

    def _hypercall(self, cpu: Cpu, vcpu: Vcpu, choice: int, drawn: int) -> None:
        if choice < 12:
            self._call(cpu, 23, 0, 0, 0)
        elif choice < 18:
            self._call(cpu, 5 << 20 | 24, 2, 8, vcpu.number)
        elif choice < 22:
            self._call(cpu, 4 << 20 | 1, 1, 1 + (drawn & 7), 0)
        elif choice < 23 or vcpu.domain != 0:
            self._multicall(cpu, vcpu, 1 + (drawn & 3))
        elif choice < 25:
            self._grants(cpu, drawn)
        elif choice < 27:
            self._call(cpu, 4 << 20 | 26, 1, 1, 0)
        else:
            self._new_domain(cpu, drawn)

    def _call(self, cpu: Cpu, call: int, args: int, first: int, second: int) -> None:
        """A hypercall with up to two recorded 32-bit arguments."""
        vcpu = cpu.current
        self._put(cpu, headers.HYPERCALL + (args << 28), call, first, second)
        vcpu._calls[2 * (call & 63)] += 1

    def _multicall(self, cpu: Cpu, vcpu: Vcpu, calls: int) -> None:
        for index in range(calls):
            if index & 1:
                self._put(cpu, headers.SUBCALL_ARG, 4 << 20 | 26, 1)
                vcpu._calls[2 * 26 + 1] += 1
            else:
                self._put(cpu, headers.SUBCALL, 14)
                vcpu._calls[2 * 14 + 1] += 1
        self._call(cpu, 4 << 20 | 13, 1, calls, 0)

    def _grants(self, cpu: Cpu, drawn: int) -> None:
        """Domain 0 maps a page of a guest's, or lets one go."""
        release = drawn & 1
        self._call(cpu, 0x11 << 20 | 20, 2, release, 1)
        self._put(cpu, headers.GRANT_MAP + release, self._guest)

    def _new_domain(self, cpu: Cpu, drawn: int) -> None:
        """Very seldom, a domain is made and destroyed that never gets to run."""
        self._call(cpu, 36, 0, 0, 0)
        if (drawn & 0xFF) == 0:
            domain = 1000 + (drawn >> 8 & 0xFF)
            self._put(cpu, headers.DOM0_DOM_ADD, domain)
            self._put(cpu, headers.SCHED_DOM_ADD, domain)
            self._put(cpu, headers.SCHED_DOM_REM, domain)
            self._put(cpu, headers.DOM0_DOM_REM, domain)

    # Time and records

    def _think(self, cpu: Cpu) -> None:
        """Let the guest compute, or the CPU idle, as long as pays off the debt, on average."""
        owed = cpu.debt >> 8
        if owed > 0:
            _spend(cpu, (owed >> 1) + (owed * (_next(cpu) & 0x3FF) >> 10))
        else:
            _spend(cpu, 60 + (_next(cpu) & 63))

    def _put(
        self, cpu: Cpu, header: int,
        a: int = 0, b: int = 0, c: int = 0, d: int = 0, e: int = 0, f: int = 0,
    ) -> None:  # fmt: skip
        """Trace one record; what it costs in time is owed at once."""
        self._stamp = cpu.clock + self.offset
        cpu.ring.put(header, _tsc(cpu), a, b, c, d, e, f, 0)
        words = 1 + ((header >> 28) & 7) + ((header >> 30) & 2)
        cpu.debt += 4 * words * cpu.price
        _spend(cpu, 40)


def _tsc(cpu: Cpu) -> int:
    """What the CPU's time-stamp counter says; a skew may be negative."""
    return (cpu.clock + cpu.shift) & _ALL_BITS


def _spend(cpu: Cpu, cycles: int) -> None:
    cpu.clock += cycles
    cpu.debt -= cycles << 8
    if cpu.debt < _DEEPEST_DEBT:
        cpu.debt = _DEEPEST_DEBT


def _next(cpu: Cpu) -> int:
    """32 random bits: xorshift64* (Vigna, 2016), its upper half."""
    state = cpu.random
    state ^= state >> 12
    state ^= state << 25 & _ALL_BITS
    state ^= state >> 27
    cpu.random = state
    return (state * _RANDOM_FACTOR & _ALL_BITS) >> 32
