"""`xtracectl dump`: four formats of the same records."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter

import pytest

from tests.support import captures
from tests.support.captures import SHARED, SHARED_NAMES, capture, expected
from tests.support.xentrace import lost, noise, timed, window
from tests.support.xtracectl import info, lines, output, run
from tracelib.records import make_record

RATE = ("--cpu-hz", "2445400000")


@pytest.fixture
def made(tmp_path):
    """Writes windows to a file."""

    def write(*windows: bytes):
        path = tmp_path / "made.trace"
        path.write_bytes(b"".join(windows))
        return path

    return write


def test_text(made):
    path = made(
        window(0, timed(1_000_000), make_record(0x82012, 5)),
        window(10, make_record(0x21201, 1 << 16 | 3, tsc=1_500_000), timed(4_000_000_000)),
        window(0, lost(2_000_000_001, 57, 1_700_000)),
    )
    assert output("dump", path, "--cpu-hz", "1G").splitlines() == [
        "    0.000000000    0 -        wake                     vcpu=d0v1",
        "    0.000000000~   0 -        vmmcall                  eax=fpu_taskswitch",
        "    0.000500000   10 d1v3     runstate_change          vcpu=d1v3 old=blocked new=running",
        "    1.999000001    0 -        LOST                     "
        "57 records since 0.000700000 (ring_full)",
        "    3.999000000   10 d1v3     wake                     vcpu=d0v1",
    ]


def test_text_without_a_rate(made):
    """R47: cycles, and a word about it."""
    done = run("dump", made(window(0, timed(0xFEDCBA9876543210), timed(0xFEDCBA9876543211))))
    assert done.stdout.decode().splitlines() == [
        "18364758544493064720    0 -        wake                     vcpu=d0v1",
        "18364758544493064721    0 -        wake                     vcpu=d0v1",
    ]
    assert b"the clock rate is not known: times are in cycles" in done.stderr


def test_the_rate_used_is_stated(made):
    """R47"""
    done = run("dump", made(window(0, timed(5))), "--cpu-hz", "2100M")
    assert b"at 2100000000 Hz (--cpu-hz)" in done.stderr


@pytest.mark.parametrize(
    ("vendor", "name"), [("intel", "CPUID"), ("vmx", "CPUID"), ("AMD", "CR10_READ")]
)
def test_whose_reasons_those_are(made, vendor, name):
    """R32: by a name of the vendor or of its virtualization, as for summary."""
    path = made(window(0, make_record(0x81002, 10, 0, tsc=5)))
    line = json.loads(output("dump", path, "--format", "json", "--vendor", vendor))
    assert line["fields"]["reason_name"] == name


def test_a_vendor_that_there_is_not(made):
    done = run("dump", made(window(0, timed(5))), "--vendor", "via")
    assert done.returncode == 2
    assert b"intel (vmx), amd (svm) or powerpc (ppc)" in done.stderr


def test_json(made):
    """R48: 64-bit values are strings, and neighbours stay apart in any reader."""
    first = 0xFEDCBA9876543210
    path = made(window(3, timed(first), timed(first + 1, 0x10F002, 9)))
    assert lines(path) == [
        {"type": "record", "tsc": str(first), "cpu": 3, "running": None,
         "event": "wake", "id": "28004", "fields": {"dom": 0, "vcpu": 1}},
        {"type": "record", "tsc": str(first + 1), "cpu": 3, "running": None,
         "event": "page_grant_unmap", "id": "10f002", "fields": {"dom": 9}},
    ]  # fmt: skip
    # What a reader with doubles for all numbers makes of it.
    doubles = [
        json.loads(line, parse_int=float)
        for line in output("dump", "--format", "json", path).splitlines()
    ]
    assert int(doubles[1]["tsc"]) - int(doubles[0]["tsc"]) == 1


def test_json_with_a_rate(made):
    untimed = make_record(0x82012, 5)
    path = made(window(0, untimed, timed(1000), untimed, timed(3000)))
    got = lines(path, "--cpu-hz", "1M")
    assert [(one["tsc"], one["ns"], one.get("timed", True)) for one in got] == [
        (None, None, False), ("1000", 0, True), ("1000", 0, False), ("3000", 2_000_000, True)
    ]


def test_json_of_unknown_events(made):
    """R34"""
    odd = make_record(0x0FFFFFFF, *range(7), tsc=10)
    classes = [make_record(1 << bit | 1, bit, tsc=11) for bit in range(16, 28)]
    guest = make_record(0x0800F005, 1, tsc=12)
    idle = make_record(0x21201, 0x7FFF << 16, tsc=13)
    got = lines(made(window(0, odd, *classes, guest, idle, make_record(0x81001, tsc=14))))
    assert got[0]["event"] is None
    assert (got[0]["id"], got[0]["words"]) == ("fffffff", [0, 1, 2, 3, 4, 5, 6])
    assert [one["id"] for one in got[1:13]] == [f"{1 << bit | 1:05x}" for bit in range(16, 28)]
    assert got[13]["event"] == "guest_event"
    assert (got[-1]["event"], got[-1]["running"]) == ("vmentry", "idlev0")


def test_csv(made):
    path = made(window(0, timed(1000), lost(2000, 7, 1500)))
    text = output("dump", "--format", "csv", "--cpu-hz", "1G", path)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["tsc"], row["ns"], row["cpu"], row["event"]) for row in rows] == [
        ("1000", "0", "0", "wake"), ("2000", "1000", "0", "loss")
    ]
    assert [rows[0][f"w{number}"] for number in range(4)] == ["0", "1", "", ""]
    assert rows[0]["fields"] == "vcpu=d0v1"
    assert rows[1]["fields"] == "cause=ring_full records=7 first_tsc=1500"
    assert all(len(line.split(",")) >= 15 for line in text.splitlines())


@pytest.mark.parametrize("name", ["boot4.trace", "probe4.trace", "idle.trace", "pvh-hvm.trace"])
def test_real_captures_in_every_format(name, tmp_path):
    """R13: as many lines as records, losses among them; xentrace's own byte for byte."""
    path = captures.write(name, tmp_path)
    count = expected()[name]["records"]
    marks = expected()[name]["per_event"].get("1f001", 0)
    text = output("dump", path, *RATE).splitlines()
    assert len(text) == count
    assert sum(" LOST " in line for line in text) == marks
    assert [line[:15] for line in text] == sorted(line[:15] for line in text)
    objects = output("dump", "--format", "json", path, *RATE).splitlines()
    assert len(objects) == count
    assert sum(line.startswith('{"type":"loss"') for line in objects) == marks
    json.loads(f"[{','.join(objects)}]")
    assert len(output("dump", "--format", "csv", path).splitlines()) == count + 1


