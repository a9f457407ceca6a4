"""What exits cost in a kvmtrace set: pairs by the process and vCPU that each record names."""

from __future__ import annotations

from tests.support.kvmanalysis import analyze_path, analyze_set, rows_of, section
from tests.support.kvmtrace import Rec, Style, entry, guest, handler, leave, write_set
from tracelib.analysis.volume import volume

HLT, IO = 12, 30


def test_a_pair_is_from_exit_to_entry(tmp_path):
    analysis = analyze_set(tmp_path, {0: guest(1000, 10, cost=300, ran=700)})
    [row] = rows_of(analysis).values()
    assert (row.owner.name, row.cause.reason) == ("pid4711v0", IO)
    assert (row.seen, row.cost.number, row.cost.sum, row.cost.most) == (10, 10, 3000, 300)
    assert row.off_runnable == row.off_blocked == 0
    found = section(analysis)
    assert found.unseen is None
    assert not found.off_cpu_known


def test_pairs_belong_to_the_vcpu_whatever_else_the_cpu_runs(tmp_path):
    """Two guests in turn on one CPU, one of them left while the other one runs."""
    analysis = analyze_set(tmp_path, {0: [
        leave(100, HLT, pid=1), entry(150, pid=2), leave(180, IO, pid=2), entry(190, pid=2),
        leave(200, IO, pid=2), entry(300, pid=1), leave(301, IO, pid=1),
    ]})  # fmt: skip
    rows = rows_of(analysis)
    assert rows["pid1v0", HLT].cost.sum == 200
    assert (rows["pid2v0", IO].cost.sum, rows["pid2v0", IO].cut_end) == (10, 1)
    assert (rows["pid1v0", IO].seen, rows["pid1v0", IO].cut_end) == (1, 1)
    assert sum(section(analysis).lone_entries.values()) == 1


def test_a_vcpu_that_moves_takes_its_exit_along(tmp_path):
    """The exit is in one CPU's file, the entry in another's: merged in time order."""
    analysis = analyze_set(tmp_path, {
        0: [entry(50), leave(100, HLT), entry(900), leave(950, IO)],
        7: [entry(400), leave(600, IO)],
    })
    rows = rows_of(analysis)
    assert rows["pid4711v0", HLT].cost.sum == 300
    assert (rows["pid4711v0", IO].seen, rows["pid4711v0", IO].cost.sum) == (2, 300)
    [vcpu] = [one for one in analysis.engine.states.vcpus if one.who >> 48]
    assert vcpu.moves == 2


def test_two_exits_in_a_row_are_no_pair(tmp_path):
    analysis = analyze_set(tmp_path, {0: [leave(100, IO), leave(200, IO), entry(250)]})
    [row] = rows_of(analysis).values()
    assert (row.seen, row.cost.number, row.cost.sum, row.cut_unseen) == (2, 1, 50, 1)


def test_handlers_share_the_cost_of_their_exit(tmp_path):
    """R43: they carry no time; which exit they are of is told by the vCPU."""
    analysis = analyze_set(tmp_path, {0: [
        handler(0x05, 0x3F8, 1),
        leave(100, IO), leave(110, IO, vcpu=1),
        handler(0x05, 0x60, 1), handler(0x05, 0x70, 1, vcpu=1),
        entry(150), entry(200, vcpu=1),
    ]})  # fmt: skip
    about = {
        (row.owner.name, row.value): (row.event, row.count, row.costed, row.cost)
        for row in section(analysis).handlers
    }
    assert about == {
        ("pid4711v0", 0x3F8): ("kvm_io_read", 1, 0, 0),
        ("pid4711v0", 0x60): ("kvm_io_read", 1, 1, 50),
        ("pid4711v1", 0x70): ("kvm_io_read", 1, 1, 90),
    }


def test_process_numbers_are_no_domains(tmp_path):
    """Neither Xen's idle domain (0x7fff), nor numbers of more than 16 bits, are mixed up."""
    pids = (0x7FFF, 1, 1 + (1 << 16), 1 << 22)
    analysis = analyze_set(
        tmp_path, {0: [rec for at, pid in enumerate(pids) for rec in guest(1000 * at, 1, pid=pid)]}
    )
    assert [owner for owner, _ in rows_of(analysis)] == [
        "pid1v0", "pid32767v0", "pid65537v0", "pid4194304v0",
    ]
    assert [name for name, _ in rows_of(analysis, by="domain")] == [
        "pid1", "pid32767", "pid65537", "pid4194304",
    ]
    assert [name for name, _ in rows_of(analysis, domain=(1 << 32) + 65537)] == ["pid65537v0"]


def test_by_cpu(tmp_path):
    analysis = analyze_set(
        tmp_path, {0: guest(1000, 4), 3: guest(1000, 2, vcpu=1)}, by_cpu=True
    )
    rows = rows_of(analysis, by="cpu")
    assert {name: row.seen for (name, _), row in rows.items()} == {"cpu0": 4, "cpu3": 2}


def test_no_pair_spans_damage(tmp_path):
    """What entered and exited in between, nobody knows."""
    style = Style("timestamp")
    name = write_set(tmp_path, style, {0: [], 1: guest(1000, 3, vcpu=1)})
    data = style.file([entry(900), leave(1000, IO), leave(1001, HLT, vcpu=2)])
    data += b"\xff" * 40 + style.file([entry(90_000), leave(91_000, IO), entry(91_500)])[4:]
    (tmp_path / "guest.kvmtrace.0").write_bytes(data)
    rows = rows_of(analyze_path(name))
    row = rows["pid4711v0", IO]
    assert (row.seen, row.cut_loss, row.cost.number, row.cost.sum) == (2, 1, 1, 500)
    assert rows["pid4711v1", IO].cost.number == 3


def test_volume_by_the_kernels_categories(tmp_path):
    analysis = analyze_set(tmp_path, {0: guest(1000, 10)})
    found = volume(analysis)
    sizes = {name: (amount.records, amount.bytes) for name, amount in found.classes.items()}
    # A head of 12 bytes, 8 of a time, 4 a word: as they lay in the file, without the magic.
    assert sizes == {"kvm.entryexit": (20, 10 * (20 + 12 + 20)), "kvm.handler": (10, 10 * 20)}
    assert found.unseen is None
    assert {name for piece in found.bins for name in piece.amounts} == {"kvm"}


def test_records_of_unknown_numbers_are_only_counted(tmp_path):
    unknown = [Rec(0x10003, (1,), 5000), handler(0x99)]
    analysis = analyze_set(tmp_path, {0: [*guest(1000, 1), *unknown]})
    assert volume(analysis).unknown_events == 2
    assert [row.seen for row in rows_of(analysis).values()] == [1]


def test_times_that_nearly_fill_64_bits_come_to_an_end(tmp_path):
    """The last second of all has no second after it."""
    first = 2**64 - 3500
    analysis = analyze_set(tmp_path, {0: [leave(first, IO), entry(first + 3000)]})
    [row] = rows_of(analysis).values()
    assert (row.cost.number, row.cost.sum) == (1, 3000)
    [only] = volume(analysis).bins
    records = sum(amount.records for amount in only.amounts.values())
    assert (only.start, records) == (first, 2)
