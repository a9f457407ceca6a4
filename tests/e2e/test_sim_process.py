"""The simulated hypervisor as a process: what it did is what its truth says and what its
records say, and it outlives whom it should outlive."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.machines import GuestAccount, Taker, total
from tests.support.sim import Hypervisor
from tracelib.errors import LockedError, SourceError
from tracelib.records import CPU_CHANGE, LOST_RECORDS, make_record, parse_lost
from xtraced.sources import Masks
from xtraced.sources.sim import abi, connection
from xtraced.sources.sim.abi import Fault, Op
from xtraced.sources.sim.client import SimSource
from xtraced.sources.sim.options import SimOptions

EVERYTHING = Masks(0x0FFFF000, None)
XENALYZE = shutil.which("xenalyze")


@contextmanager
def opened(options: SimOptions, pages: int = 32) -> Iterator[SimSource]:
    source = SimSource(options, pages=pages)
    source.open()
    try:
        source.set_masks(EVERYTHING)
        yield source
    finally:
        source.close()


def ask_truth(source: SimSource) -> dict:
    return json.loads(source.ask(Op.TRUTH).payload)


def ask_until(source: SimSource, condition: Callable[[dict], bool]) -> dict:
    """The truth as soon as it is so; each answer takes the machine a turn of its loop."""
    while not condition(truth := ask_truth(source)):
        pass
    return truth


def capture(pages: int = 64, **options) -> tuple[Taker, dict]:
    """Everything that a machine with a limit produces, and its truth."""
    with opened(SimOptions(**options), pages) as source:
        taker = Taker(source)
        source.enable()
        taker.drain_until_finished()
        truth = ask_truth(source)
    return taker, truth


@contextmanager
def standalone(path: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """Started as from a shell; killed at the end if it still runs."""
    command = [sys.executable, "-m", "xtraced.sources.sim", f"--socket={path}", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"listening at {path}\n"
            yield process
        finally:
            process.kill()


def wait_until_stopped(machine: Hypervisor) -> None:
    """Until it has seen the nonsense."""
    while machine.info().enabled:
        pass


def test_what_was_taken_is_what_was_produced():
    """Without loss: per event, per CPU, and every fact about the guests, exactly."""
    taker, truth = capture(cpus=2, rate=10_000_000, limit=100_000, deterministic=True)
    assert total(truth, "dropped") == 0
    assert taker.counted() == {
        int(event, 16): count["produced"] for event, count in truth["events"].items()
    }
    for cpu, records in taker.records().items():
        said = truth["cpus"][str(cpu)]
        assert len(records) == said["produced"] == said["inserted"]
        assert sum(len(r.encode()) for r in records) == said["produced_bytes"]
    account = GuestAccount().read({int(cpu): data for cpu, data in taker.taken.items()})
    for vcpu in truth["vcpus"]:
        seen = account.vcpus[(vcpu["domain"], vcpu["vcpu"])]
        assert vcpu["runstates"] == {
            "running": seen.running, "runnable": seen.runnable, "blocked": seen.blocked
        }  # fmt: skip
        assert vcpu["exits"] == {
            str(reason): {"count": count, "cycles": cycles, "span": span}
            for reason, (count, cycles, span) in seen.exits.items()
        }
        assert vcpu["hypercalls"] == {str(call): n for call, n in seen.hypercalls.items()}
        assert vcpu["subcalls"] == {str(call): n for call, n in seen.subcalls.items()}


def test_what_was_not_taken_was_lost_and_said_so():
    """One-page rings, seldom drained: produced = inserted + dropped, per event too; dropped
    = told by lost records + forgotten at disable + never told."""
    with opened(SimOptions(cpus=2, rate=20_000_000), pages=1) as source:
        taker = Taker(source)
        source.enable()
        for round_ in range(1, 11):
            ask_until(source, lambda truth, wanted=500 * round_: total(truth, "dropped") > wanted)
            taker.drain()
        source.disable()
        taker.drain()
        truth = ask_truth(source)
    assert total(truth, "produced") == total(truth, "inserted") + total(truth, "dropped")
    for cpu, records in taker.records().items():
        said = truth["cpus"][str(cpu)]
        marks = [parse_lost(r.extra) for r in records if r.event == LOST_RECORDS]
        assert said["dropped"] == said["reported"] + said["forgotten"] + said["pending"]
        assert sum(mark.count for mark in marks if mark) == said["reported"]
        assert len(marks) == said["lost_records"]
        assert len(records) - len(marks) == said["inserted"]
    kept = taker.counted()
    for event, count in truth["events"].items():
        assert kept[int(event, 16)] == count["produced"] - count["dropped"]


def test_same_seed_same_records_in_another_process():
    options = {"cpus": 2, "rate": 20_000_000, "limit": 50_000, "deterministic": True}
    first, _ = capture(seed=3, **options)
    again, _ = capture(seed=3, **options)
    other, _ = capture(seed=4, **options)
    assert first.records() == again.records()
    assert first.records() != other.records()


def test_offline_cpus():
    """R22: max id 7, ids 0, 2, 4, 6: four rings, numbers kept."""
    taker, truth = capture(
        cpus=8, offline=frozenset({1, 3, 5, 7}), rate=10_000_000, limit=20_000
    )
    assert list(taker.taken) == [0, 2, 4, 6]
    assert all(taker.records().values())
    assert list(truth["cpus"]) == ["0", "2", "4", "6"]
    assert taker.source.hypervisor.cpus == 8


@pytest.mark.skipif(XENALYZE is None, reason="xenalyze is not installed")
def test_xenalyze_accepts_a_capture(tmp_path: Path):
    """Its only complaint is of the emulated timer (0x84004), an event it does not know; its
    count of hypercalls is ours."""
    taker, truth = capture(cpus=3, rate=20_000_000, limit=100_000, deterministic=True)
    path = tmp_path / "sim.trace"
    with path.open("wb") as file:
        for cpu, data in taker.taken.items():
            file.write(make_record(CPU_CHANGE, cpu, len(data)) + data)
    done = subprocess.run(
        [XENALYZE, "--cpu-hz=2.4G", "--summary", path],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    complaints = {
        line for line in done.stderr.splitlines()
        if line.startswith(("FATAL", "Unknown", "Strange", "WARN", "error"))
    }  # fmt: skip
    assert complaints <= {
        "Unknown hvm event: 84004",
        # Exits that leave no record of a handler, in Xen neither.
        "Strange, exit 28(PAUSE_INSTRUCTION) missing a handler",
    }
    said = Counter[str]()
    for line in done.stdout.splitlines():
        name, _, count = line.strip().partition(":")
        if name.endswith("]") and "[" in name and count.strip().isdigit():
            said[name.split("[")[1].strip(" ]")] += int(count)
    assert said["23"] == sum(v["hypercalls"].get("23", 0) for v in truth["vcpus"])


def test_hypervisor_outlives_a_consumer_that_is_killed(tmp_path: Path):
    """R29: after kill -9 the event channel is free; rings, masks and tracing are as they
    were left."""
    with Hypervisor(tmp_path / "m", cpus=2, rate=20_000_000) as machine:
        program = (
            "import sys, pathlib; from xtraced.sources.sim.client import SimSource\n"
            "from xtraced.sources.sim.options import SimOptions\n"
            "from xtraced.sources import Masks\n"
            "s = SimSource(SimOptions(socket=pathlib.Path(sys.argv[1])), pages=8); s.open()\n"
            "s.set_masks(Masks(0x0008F000, None)); s.enable(); print('ready', flush=True)\n"
            "sys.stdin.read()\n"
        )
        command = [sys.executable, "-c", program, str(machine.socket)]
        consumer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with consumer:
            assert consumer.stdout is not None
            assert consumer.stdout.readline() == b"ready\n"
            second = SimSource(SimOptions(socket=machine.socket), pages=8)
            with pytest.raises(LockedError):
                second.open()
            consumer.kill()
        assert machine.info().enabled
        second.open()
        assert second.masks_in_force() == Masks(0x0008F000, None)
        taker = Taker(second)
        while not taker.drain():
            taker.wait_for_event(0.05)
        second.close()


def test_spawned_hypervisor_has_its_own_session_and_ends_with_its_consumer(tmp_path: Path):
    """A terminal's SIGINT does not reach it; its truth is on disk when close returns."""
    truth = tmp_path / "truth.json"
    with opened(SimOptions(cpus=1, truth=truth)) as source:
        pid = source.pid
        assert pid is not None
        assert os.getsid(pid) == pid
        assert not truth.exists()
    assert json.loads(truth.read_text())["seed"] == 1
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none/truth.json", r"/none/truth\.json.*No such file or directory"),
        ("file/truth.json", r"/file/truth\.json.*Not a directory"),
        ("", "Is a directory"),
    ],
)
def test_truth_that_could_not_be_written_is_refused_at_the_start(tmp_path: Path, name, reason):
    """Not at the end, when it is too late; neither by a source nor by a shell."""
    (tmp_path / "file").touch()
    truth = tmp_path / name
    source = SimSource(SimOptions(cpus=1, truth=truth), pages=8)
    with pytest.raises(SourceError, match=reason):
        source.open()
    command = [sys.executable, "-m", "xtraced.sources.sim", f"--socket={tmp_path}/s"]
    done = subprocess.run(
        [*command, f"--truth={truth}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert re.search(reason, done.stderr)
    assert not (tmp_path / "s").exists()


def test_trying_the_truth_leaves_nothing(tmp_path: Path):
    with opened(SimOptions(cpus=1, truth=tmp_path / "truth.json")):
        assert list(tmp_path.iterdir()) == []


def wait_for_events(taker: Taker) -> None:
    """As long as any come."""
    while taker.wait_for_event():
        pass


def test_hypervisor_that_dies_is_noticed_at_once_and_its_rings_can_still_be_drained():
    """Whoever waits for an event wakes; what was traced is there; nothing hangs."""
    with opened(SimOptions(cpus=1, rate=20_000_000)) as source:
        taker = Taker(source)
        source.enable()
        assert taker.wait_for_event()
        assert source.pid is not None
        os.kill(source.pid, signal.SIGKILL)
        with pytest.raises(SourceError, match="the simulated hypervisor is gone"):
            wait_for_events(taker)
        for ask in (source.finished, source.masks_in_force, source.disable):
            with pytest.raises(SourceError, match="the simulated hypervisor is gone"):
                ask()
        assert source.read_tsc() is None
        assert taker.drain() > 0


def test_hypervisor_that_goes_while_others_listen(tmp_path: Path):
    """The same for one that was attached to, and ended in good order."""
    with Hypervisor(tmp_path / "m", cpus=1) as machine:
        source = SimSource(SimOptions(socket=machine.socket), pages=8)
        source.open()
        machine.close()
        with pytest.raises(SourceError, match=r"at .*/m/sim\.sock is gone"):
            Taker(source).wait_for_event()
        source.close()


def test_hypervisor_that_hangs_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch):
    """A late answer, descriptors and all, is not taken for that of the next request."""
    with opened(SimOptions(cpus=1)) as source:
        pid, links = source.pid, Path("/proc/self/fd")
        assert pid is not None
        before = len(list(links.iterdir()))
        os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr(source._connection, "_patience", 0.05)
        monkeypatch.setattr(connection, "AGAIN_TIMEOUT", 0.05)
        for op in (Op.MAP, Op.READ_CLOCK):
            with pytest.raises(SourceError, match="does not answer: timed out"):
                source.ask(op)
        os.kill(pid, signal.SIGCONT)
        monkeypatch.setattr(connection, "AGAIN_TIMEOUT", 60.0)
        assert source.masks_in_force() == EVERYTHING
        assert len(list(links.iterdir())) == before


def test_hypervisor_that_hangs_is_ended_with_its_source(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection, "_END_TIMEOUT", 0.05)
    with opened(SimOptions(cpus=1)) as source:
        pid = source.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_standalone_ends_with_its_last_connection(tmp_path: Path):
    path = tmp_path / "s"
    with standalone(path) as process:
        with opened(SimOptions(socket=path), pages=1):
            assert process.poll() is None
        assert process.wait(30) == 0
    assert not path.exists()


def test_standalone_that_is_kept_ends_with_sigterm(tmp_path: Path):
    path, truth = tmp_path / "s", tmp_path / "truth.json"
    with standalone(path, "--keep", f"--truth={truth}", "--cpus=1") as process:
        for _ in range(2):
            with opened(SimOptions(socket=path), pages=1) as source:
                source.enable()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert list(json.loads(truth.read_text())["cpus"]) == ["0"]


def test_socket_or_connection_is_required():
    done = subprocess.run(
        [sys.executable, "-m", "xtraced.sources.sim"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--socket is required" in done.stderr


def test_socket_that_cannot_be(tmp_path: Path):
    command = [sys.executable, "-m", "xtraced.sources.sim", f"--socket={tmp_path}/none/s"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        f"xtraced.sources.sim: cannot listen at {tmp_path}/none/s: No such file or directory"
        " (ENOENT)\n"
    )


def test_rubbish_on_the_socket_hurts_nobody(tmp_path: Path):
    with Hypervisor(tmp_path / "m", cpus=1) as machine:
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        peer.connect(str(machine.socket))
        answers = []
        for packet in (b"x", abi.HEADER.pack(99, 0, 0), abi.HEADER.pack(Op.FAULT, 0, 77 << 32)):
            peer.send(packet)
            answers.append(abi.HEADER.unpack_from(peer.recv(abi.PACKET_BYTES))[1])
        assert answers == [errno.EINVAL, errno.ENOSYS, errno.EINVAL]
        peer.close()
        assert machine.info().pages == 0


def test_truth_can_be_counted_anew():
    with opened(SimOptions(cpus=1, rate=20_000_000, limit=5000)) as source:
        taker = Taker(source)
        source.enable()
        taker.drain_until_finished()
        first = json.loads(source.ask(Op.TRUTH, 1).payload)
        second = ask_truth(source)
    assert total(first, "produced") >= 5000
    assert total(second, "produced") == 0
    assert second["events"] == {}
    assert all(vcpu["exits"] == {} and vcpu["changes"] == 0 for vcpu in second["vcpus"])


def test_clock_is_read_whole(tmp_path: Path):
    with Hypervisor(tmp_path / "m", cpus=1, tsc_hz=1_000_000_000) as machine:
        reply = machine.ask(Op.READ_CLOCK)
        tsc, realtime, monotonic = abi.CLOCK.unpack(reply.payload)
    assert reply.value == tsc
    assert tsc == pytest.approx(monotonic, rel=0.001)
    assert realtime > 1_600_000_000 * 10**9


def test_hypervisor_that_never_notifies():
    """R28: records come, events do not."""
    options = SimOptions(cpus=1, rate=20_000_000, faults=frozenset({"no-notify"}))
    with opened(options, pages=1) as source:
        source.enable()
        truth = ask_until(source, lambda truth: truth["cpus"]["0"]["notified"] > 0)
        assert source.acknowledge() == 0
        assert Taker(source).drain() > 0
    assert truth["delivered"] == 0


def test_bogus_producer_index_stops_tracing(tmp_path: Path):
    """R26: on all CPUs, and switching it on again does not help."""
    with Hypervisor(tmp_path / "m", cpus=2, rate=20_000_000, tbuf_pages=4) as machine:
        machine.inject(Fault.BOGUS_PROD, 1)
        source = SimSource(SimOptions(socket=machine.socket), pages=4)
        source.open()
        assert source.rings[1].words[1] == 0xFFFFFFFC
        source.set_masks(EVERYTHING)
        for _ in range(2):
            source.enable()
            wait_until_stopped(machine)
        source.close()


def test_bogus_consumer_index_stops_tracing(tmp_path: Path):
    """R26: a consumer that writes nonsense has Xen stop."""
    with Hypervisor(tmp_path / "m", cpus=2, rate=20_000_000) as machine:
        source = SimSource(SimOptions(socket=machine.socket), pages=4)
        source.open()
        source.set_masks(EVERYTHING)
        source.rings[0].words[0] = 2
        source.enable()
        wait_until_stopped(machine)
        source.close()


def test_physinfo_is_the_struct_that_abi_says(tmp_path: Path):
    with Hypervisor(tmp_path / "m", cpus=3, family="svm") as machine:
        payload = machine.ask(Op.PHYSINFO).payload
    assert struct.unpack_from("<III", payload) == (abi.ABI_VERSION, 3, 2)
    assert abi.PhysInfo.decode(payload).cpu_vendor == "AuthenticAMD"