@pytest.mark.parametrize("name", captures.NAMES)
def test_real_captures_come_back_byte_for_byte(name):
    done = run("dump", "--format", "xentrace", "-", data=capture(name))
    assert done.stdout == capture(name)


@pytest.mark.skipif(not SHARED_NAMES, reason="no folder shared/traces beside the checkout")
@pytest.mark.parametrize("name", SHARED_NAMES)
def test_all_shared_captures_come_back_byte_for_byte(name):
    assert run("dump", "--format", "xentrace", SHARED / name).stdout == (SHARED / name).read_bytes()


def test_times_are_in_order_and_exact(tmp_path):
    got = lines(captures.write("all4.trace", tmp_path), *RATE)
    tscs = [int(one["tsc"]) for one in got]
    assert tscs == sorted(tscs)
    assert all(
        one["ns"] == (int(one["tsc"]) - tscs[0]) * 10**9 // 2_445_400_000 for one in got[::97]
    )


@pytest.mark.parametrize("filters", [
    ("--cpu", "1"), ("--event", "sched.min,wake"), ("--since", "1s", "--until", "2s", *RATE),
    ("--domain", "0"), ("--limit", "1000"), ("--cpu", "0", "--event", "page_fault"),
])  # fmt: skip
def test_filtered_windows_hold_what_the_lines_show(filters, tmp_path):
    """R13: the binary form of a selection, read again, has the same records and losses."""
    path = captures.write("keepon.trace", tmp_path)
    small = tmp_path / "small.trace"
    assert run("dump", "--format", "xentrace", "-o", small, path, *filters).returncode == 0
    if "--limit" in filters:
        assert info(small)["records"] == 1000
        return
    wanted = [(one["tsc"], one["cpu"], one.get("id")) for one in lines(path, *filters)]
    assert len(wanted) > 100
    assert [(one["tsc"], one["cpu"], one.get("id")) for one in lines(small)] == wanted
    assert info(small)["problems"] == []


