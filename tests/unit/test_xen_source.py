"""The xen source in this process, on stand-ins for Xen's libraries (tests/support/fakexen)."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fakexen import Stage, failing
from tests.support.sim import Hypervisor
from tracelib.errors import LockedError, SourceError
from tracelib.units import CpuId
from xtraced.sources import Masks
from xtraced.sources.sim.abi import Op
from xtraced.sources.xen import libraries
from xtraced.sources.xen.host import Host
from xtraced.sources.xen.hypercalls import Hypercalls
from xtraced.sources.xen.source import XenSource

EVERYTHING = Masks(0x0FFFF000, None)


@pytest.fixture
def stage(request, tmp_path, monkeypatch) -> Iterator[Stage]:
    """Two CPUs, silent until told otherwise: options of the simulation by parameter."""
    options = {"cpus": 2, "rate": 0} | getattr(request, "param", {})
    with Hypervisor(tmp_path / "machine", **options) as machine:
        yield Stage(machine, monkeypatch)


def machine_of(**options) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("stage", [options], indirect=True)


# The sysctl interface version


@pytest.mark.parametrize("version", ["0x12", "0x13", "0x14", "0x15", "0x16", "0x17", "0x20"])
def test_finds_the_interface_version(stage, version):
    stage.tell(sysctl=version)
    source = stage.opened()
    assert [ring.cpu for ring in source.rings] == [0, 1]
    source.close()


def test_a_version_that_nobody_knows(stage):
    stage.tell(sysctl="0x21")
    with pytest.raises(SourceError, match=r"sysctl physinfo: .*\(EACCES\)") as caught:
        stage.opened()
    assert "0x12 to 0x20" in str(caught.value.hint)


# CPUs and sizes


@machine_of(cpus=8, offline=frozenset({1, 3, 5, 7}))
def test_cpus_without_a_ring_leave_holes(stage):
    """R22: ids 0, 2, 4, 6 of 8."""
    source = stage.opened()
    assert [ring.cpu for ring in source.rings] == [0, 2, 4, 6]
    # 7 is offline, and the highest id that there can be.
    assert source.hypervisor.cpus == 8
    source.close()


@machine_of(tbuf_pages=32)
@pytest.mark.parametrize("wanted", [1024, 32])
def test_rings_that_exist_keep_their_size(stage, wanted):
    """R24: another size, and the same one."""
    source = stage.opened(pages=wanted)
    assert source.ring_pages == 32
    source.close()


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOMEM])
def test_allocation_refused(stage, number):
    """R24: no rings, and none to be had."""
    stage.tell(fail=failing(set_size=number))
    with pytest.raises(SourceError, match=r"set_size\(1024 pages for each of 2 CPUs\)") as caught:
        stage.opened(pages=1024)
    assert caught.value.errno == number
    assert "source.pages" in str(caught.value.hint)


def test_somebody_else_allocates_first(stage, monkeypatch):
    """R24: between the look and the call."""
    set_size = Hypercalls.set_size

    def late(calls: Hypercalls, pages: int) -> None:
        stage.machine.ask(Op.SET_SIZE, 4)
        set_size(calls, pages)

    monkeypatch.setattr(Hypercalls, "set_size", late)
    source = stage.opened(pages=8)
    assert source.ring_pages == 4
    source.close()


@pytest.mark.parametrize(
    ("offset", "value", "reason"),
    [
        (0, 0, "rings have 0 pages"),
        (0, 65535, "list of 65535 pages at word .* lies outside the area of 4096 bytes"),
        (2, 65000, "CPU 0's list of 8 pages at word 65000"),
        (4, 1, "CPU 1's list of 8 pages at word 1 "),
    ],
)
def test_t_info_with_wild_numbers(stage, offset, value, reason):
    """R25: refused with the numbers; nothing stays mapped."""
    stage.tell(spoil=f"{offset}={value}")
    with pytest.raises(SourceError, match=reason):
        stage.opened()
    assert stage.mapped() == 0
    assert not stage.bound()


def test_wild_mfns_are_refused_by_the_mapping(stage):
    """R25: a page beyond the end of memory."""
    first_mfn = 4 * ((2 + 2 * 256 + 3) // 4)
    stage.tell(spoil=f"{first_mfn + 2}=65535")
    with pytest.raises(SourceError, match=r"xenforeignmemory_map of CPU 0's ring: .*\(EINVAL\)"):
        stage.opened()
    assert stage.mapped() == 0


# Refusals

CALLS = {
    "xenevtchn_open": "xenevtchn_open",
    "bind_virq": r"xenevtchn_bind_virq\(VIRQ_TBUF\)",
    "xencall_open": "xencall_open",
    "physinfo": "sysctl physinfo",
    "xen_version": "xen_version version",
    "get_info": "sysctl tbuf_op get_info",
    "set_size": r"sysctl tbuf_op set_size.*",
    "disable": "sysctl tbuf_op disable",
    "xenforeignmemory_open": "xenforeignmemory_open",
    "map": "xenforeignmemory_map of t_info",
}


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EINVAL])
@pytest.mark.parametrize("call", CALLS)
def test_each_call_refused_in_turn(stage, call, number):
    """R67: call and errno are named; nothing stays bound or mapped, no descriptor open."""
    descriptors = stage.descriptors()
    stage.tell(fail=failing(**{call: number}))
    source = XenSource(pages=8)
    with pytest.raises(SourceError) as caught:
        source.open()
    assert caught.value.errno == number
    assert caught.match(rf"^{CALLS[call]}: .*\({errno.errorcode[number]}\)$")
    assert source.rings == []
    assert source.notifier == -1
    assert stage.mapped() == 0
    assert stage.descriptors() == descriptors
    assert not stage.bound()
    # Where it is switching off what Xen switched on that is refused, nobody can.
    assert stage.machine.info().enabled is (call == "disable")


def test_what_to_do_is_said(stage):
    """R67: by errno, and for root other things than for others."""
    hints = {}
    for number in (errno.EPERM, errno.ENOSYS, errno.ENOENT):
        stage.tell(fail=failing(get_info=number))
        with pytest.raises(SourceError) as caught:
            stage.opened()
        hints[number] = str(caught.value.hint)
    assert ("dom0" if os.geteuid() == 0 else "root") in hints[errno.EPERM]
    assert "CONFIG_TRACEBUFFER" in hints[errno.ENOSYS]
    assert "--source sim" in hints[errno.ENOENT]


@pytest.mark.parametrize("call", ["set_evt_mask", "set_cpu_mask", "enable", "pending"])
def test_refused_while_it_is_open(stage, call):
    source = stage.opened()
    stage.tell(fail=failing(**{call: errno.EPERM}))

    def use() -> None:
        source.set_masks(EVERYTHING)
        source.enable()
        source.acknowledge()

    with pytest.raises(SourceError, match=rf"{call}: .*\(EPERM\)"):
        use()
    source.close()
    assert stage.mapped() == 0


def test_a_library_that_is_missing_or_another():
    """Said by name, with the packages to install."""
    missing = r"cannot load libxennone\.so\.1: .*No such file"
    with pytest.raises(SourceError, match=missing) as caught:
        libraries._load("libxennone.so.1", {})
    assert "libxenforeignmemory1" in str(caught.value.hint)
    with pytest.raises(SourceError, match=r"libc\.so\.6: .*undefined symbol: xencall9"):
        libraries._load("libc.so.6", {"xencall9": (None, [])})


# Events


@machine_of(rate=20_000_000)
def test_an_event_between_bind_and_first_wait_is_not_lost(stage):
    """R28: it waits; taken once, and then there is none."""
    source = stage.opened()
    source.set_masks(EVERYTHING)
    source.enable()
    poll = select.poll()
    poll.register(source.notifier, select.POLLIN)
    assert poll.poll(30_000)
    source.disable()
    assert source.acknowledge() == 1
    assert source.acknowledge() == 0
    source.close()


@machine_of(rate=20_000_000)
def test_an_event_while_masked_comes_at_the_unmasking(stage):
    """R28: between drain and unmask; the channel is never left masked."""
    source = stage.opened()
    source.set_masks(EVERYTHING)
    poll = select.poll()
    poll.register(source.notifier, select.POLLIN)
    for _ in range(5):
        source.enable()
        assert poll.poll(30_000)
        source.disable()
        assert source.acknowledge() == 1
        for ring in source.rings:
            ring.words[0] = ring.words[1]
        source.acknowledge()
    source.close()


# Two consumers, and what they leave


def test_a_second_consumer_changes_nothing(stage):
    """R29: refused before any sysctl."""
    first = stage.opened()
    first.set_masks(Masks(0x0008F000, frozenset({CpuId(1)})))
    before = stage.machine.info()
    with pytest.raises(LockedError, match="bound already") as caught:
        stage.opened(pages=64)
    assert caught.value.errno == errno.EEXIST
    assert stage.machine.info() == before
    first.close()
    stage.opened().close()


def test_both_masks_are_set_whatever_was_left(stage):
    """R66: CPU 1 and sched, then the defaults."""
    source = stage.opened()
    source.set_masks(Masks(0x0002F000, frozenset({CpuId(1)})))
    assert source.masks_in_force() == Masks(0x0002F000, frozenset({CpuId(1)}))
    assert stage.machine.info().cpus == {1}
    source.close()
    source = stage.opened()
    source.set_masks(EVERYTHING)
    assert source.masks_in_force() == EVERYTHING
    assert stage.machine.info().evt_mask == 0x0FFFF000
    assert stage.machine.info().cpus == {0, 1}
    source.close()


@machine_of(cpus=300)
def test_more_cpus_than_bits_in_a_word(stage):
    """R64: CPU 299 works; one that cannot be is not claimed to be traced."""
    source = stage.opened(pages=1)
    source.set_masks(Masks(0x0FFFF000, frozenset({CpuId(0), CpuId(299), CpuId(300)})))
    assert stage.machine.info().cpus == {0, 299}
    assert source.masks_in_force().cpus == {0, 299}
    source.close()


def test_rings_are_others_after_a_reboot(stage):
    """Identity: the same pages of the same boot."""
    identities = []
    for boot in ("a", "a", "b"):
        source = stage.opened(host=Host("AuthenticAMD", None, boot, "PV"))
        identities.append([ring.identity for ring in source.rings])
        source.close()
    assert identities[0] == identities[1]
    assert not set(identities[0]) & set(identities[2])


def test_a_view_that_is_still_held_keeps_its_pages(stage):
    """No crash for whoever looks once more; the mapping goes with the last view."""
    source = stage.opened()
    held = source.rings[1].words[:2]
    source.close()
    source.close()
    assert stage.mapped() == 1
    assert list(held) == [0, 0]
    del held
    assert stage.mapped() == 0


def test_no_counter_where_it_would_not_be_xens(stage):
    source = stage.opened(host=Host("AuthenticAMD", None, "b", "PVH"))
    assert source.read_tsc() is None
    source.close()


def test_no_xen_at_all(stage, monkeypatch, tmp_path: Path):
    """The libraries decide: no device behind them is no Xen."""
    monkeypatch.setenv("FAKEXEN_SOCKET", str(tmp_path / "none"))
    with pytest.raises(SourceError, match=r"xenevtchn_open: .*\(ENOENT\)") as caught:
        stage.opened()
    assert "run in dom0 of a Xen host" in str(caught.value.hint)
