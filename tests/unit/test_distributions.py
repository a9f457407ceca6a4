"""Events one by one: right values, and none that a loss has cut."""

import struct
from collections import defaultdict

import pytest

from tests.support.analysis import (
    BLOCKED,
    HZ,
    RUNNABLE,
    RUNNING,
    MemoryReader,
    change,
    vmentry,
    vmexit,
)
from tests.support.machines import take
from tests.support.uncompiled import load_uncompiled
from tests.support.xentrace import lost
from tracelib.analysis import codes, notes
from tracelib.analysis.analyze import Analyzer
from tracelib.analysis.distributions import WHATS, Distribution
from tracelib.analysis.forms import Forms
from tracelib.clock import Clock, Rate
from tracelib.events.exits import exit_name
from tracelib.reading import open as open_trace
from tracelib.records import make_record
from tracelib.units import Nanoseconds, Tsc
from tracelib.xentrace.format import CPU_CHANGE_HEADER
from xtraced.sources.sim.hypervisor import Hypervisor
from xtraced.sources.sim.options import SimOptions
from xtraced.sources.sim.truth import truth
from xtraced.sources.sim.workload import GuestWorkload

IDLE = 0x7FFF


def distribution(what, payloads, *, reader=None, chunk_records=2, **options):
    """(tsc, vCPU, label, value, address) of each point, through chunks of a few records."""
    reader = reader or MemoryReader(payloads, chunk_records=chunk_records)
    found: list = []
    made: list = []

    def take(notes):
        points = made[0].points(notes)
        found.extend(
            (tsc, made[0].owner(vcpu).name, made[0].labels[label], value, address)
            for tsc, value, vcpu, label, address in zip(
                points.tsc.tolist(), points.value.tolist(), points.vcpu.tolist(),
                points.label.tolist(), points.address.tolist(), strict=True,
            )
        )

    clock = Clock(Tsc(0), Rate(HZ, "test"))
    analyzer = Analyzer(
        reader, clock, Forms(family=None, version=None), noted=WHATS[what].noted,
        take_notes=take, **options,
    )
    made.append(Distribution(what, analyzer.analysis, vendor="vmx"))
    analyzer.run()
    return found


def running(*records, vcpu=0):
    return [change(1000, 1, vcpu, RUNNABLE, RUNNING), *records]


def test_exits_one_by_one():
    """The cost is without the time off the CPU; the address is the exit's."""
    records = running(
        vmexit(2000, 48), vmentry(2300), vmexit(3000, 12), change(3100, 1, 0, RUNNING, BLOCKED),
        change(9000, 1, 0, BLOCKED, RUNNING), vmentry(9050), vmexit(9500, 30),
    )
    assert distribution("exit", {0: records}) == [
        (2000, "d1v0", "EPT_VIOLATION", 300, 0x1000), (3000, "d1v0", "HLT", 150, 0x1000),
    ]


@pytest.mark.parametrize(
    ("words", "address"), [((30,), 0), ((30, 0x89ABCDEF), 0x89ABCDEF),
                           ((30, 0x81000010, 0xFFFFFFFF), 0xFFFFFFFF81000010)],
)  # fmt: skip
def test_addresses_of_every_width(words, address):
    exit_record = make_record(0x81102 if len(words) == 3 else 0x81002, *words, tsc=2000)
    (point,) = distribution("exit", {0: running(exit_record, vmentry(2100))})
    assert point[4] == address


def test_what_a_loss_cuts_is_not_there():
    """R12: neither the exit nor any spell that the gap touches."""
    records = running(
        vmexit(2000, 48), lost(9000, 7, 2500, dom=1, vcpu=0), vmentry(9100),
        vmexit(9200, 48), vmentry(9300), change(9400, 1, 0, RUNNING, BLOCKED),
        change(9900, 1, 0, BLOCKED, RUNNABLE), change(9950, 1, 0, RUNNABLE, RUNNING),
    )
    assert [point[0] for point in distribution("exit", {0: records})] == [9200]
    assert distribution("runstate", {0: records}) == [
        (9400, "d1v0", "slept", 500, 0), (9900, "d1v0", "woken", 50, 0),
    ]