@pytest.mark.parametrize("name", captures.NAMES)
def test_cpus_counted_by_a_reader_of_json(name, tmp_path):
    """Events with a field `cpu`, as csched2_tickle has, are still their own CPU's."""
    got = Counter(str(one["cpu"]) for one in lines(captures.write(name, tmp_path)))
    assert got == expected()[name]["per_cpu"]


def test_cpus_keep_their_numbers(made):
    """R22: holes are kept."""
    path = made(*(window(cpu, timed(100 + cpu)) for cpu in (6, 0, 2, 4)))
    assert [one["cpu"] for one in lines(path)] == [0, 2, 4, 6]
    assert list(info(path)["per_cpu"]) == ["0", "2", "4", "6"]


def test_several_inputs_one_after_the_other(made, tmp_path):
    other = tmp_path / "other.trace"
    other.write_bytes(window(1, timed(5)))
    path = made(window(0, timed(1000), timed(1001)))
    assert [one["tsc"] for one in lines(path, other)] == ["1000", "1001", "5"]
    assert [one["tsc"] for one in lines(path, other, "--limit", "1")] == ["1000"]
    assert len(output("dump", "--format", "csv", path, other).splitlines()) == 4


def test_limit_over_several_inputs_in_windows(made, tmp_path):
    other = tmp_path / "other.trace"
    other.write_bytes(window(1, timed(5), timed(6)))
    path = made(window(0, timed(1000), timed(1001)))
    for limit, records in ((0, 0), (1, 1), (3, 3), (9, 4)):
        done = run("dump", "--format", "xentrace", "--limit", str(limit), path, other, "-o",
                   tmp_path / "out")  # fmt: skip
        assert done.returncode == 0
        assert info(tmp_path / "out")["records"] == records


@pytest.mark.parametrize(
    ("program", "magic"),
    [
        ("xz", "fd377a585a000004e6d6b446"), ("gzip", "1f8b0800000000000003"),
        ("zstd", "28b52ffd0458"), ("bzip2", "425a6839314159265359"), ("lz4", "04224d186440"),
    ],
)
def test_compressed_files_are_named(program, magic, tmp_path):
    """What they are, and how to read them all the same; from a pipe, too."""
    path = tmp_path / "x.trace"
    path.write_bytes(bytes.fromhex(magic) + bytes(1000))
    for command in ("dump", "info", "summary", "verify"):
        done = run(command, path)
        assert done.returncode == run(command, _no_trace(tmp_path)).returncode
        assert f"{path}: offset 0: compressed (" in done.stderr.decode()
        assert f"hint: decompress it on the way: {program} -dc {path} |" in done.stderr.decode()
    piped = run("dump", "-", data=path.read_bytes()).stderr.decode()
    assert f"{program} -dc ... | xtracectl dump -" in piped


def _no_trace(folder):
    """A file that is no trace at all."""
    path = folder / "noise"
    path.write_bytes(noise(10_000))
    return path


def test_a_time_of_day_in_a_file_without_anchors(made):
    """The hint leads to what works, in one step."""
    path = made(window(0, timed(1_000_000_000), timed(3_000_000_000)))
    done = run("dump", path, "--since", "2026-11-30T22:00:00")
    assert done.returncode == 2
    assert b"such as 2.5s, and the clock rate: --cpu-hz 2.4G" in done.stderr
    done = run("dump", path, "--since", "2026-11-30T22:00:00", "--cpu-hz", "1G")
    assert done.stderr.rstrip().endswith(b"such as 2.5s")
    assert len(lines(path, "--since", "1.5s", "--cpu-hz", "1G")) == 1
