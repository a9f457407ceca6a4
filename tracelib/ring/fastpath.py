# cython: annotation_typing=False
"""The consumer's inner loop: take records out of a ring, count them, find their places.

Everything done per record or per byte on the way to disk is here. The file is plain
Python; fastpath.pxd gives its names C types when there is a compiler, and both forms give
equal results. Hence its manner: numbers only, no object per record, masks where C would
wrap. `records`, `runstate_words` and `shared` are resolved in C by the .pxd, in Python by
the imports below.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from tracelib import records
from tracelib.ring import runstate_words, shared
from tracelib.ring.layout import CONS_WORD, HEADER_BYTES, PROD_WORD, waiting_bytes
from tracelib.ring.results import BAD_INDEXES, DRAINED, EMPTY, NO_ROOM, Drain, Scan

if TYPE_CHECKING:
    from tracelib.ring.runstates import RunstateTable

__all__ = [
    "BAD_INDEXES", "COMPILED", "DRAINED", "EMPTY", "NO_ROOM", "Drain", "Scan",
    "drain", "publish", "record_offsets", "scan", "take", "vcpu_entry",
]

COMPILED = not __file__.endswith((".py", ".pyc"))
"""Whether this module runs as C."""

_UNTRACKED = memoryview(array("I", [0] * runstate_words.FIRST_CPU))
"""The words of a runstate table without a place for any CPU: nothing is noted in it."""


class Tally:
    """What a walk over records adds up; a C struct when compiled. Not for other modules."""

    def __init__(self) -> None:
        self.stop = 0
        self.broken = False
        self.records = 0
        self.wraps = 0
        self.lost_marks = 0
        self.malformed_lost = 0
        self.lost = 0
        self.lost_first_tsc = 0
        self.lost_last_tsc = 0
        self.first_tsc = 0
        self.last_tsc = 0


def drain(
    ring: memoryview, size: int, into: memoryview, at: int, room: int,
    cpu: int, runstates: RunstateTable,
) -> Drain:
    """Move what waits in a ring to `into[at : at + room]` and publish the new `cons`: `take`
    and `publish` at once, for those who need not survive in between."""
    taken = take(ring, size, into, at, room, cpu, runstates)
    if taken.status == DRAINED:
        publish(ring, taken.new_cons)
    return taken


def publish(ring: memoryview, cons: int) -> None:
    """Tell the producer that it may use again what lies before `cons`. Whatever was written
    to memory before this, wherever, can be seen before it."""
    shared.full_barrier()
    shared.store(shared.address(ring), CONS_WORD, cons)


def take(
    ring: memoryview, size: int, into: memoryview, at: int, room: int,
    cpu: int, runstates: RunstateTable,
) -> Drain:
    """Copy what waits in a ring to `into[at : at + room]`; the ring stays as it is until
    `publish` is called with the result's `new_cons`.

    `ring` and `into` are of format "I"; `size` is the ring's data size in bytes, `at` and
    `room` count words. A room too small for everything takes the whole records that fit.
    Where the chain of records breaks, everything behind is skipped, up to the `prod` that
    was read: records have no mark by which to find the next one.

    Raises ValueError if `size` or `at` and `room` do not fit the two views.
    """
    if size <= 0 or size % 4 or HEADER_BYTES + size > 4 * len(ring):
        raise ValueError(f"no ring of {size} data bytes in {4 * len(ring)} bytes")
    if not 0 <= at <= len(into) or not 0 <= room <= len(into) - at:
        raise ValueError(f"no room for {room} words at {at} of {len(into)}")
    source = shared.address(ring)
    target = shared.address(into)
    table = shared.address(runstates.words)
    cons = shared.load(source, CONS_WORD)
    prod = shared.load(source, PROD_WORD)
    shared.read_barrier()
    waiting = waiting_bytes(cons, prod, size)
    if waiting is None:
        return Drain(BAD_INDEXES, cons, prod, cons)
    if waiting == 0:
        return Drain(EMPTY, cons, prod, cons)

    taken = min(waiting // 4, room)
    _copy_span(target, at, source, size // 4, cons % size // 4, taken)
    tally = _walk(target, at, at + taken, cpu, table)
    payload = 4 * (tally.stop - at)
    if tally.broken or (payload < waiting and 4 * taken == waiting):
        new_cons = prod
        if cpu < table[runstate_words.CPUS]:
            # What was skipped may have said that somebody else runs here now.
            _displace(table, cpu)
    elif payload == 0:
        return Drain(NO_ROOM, cons, prod, cons)
    else:
        new_cons = (cons + payload) % (2 * size)
    return Drain(
        DRAINED, cons, prod, new_cons, payload, tally.records, tally.lost_marks, tally.lost,
        tally.lost_first_tsc, tally.lost_last_tsc, tally.first_tsc, tally.last_tsc,
        waiting - payload if new_cons == prod else 0, tally.malformed_lost,
    )


def scan(
    data: memoryview, start: int, end: int, cpu: int, runstates: RunstateTable | None
) -> Scan:
    """Count the records of `data[start:end]` (format "I", positions in words).

    Stops where the chain breaks or a record goes past `end`: `stop` says where. With a
    table, what the records say of runstates is noted in it.

    Raises ValueError if start and end are not within `data`.
    """
    _check_range(len(data), start, end)
    table = _UNTRACKED if runstates is None else runstates.words
    tally = _walk(shared.address(data), start, end, cpu, shared.address(table))
    return Scan(
        tally.stop, tally.records, tally.wraps, tally.lost_marks, tally.lost,
        tally.lost_first_tsc, tally.lost_last_tsc, tally.first_tsc, tally.last_tsc,
        tally.malformed_lost,
    )


def record_offsets(
    data: memoryview, start: int, end: int, out: memoryview
) -> tuple[int, int]:
    """Where the records of `data[start:end]` start, wrap fillers among them.

    Fills `out` with positions in words (both views of format "I") and returns how many
    there are and where the next record would start: `end` after the last one, less if
    `out` is full, or the place where the chain breaks or a record goes past `end`.

    Raises ValueError if start and end are not within `data`.
    """
    _check_range(len(data), start, end)
    source = shared.address(data)
    offsets = shared.address(out)
    room = len(out)
    at = start
    count = 0
    while at < end and count < room:
        header = source[at]
        after = at + _record_words(header)
        if header & records.CLASS_MASK == 0 or after > end:
            break
        offsets[count] = at
        count += 1
        at = after
    return count, at


def vcpu_entry(table: memoryview, vcpu: int) -> int:
    """Position of a vCPU's slot in a runstate table's words, taken for it if it has none
    yet; 0 if the table is full. For RunstateTable."""
    return _entry(shared.address(table), vcpu)


def _check_range(size: int, start: int, end: int) -> None:
    if not 0 <= start <= end <= size:
        raise ValueError(f"words {start} to {end} are not within {size}")


def _copy_span(
    target: memoryview, at: int, source: memoryview, ring_words: int, start: int, count: int
) -> None:
    """Copy `count` words of the ring's data, from data word `start` on, over the ring's end."""
    data = HEADER_BYTES // 4
    before_end = min(count, ring_words - start)
    shared.copy(target, at, source, data + start, before_end)
    shared.copy(target, at + before_end, source, data, count - before_end)


def _record_words(header: int) -> int:
    extra = (header >> records.EXTRA_SHIFT) & records.EXTRA_MASK
    return 1 + extra + (2 if header & records.TSC_FLAG else 0)


def _tsc_at(data: memoryview, at: int) -> int:
    high = data[at + 1]
    return data[at] | high << 32


def _walk(data: memoryview, at: int, end: int, cpu: int, table: memoryview) -> Tally:
    """Follow the records from `at` to `end`, each header giving the place of the next."""
    tally = Tally()
    tracked = cpu < table[runstate_words.CPUS]
    count = 0
    # Positions of the first and last time stamp; read once, at the end. `end` is none.
    first = end
    last = end
    while at < end:
        header = data[at]
        after = at + _record_words(header)
        if header & records.CLASS_MASK == 0 or after > end:
            tally.broken = header & records.CLASS_MASK == 0
            break
        event = header & records.EVENT_MASK
        # The three generic events have the lowest numbers of all.
        if event <= records.CPU_CHANGE:
            if event == records.WRAP_BUFFER:
                # Its time stamp and words are whatever lay there before.
                tally.wraps += 1
                at = after
                continue
            if event == records.CPU_CHANGE:
                at = after
                continue
            if event == records.LOST_RECORDS:
                _note_lost(tally, data, at, cpu, table)
        if header & records.TSC_FLAG:
            last = at + 1
            if first == end:
                first = last
        if tracked and event & runstate_words.GROUP_MASK == runstate_words.SCHED_MINIMUM:
            _note_runstate(data, at, 0 if last == end else _tsc_at(data, last), cpu, table)
        elif tracked and event == runstate_words.DOMAIN_REMOVED:
            _note_removal(data, at, 0 if last == end else _tsc_at(data, last), table)
        count += 1
        at = after
    tally.stop = at
    tally.records = count
    if first != end:
        tally.first_tsc = _tsc_at(data, first)
        tally.last_tsc = _tsc_at(data, last)
    return tally


def _note_lost(tally: Tally, data: memoryview, at: int, cpu: int, table: memoryview) -> None:
    """Account for a lost record: count, domain | vcpu << 16, first TSC (two words); before
    September 2008 the count alone. Another shape is counted as malformed."""
    header = data[at]
    extra = (header >> records.EXTRA_SHIFT) & records.EXTRA_MASK
    timed = header & records.TSC_FLAG != 0
    tsc = _tsc_at(data, at + 1) if timed else 0
    body = at + 3 if timed else at + 1
    current = runstate_words.NOBODY
    tally.lost_marks += 1
    if timed:
        tally.lost_last_tsc = tsc
    if extra == 4:
        tally.lost += data[body]
        if tally.lost_first_tsc == 0:
            tally.lost_first_tsc = _tsc_at(data, body + 2)
        current = data[body + 1] >> 16 | (data[body + 1] & 0xFFFF) << 16
    elif extra == 1:
        tally.lost += data[body]
    else:
        tally.malformed_lost += 1
    if cpu < table[runstate_words.CPUS]:
        # What happened on this CPU meanwhile is unknown; the record says who runs now.
        _displace(table, cpu)
        if current != runstate_words.NOBODY:
            _start(table, cpu, current, tsc)


def _note_runstate(data: memoryview, at: int, tsc: int, cpu: int, table: memoryview) -> None:
    """Note a runstate change or "continue running"; other forms and lengths are left alone."""
    header = data[at]
    event = header & records.EVENT_MASK
    extra = (header >> records.EXTRA_SHIFT) & records.EXTRA_MASK
    # One word; old debugging versions of Xen added two 64-bit values behind it.
    if extra != 1 and extra != 5:
        return
    vcpu = data[at + 3 if header & records.TSC_FLAG else at + 1]
    current = table[runstate_words.FIRST_CPU + cpu]
    if vcpu == runstate_words.NOBODY:
        return
    if event == runstate_words.CONTINUE_RUNNING:
        if current != vcpu:
            _displace(table, cpu)
            _start(table, cpu, vcpu, tsc)
        return
    state = (event >> 4) & 0xF
    if event & runstate_words.RUNSTATE_FORM != runstate_words.RUNSTATE_CHANGE:
        return
    if state == runstate_words.RUNNING:
        if current != vcpu:
            _displace(table, cpu)
        _start(table, cpu, vcpu, tsc)
    elif state <= runstate_words.OFFLINE:
        if current == vcpu:
            table[runstate_words.FIRST_CPU + cpu] = runstate_words.NOBODY
        place = cpu if (event >> 8) & 0xF == runstate_words.RUNNING else runstate_words.NOBODY
        _set_state(table, vcpu, state, place, tsc)


def _start(table: memoryview, cpu: int, vcpu: int, tsc: int) -> None:
    table[runstate_words.FIRST_CPU + cpu] = vcpu
    _set_state(table, vcpu, runstate_words.RUNNING, cpu, tsc)


def _displace(table: memoryview, cpu: int) -> None:
    """Whoever was thought to run on this CPU left it unseen."""
    vcpu = table[runstate_words.FIRST_CPU + cpu]
    if vcpu == runstate_words.NOBODY:
        return
    table[runstate_words.FIRST_CPU + cpu] = runstate_words.NOBODY
    slot = _entry(table, vcpu)
    if (
        slot != 0
        and table[slot + runstate_words.STATE] == runstate_words.RUNNING
        and table[slot + runstate_words.PLACE] == cpu
    ):
        table[slot + runstate_words.STATE] = runstate_words.UNKNOWN


def _set_state(table: memoryview, vcpu: int, state: int, place: int, tsc: int) -> None:
    """Note a vCPU's state unless something newer is known: each CPU's ring is drained on
    its own, so what another CPU wrote later may have been seen before."""
    slot = _entry(table, vcpu)
    if slot == 0 or tsc < _tsc_at(table, slot + runstate_words.SINCE_LOW):
        return
    table[slot + runstate_words.STATE] = state
    if place != runstate_words.NOBODY:
        table[slot + runstate_words.PLACE] = place
    table[slot + runstate_words.SINCE_LOW] = tsc & runstate_words.WORD_MASK
    table[slot + runstate_words.SINCE_HIGH] = tsc >> 32


def _note_removal(data: memoryview, at: int, tsc: int, table: memoryview) -> None:
    """A domain is gone: its vCPUs' states mean nothing any more."""
    header = data[at]
    if (header >> records.EXTRA_SHIFT) & records.EXTRA_MASK != 1:
        return
    domain = data[at + 3 if header & records.TSC_FLAG else at + 1]
    slot = table[runstate_words.FIRST_SLOT]
    end = slot + table[runstate_words.SLOTS] * runstate_words.SLOT_WORDS
    while slot < end:
        vcpu = table[slot]
        if vcpu != runstate_words.NOBODY and vcpu >> 16 == domain:
            _set_state(table, vcpu, runstate_words.UNKNOWN, runstate_words.NOBODY, tsc)
        slot += runstate_words.SLOT_WORDS


def _entry(table: memoryview, vcpu: int) -> int:
    """The vCPU's slot, by open addressing; there is always an empty slot to end the search."""
    slots = table[runstate_words.SLOTS]
    hashed = (vcpu * runstate_words.HASH_FACTOR) & runstate_words.WORD_MASK
    index = hashed >> table[runstate_words.HASH_SHIFT]
    while True:
        slot = table[runstate_words.FIRST_SLOT] + index * runstate_words.SLOT_WORDS
        if table[slot] == vcpu:
            return slot
        if table[slot] == runstate_words.NOBODY:
            break
        index = (index + 1) & (slots - 1)
    if table[runstate_words.USED] == table[runstate_words.CAPACITY]:
        if table[runstate_words.OVERFLOW] != runstate_words.WORD_MASK:
            table[runstate_words.OVERFLOW] += 1
        return 0
    table[runstate_words.USED] += 1
    table[slot] = vcpu
    return slot
