# cython: annotation_typing=False, initializedcheck=False
"""The records of all CPUs, in time order, each to whatever part of the analysis it concerns.

Every CPU has some records loaded. Only the records that say who runs where concern several
CPUs: those are taken in the order of tracelib.merge, by the highest TSC so far on a CPU,
then by the CPU's number. From one of them to the next a CPU's records are worked through at
once. When a CPU has nothing left, `run` returns so that the caller loads more; so memory
holds one chunk of each CPU.

All that is done for every record is here and in what this calls; compiled with the types
in engine.pxd.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from tracelib import records
from tracelib.analysis import cells, codes
from tracelib.analysis.pairs import Pairs
from tracelib.analysis.states import States
from tracelib.analysis.tables import Table
from tracelib.analysis.vcpus import Cpu, Vcpu
from tracelib.ring import shared

COMPILED = not __file__.endswith((".py", ".pyc"))
"""Whether this module runs as C."""

Plan = tuple[int, int, int, int, int, int]
"""What to do with the records of one header: action, class number, kind, and where the
value of a tally is: word, bits to shift it by, mask; a mask of 0 means no value."""

# C constants when compiled, by their types in engine.pxd.
_NEVER = 0xFFFFFFFFFFFFFFFF
_NOBODY = 0xFFFFFFFF
_PROCESSES = 1 << 32
_MOST_FORMS = 1 << 18
_CLASSES = 12
_MOST_BINS = 2048
_BIN_WORDS = 2 * _CLASSES
_HASH_FACTOR = 0x9E3779B1
_WORD_MASK = 0xFFFFFFFF
_UNTIMED = 0x7FFFFFFF


class Engine:
    """One trace being analysed. Its tables are read when it has come to the end."""

    def __init__(
        self, learn: Callable[[int], Plan], bin_cycles: int, *, by_cpu: bool = False,
        noted: int = 0,
    ) -> None:
        """`learn` is asked once for each header of a CPU; `bin_cycles` is how long the bins
        are at first by which the volume is counted; `noted` is what to note event by event."""
        self.pairs = Pairs(noted)
        self.states = States(self.pairs, by_cpu=by_cpu)
        self._by_cpu = by_cpu
        self.cpus: dict[int, Cpu] = {}
        self.volume = Table(codes.FORM_COLUMNS, _MOST_FORMS)
        """(CPU, header word): how many records; the other columns are the plan for it, and the
        last tally: its keys and its row."""
        self.bin_cycles = bin_cycles
        self.bins = memoryview(array("Q", bytes(16 * _CLASSES * _MOST_BINS)))
        """Records and bytes of each class, bin by bin from the start of the span."""
        self.gaps: list[tuple[int, int, int, int]] = []
        """Lost records since the caller last took them: CPU, first and last TSC, count."""
        self._learn = learn
        self._known = 1
        self._heap: list[Cpu] = []
        # The least action that waits for its turn; until the span has started, all do.
        self._waits = codes.NOTHING

    @property
    def last(self) -> int:
        """The time of the last record so far."""
        return max((cpu.key for cpu in self.cpus.values()), default=0)

    @property
    def waiting(self) -> bool:
        """Whether records are loaded that `run` has not come to."""
        return bool(self._heap)

    def gaps_ahead(self) -> list[tuple[int, int, int]]:
        """CPU, first and last TSC of the lost records that come next on their CPUs."""
        found = []
        for cpu in self._heap:
            if cpu.data[cpu.at] & records.EVENT_MASK == records.LOST_RECORDS:
                found.append((cpu.number, self._lost_since(cpu), self._stamp(cpu)))
        return found

    def load(self, number: int, words: memoryview) -> None:
        """More records of a CPU, whole ones, as a view of format "I". It is kept until they
        are done."""
        cpu = self.cpus.get(number)
        if cpu is None:
            cpu = self.cpus[number] = self.states.add_cpu(number)
        if not len(words):
            return
        cpu.held = words
        cpu.data = shared.address(words)
        cpu.at = 0
        cpu.end = len(words)
        cpu.next_key = self._peek(cpu)
        self._heap.append(cpu)
        self._rise(len(self._heap) - 1)

    def run(self, until: int) -> int:
        """Go on to the first record at or after `until`: NO_CPU when it is reached, or when
        nothing is loaded; else the number of a CPU that has no more records loaded."""
        while self._heap:
            cpu = self._heap[0]
            if cpu.next_key >= until:
                return codes.NO_CPU
            if not self._advance(cpu, until):
                newest = self._heap.pop()
                if self._heap:
                    self._heap[0] = newest
                    self._sink()
                return cpu.number
            self._sink()
        return codes.NO_CPU

    def begin(self, now: int) -> None:
        """Leave out what has been so far; the span starts now."""
        self._open(now)
        self.states.reset()
        self.volume.zero(codes.COUNT)
        for at in range(len(self.bins)):
            self.bins[at] = 0
        for cpu in self.cpus.values():
            cpu.steps_back = 0
            cpu.wraps = 0

    def finish(self, now: int) -> None:
        """The span ends now."""
        for cpu in self.cpus.values():
            self.states.finish_cpu(cpu, now)
        self.states.finish(now)

    # Order

    def _peek(self, cpu: Cpu) -> int:
        """The place in the order of the next record."""
        event = cpu.data[cpu.at] & records.EVENT_MASK
        if event == records.WRAP_BUFFER:
            return cpu.key
        if event == records.LOST_RECORDS:
            return self._lost_since(cpu)
        return self._stamp(cpu)

    def _stamp(self, cpu: Cpu) -> int:
        """When the next record is."""
        if not cpu.data[cpu.at] & records.TSC_FLAG or cpu.end - cpu.at < 3:
            return cpu.key
        return max(_wide(cpu.data, cpu.at + 1), cpu.key)

    def _lost_since(self, cpu: Cpu) -> int:
        """From when on records are missing, of which the next one tells."""
        whole = cpu.data[cpu.at] >> records.EXTRA_SHIFT == 0xC  # four words and a time stamp
        if not whole or cpu.end - cpu.at < 7:
            return cpu.key
        return min(max(_wide(cpu.data, cpu.at + 5), cpu.key), self._stamp(cpu))

    def _lost_turn(self, cpu: Cpu, limit: int) -> int:
        """A lost record has two turns: when the gap begins, and, as others, when it is."""
        if cpu.lost_since == _NEVER:
            first = self._lost_since(cpu)
            if first > limit:
                return first
            self.states.gap_begins(cpu, first)
        return self._stamp(cpu)

    def _before(self, left: Cpu, right: Cpu) -> bool:
        if left.next_key != right.next_key:
            return left.next_key < right.next_key
        return left.number < right.number

    def _rise(self, at: int) -> None:
        """Bring the heap's newest entry to its place."""
        heap = self._heap
        cpu = heap[at]
        while at > 0:
            above = heap[(at - 1) >> 1]
            if not self._before(cpu, above):
                break
            heap[at] = above
            at = (at - 1) >> 1
        heap[at] = cpu

    def _sink(self) -> None:
        """Bring the heap's first entry to its place."""
        heap = self._heap
        size = len(heap)
        if size < 2:
            return
        at = 0
        cpu = heap[0]
        while 2 * at + 1 < size:
            child = 2 * at + 1
            if child + 1 < size and self._before(heap[child + 1], heap[child]):
                child += 1
            below = heap[child]
            if not self._before(below, cpu):
                break
            heap[at] = below
            at = child
        heap[at] = cpu

    # Records

    def _advance(self, cpu: Cpu, until: int) -> bool:
        """Work through one CPU's records while it is its turn; False if none are left."""
        data = cpu.data
        at = cpu.at
        end = cpu.end
        limit = self._turn_ends(cpu, until)
        forms = cells.address(self.volume.cells)
        while at < end:
            header = data[at]
            body = at + 1 + (header >> 31) * 2
            after = body + (header >> records.EXTRA_SHIFT & records.EXTRA_MASK)
            if after > end:
                break
            slot = 2 * ((header * _HASH_FACTOR & _WORD_MASK) >> (32 - codes.RECENT_BITS))
            if cpu.recent[slot] != header:
                event = header & records.EVENT_MASK
                if event == records.WRAP_BUFFER or event == records.CPU_CHANGE:
                    cpu.wraps += event == records.WRAP_BUFFER
                    at = after
                    continue
                cpu.recent[slot + 1] = self._row(cpu, header)
                cpu.recent[slot] = header
                forms = cells.address(self.volume.cells)
            place = cpu.recent[slot + 1] * (codes.KEYS + codes.FORM_COLUMNS) + codes.KEYS
            before = cpu.key
            key = before
            tsc = cpu.tsc
            if header & records.TSC_FLAG:
                tsc = _wide(data, at + 1)
                key = max(tsc, before)
                cpu.dated = True
            action = forms[place + codes.FORM_ACTION]
            if key >= until or (key > limit and action >= self._waits):
                cpu.at = at
                cpu.next_key = self._lost_turn(cpu, limit) if action == codes.GAP else key
                return True
            if key >= cpu.bin_end and cpu.dated:
                self._next_bin(cpu, key)
            cpu.key = key
            cpu.steps_back += tsc < cpu.tsc
            cpu.tsc = tsc
            forms[place] += 1
            entry = cpu.bin + 2 * forms[place + codes.FORM_CLASS]
            self.bins[entry] += 1
            self.bins[entry + 1] += 4 * (after - at)
            if action >= codes.ORDERED:
                self._do(cpu, data, body, after - body, place, header, before)
            elif action != codes.NOTHING:
                self._attribute(cpu, data, body, after - body, place, header)
            at = after
        cpu.at = cpu.end
        return False

    def _turn_ends(self, cpu: Cpu, until: int) -> int:
        """The last moment at which no other CPU's turn is before this one's."""
        limit = until - 1
        for child in range(1, min(3, len(self._heap))):
            other = self._heap[child]
            # Of two at the same time the lower number comes first.
            turn = other.next_key if cpu.number < other.number else other.next_key - 1
            limit = min(limit, turn)
        return limit

    def _row(self, cpu: Cpu, header: int) -> int:
        """Where records with this header are counted on this CPU, and what to do with them."""
        row = self.volume.row(cpu.number, header)
        if row == self._known:
            self._plan(row, header)
        return row

    def _plan(self, row: int, header: int) -> None:
        """The first record of a form on a CPU: find out what to do with it."""
        self._known += 1
        for column, value in enumerate(self._learn(header), start=1):
            self.volume.add(row, column, value)

    def _do(
        self, cpu: Cpu, data: memoryview, body: int, extra: int, place: int, header: int,
        before: int,
    ) -> None:
        """A record that says who runs; `before` is the time of the one before it on this CPU."""
        action = self.volume.cells[place + codes.FORM_ACTION]
        if action == codes.CHANGE:
            # Xen stamps these. Who else made the file did not: nobody knows when it was.
            if cpu.dated:
                self.states.change(cpu, data[body], header >> 8 & 0xF, header >> 4 & 0xF, cpu.key)
        elif action == codes.CONTINUE:
            self.states.runs_on(cpu, data[body], cpu.key)
        elif action == codes.GAP:
            self._gap(cpu, data, body, extra, before)
        elif action == codes.REMOVE:
            self.states.remove(data[body], cpu.key)
        elif action == codes.CREATE:
            self.states.create(data[body], cpu.key)
        else:
            self._owned(cpu, data, body, extra, place)

    def _attribute(
        self, cpu: Cpu, data: memoryview, body: int, extra: int, place: int, header: int
    ) -> None:
        """A record of what whoever runs on the CPU did."""
        action = self.volume.cells[place + codes.FORM_ACTION]
        vcpu = cpu.current if cpu.current is not None else cpu.nobody
        # Another CPU's clock says that it is there: pair what it did here by itself.
        slot = vcpu if vcpu.cpu == cpu.number else cpu.nobody
        owner = cpu.number if self._by_cpu else vcpu.index
        pairs = self.pairs
        if action == codes.ENTRY:
            if cpu.dated:
                pairs.entry(slot, cpu.key)
        elif action == codes.EXIT:
            if cpu.dated:
                kind = self.volume.cells[place + codes.FORM_KIND]
                pairs.exit(slot, owner, kind, data[body], cpu.key)
                slot.exit_address = _address(data, body, extra)
        else:
            if pairs.notes.wanted & codes.WANT_RECORDS:
                self._note(cpu, vcpu, data, body, header & _UNTIMED)
            row = self._tally(place, owner, self._value(data, body, place))
            pairs.count(row)
            if action == codes.HANDLER:
                pairs.belongs(slot, row)
            elif action == codes.LASTED:
                pairs.lasted(row, (data[body + 2] - data[body + 1]) & _WORD_MASK)

    def _tally(self, place: int, owner: int, value: int) -> int:
        """Where such a record is counted: mostly where the last one was."""
        forms = cells.address(self.volume.cells)
        row = forms[place + codes.FORM_ROW]
        if (
            row == codes.OTHERS or forms[place + codes.FORM_OWNER] != owner
            or forms[place + codes.FORM_VALUE] != value
        ):
            row = self.pairs.tallies.row(owner << 32 | forms[place + codes.FORM_KIND], value)
            forms[place + codes.FORM_ROW] = row
            forms[place + codes.FORM_OWNER] = owner
            forms[place + codes.FORM_VALUE] = value
        return row

    def _owned(
        self, cpu: Cpu, data: memoryview, body: int, extra: int, place: int
    ) -> None:
        """A record that says in its first two words whose it is: process and vCPU."""
        action = self.volume.cells[place + codes.FORM_ACTION]
        process = data[body] | _PROCESSES
        vcpu = self.states.vcpu(process << 16 | data[body + 1])
        self.states.seen_on(cpu, vcpu)
        owner = self.states.owner(cpu, vcpu)
        if action == codes.OWNED_ENTRY:
            self.pairs.entry(vcpu, cpu.key)
        elif action == codes.OWNED_EXIT:
            self.pairs.exit(vcpu, owner, 0, data[body + 2], cpu.key)
            vcpu.exit_address = _address(data, body + 2, extra - 2)
        else:
            kind = self.volume.cells[place + codes.FORM_KIND]
            self.pairs.handler(vcpu, owner, kind, self._value(data, body, place))

    def _value(self, data: memoryview, body: int, place: int) -> int:
        """What a tally is by; _NEVER if the record does not say."""
        forms = cells.address(self.volume.cells)
        mask = forms[place + codes.FORM_MASK]
        if mask == 0:
            return _NEVER
        word = body + forms[place + codes.FORM_WORD]
        value = data[word]
        if mask >> 32:
            value = _wide(data, word)
        return value >> forms[place + codes.FORM_SHIFT] & mask

    def _note(self, cpu: Cpu, vcpu: Vcpu, data: memoryview, body: int, header: int) -> None:
        """A record as it is. One without a time has that of the record before."""
        notes = self.pairs.notes
        at = notes.add(codes.RECORD, vcpu.index, cpu.number, header, cpu.key)
        extra = header >> records.EXTRA_SHIFT
        for pair in range(4):
            value = data[body + 2 * pair] if 2 * pair < extra else 0
            if 2 * pair + 1 < extra:
                value = _wide(data, body + 2 * pair)
            notes.cells[at + pair] = value

    def _gap(self, cpu: Cpu, data: memoryview, body: int, extra: int, before: int) -> None:
        """A lost record: count, domain | vcpu << 16, first TSC; before September 2008 the
        count alone."""
        count = data[body] if extra == 1 or extra == 4 else 0
        first = before
        who = _NOBODY
        if extra == 4:
            who = data[body + 1] >> 16 | (data[body + 1] & 0xFFFF) << 16
            first = max(first, _wide(data, body + 2))
        first = min(first, cpu.key)
        self.gaps.append((cpu.number, first, cpu.key, count))
        self.states.gap(cpu, first, cpu.key, who)

    # Time

    def _open(self, now: int) -> None:
        """The span starts."""
        for cpu in self.cpus.values():
            self.states.finish_cpu(cpu, now)
            cpu.since = now
            cpu.bin = 0
            cpu.bin_end = self._bin_after(now)
        self.states.open(now)
        self._waits = codes.ORDERED

    def _next_bin(self, cpu: Cpu, key: int) -> None:
        """Go on to the bin that `key` is in. When there are too many, two become one."""
        if not self.states.started:
            self._open(key)
            self.states.occupied.zero(0)
        while key >= cpu.bin_end:
            if cpu.bin == (_MOST_BINS - 1) * _BIN_WORDS:
                self._halve()
            else:
                cpu.bin += _BIN_WORDS
                cpu.bin_end = self._bin_after(cpu.bin_end)

    def _bin_after(self, moment: int) -> int:
        """The end of a bin that begins then: the last one's is the highest TSC there is."""
        return moment + min(self.bin_cycles, _NEVER - moment)

    def _halve(self) -> None:
        """Make every bin twice as long."""
        for number in range(_MOST_BINS):
            for column in range(_BIN_WORDS):
                amount = self.bins[number * _BIN_WORDS + column]
                self.bins[number * _BIN_WORDS + column] = 0
                self.bins[(number >> 1) * _BIN_WORDS + column] += amount
        for cpu in self.cpus.values():
            bin = cpu.bin // _BIN_WORDS
            if bin % 2 == 0:
                cpu.bin_end = self._bin_after(cpu.bin_end)
            cpu.bin = bin // 2 * _BIN_WORDS
        self.bin_cycles *= 2


def _address(data: memoryview, body: int, extra: int) -> int:
    """Where in the guest an exit was: behind the reason, in one word or in two."""
    if extra >= 3:
        return _wide(data, body + 1)
    return data[body + 1] if extra == 2 else 0


def _wide(data: memoryview, at: int) -> int:
    """Two words, the low one first."""
    value = data[at + 1]
    return value << 32 | data[at]