def test_io_is_the_whole_time_by_port():
    """A port's latency includes the time in which the vCPU was blocked."""
    records = running(
        vmexit(2000, 30), make_record(0x82216, 0x3F8, 65), change(2100, 1, 0, RUNNING, BLOCKED),
        change(7000, 1, 0, BLOCKED, RUNNING), vmentry(7500),
        vmexit(8000, 30), make_record(0x82016, 0x60, 1), vmentry(8200),
        vmexit(8300, 10), vmentry(8400),
    )
    assert distribution("io", {0: records}) == [
        (2000, "d1v0", "ioport_write port=0x3f8", 5500, 0x1000),
        (8000, "d1v0", "ioport_read port=0x60", 200, 0x1000),
    ]


def test_interrupts_by_vector():
    records = running(vmexit(2000, 1), make_record(0x8200F, 0xFB), vmentry(2700))
    (point,) = distribution("interrupt", {0: records})
    assert point[0] == 2000
    assert point[2].startswith("intr vector=0xfb")
    assert point[3] == 700


WAITS = [
    change(1000, 1, 0, RUNNABLE, RUNNING), change(2000, 1, 0, RUNNING, BLOCKED),
    change(5000, 1, 0, BLOCKED, RUNNABLE), change(5200, 1, 0, RUNNABLE, RUNNING),
    change(6000, 1, 0, RUNNING, RUNNABLE), change(6700, 1, 0, RUNNABLE, RUNNING),
    change(7000, 1, 0, RUNNING, BLOCKED), change(8000, 1, 0, BLOCKED, RUNNING),
    change(8100, 1, 0, RUNNING, BLOCKED),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("wake", [(5000, "woken", 200)]),
        ("wait", [(5000, "woken", 200), (6000, "preempted", 700)]),
        ("runstate", [
            (1000, "ran", 1000), (2000, "slept", 3000), (5000, "woken", 200), (5200, "ran", 800),
            (6000, "preempted", 700), (6700, "ran", 300), (7000, "slept", 1000),
            (8000, "ran", 100),
        ]),
        ("halt", [(5000, "awake", 2000), (8000, "awake", 100)]),
    ],
)  # fmt: skip
def test_runstates(what, expected):
    """Waits by their cause; from being woken to blocking again, through all in between."""
    found = distribution(what, {0: WAITS})
    assert [(tsc, label, value) for tsc, _, label, value, _ in found] == expected


def test_a_span_of_its_own():
    """What begins before `since`, or ends after `until`, is no whole interval in it."""
    found = distribution("runstate", {0: WAITS}, since=Tsc(3000), until=Tsc(7500))
    assert [point[0] for point in found] == [5000, 5200, 6000, 6700]


def test_values_of_records():
    """R48: 64 bits, exactly. Only cr3 of all control registers."""
    big = 0x123456789ABCDEF0
    low, high = big & 0xFFFFFFFF, big >> 32
    records = running(
        vmexit(2000, 16), make_record(0x8201A, low, high), vmentry(2100),
        vmexit(3000, 28), make_record(0x82109, 3, low, high), vmentry(3100),
        vmexit(4000, 28), make_record(0x82009, 3, 0x1000), vmentry(4100),
        vmexit(5000, 28), make_record(0x82109, 4, low, high), vmentry(5100),
    )
    (point,) = distribution("rdtsc", {0: records})
    assert point[:4] == (2000, "d1v0", "rdtsc", big)
    found = distribution("cr3", {0: records})
    assert [(point[0], point[3]) for point in found] == [(3000, big), (4000, 0x1000)]


def test_interrupts_of_devices():
    """Both time stamps are the low halves: the counter may pass 2^32 between them."""
    records = running(make_record(0x802008, 9, 0xFFFFFF00, 0x40, tsc=1 << 33))
    (point,) = distribution("irq", {0: records})
    assert point[2:4] == ("irq 9", 0x140)


def test_nobody_knows_who_ran():
    """No runstate record: exits are paired by CPU, of an unknown vCPU."""
    (point,) = distribution("exit", {0: [vmexit(2000, 10), vmentry(2100)]})
    assert point[1] == "d?v?"


def test_handed_over():
    """It turns out at its end who made the exit: the address goes along."""
    records = [vmexit(2000, 10), vmentry(2100), vmexit(2500, 12),
               change(2600, 1, 0, RUNNING, BLOCKED), change(2700, 1, 0, BLOCKED, RUNNING),
               vmentry(2800)]  # fmt: skip
    found = distribution("exit", {0: records})
    assert found[-1] == (2500, "d1v0", "HLT", 200, 0x1000)


def test_nothing():
    for what in WHATS:
        assert distribution(what, {0: [make_record(0x21011, 1, tsc=5000)]}) == []


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    path = tmp_path_factory.mktemp("sim") / "x.trace"
    return path, simulate(path)


def totals(path, what, *chosen):
    """Numbers and sums of a simulated machine's points, by some of their columns."""
    found: defaultdict = defaultdict(lambda: [0, 0])
    reader = open_trace(path)
    for point in distribution(what, {}, reader=reader):
        total = found[tuple(point[column] for column in chosen)]
        total[0] += 1
        total[1] += point[3]
    reader.close()
    return dict(found)


def test_exits_of_the_simulated_machine(simulated):
    """The truth file's counts and cycles of each vCPU and reason, to the last digit."""
    path, told = simulated
    expected = {
        (f"d{vcpu['domain']}v{vcpu['vcpu']}", exit_name("vmx", int(reason))): [
            counted["count"], counted["cycles"]
        ]
        for vcpu in told["vcpus"] if vcpu["kind"] != "idle"
        for reason, counted in vcpu["exits"].items()
    }
    found = totals(path, "exit", 1, 2)
    assert found == {key: total for key, total in expected.items() if total[0]}
    assert sum(number for number, _ in found.values()) > 1000


def test_runstates_of_the_simulated_machine(simulated):
    """The truth counts whole spells, as we do."""
    path, told = simulated
    found = totals(path, "runstate", 1, 2)
    for vcpu in told["vcpus"]:
        if vcpu["kind"] == "idle":
            continue
        name = f"d{vcpu['domain']}v{vcpu['vcpu']}"
        number = {key[1]: total for key, total in found.items() if key[0] == name}
        sums = {label: total[1] for label, total in number.items()}
        states = vcpu["runstates"]
        assert sums.get("ran", 0) == states["running"]
        assert sums.get("slept", 0) == states["blocked"]
        assert sums.get("woken", 0) + sums.get("preempted", 0) == states["runnable"]
        assert sum(total[0] for total in number.values()) == vcpu["changes"] - 1


def test_compiled_and_plain_notes_are_equal():
    """Rows grow and are taken, in both forms."""
    taken = []
    for module in (notes, load_uncompiled(notes)):
        rows = module.Notes(codes.WANT_EXITS)
        for number in range(1000):
            at = rows.add(codes.EXITED, number, 3, number << 40, (1 << 64) - 1 - number)
            rows.cells[at] = number
        first = rows.take()
        rows.add(codes.SPELL, 1, 2, 3, 4)
        taken.append((first, rows.rows, rows.take()[:40], rows.rows))
    assert taken[0] == taken[1]
    assert taken[0][1] == 1
    assert len(taken[0][0]) == 1000 * 8 * codes.NOTE_COLUMNS


def simulate(path):
    """A machine run for 300 ms into an xentrace file; its truth."""
    options = SimOptions(cpus=3, rate=5_000_000, domains=3, deterministic=True, family="vmx")
    hypervisor = Hypervisor(options.online(), options.cpus)
    hypervisor.set_size(64)
    now = 10**9
    workload = GuestWorkload(options, hypervisor, Nanoseconds(now))
    workload.start(Nanoseconds(now))
    with path.open("wb") as out:
        for _ in range(150):
            now += 2_000_000
            workload.advance(Nanoseconds(now))
            for cpu, words in hypervisor.memory.rings.items():
                payload = take(words)
                out.write(struct.pack("<III", CPU_CHANGE_HEADER, cpu, len(payload)) + payload)
    told = truth(options, hypervisor, workload.engine)
    assert all(cpu["dropped"] == 0 for cpu in told["cpus"].values())
    return told
