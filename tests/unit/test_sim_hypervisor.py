"""Trace control and memory of the simulated hypervisor, without a process."""

from __future__ import annotations

import errno
import os
import struct

import pytest

from tests.support.machines import take
from tracelib.errors import SourceError
from tracelib.ring.layout import PAGE_BYTES, parse_t_info
from tracelib.units import CpuId
from xtraced.sources.sim.abi import Fault
from xtraced.sources.sim.hypervisor import Hypervisor


@pytest.fixture
def hypervisor():
    machine = Hypervisor([0, 1], 2)
    yield machine
    machine.release_virq()
    os.close(machine.memory.fd)


def t_info(machine: Hypervisor) -> bytes:
    info = machine.info()
    return os.pread(machine.memory.fd, info.size, info.buffer_mfn * PAGE_BYTES)


def test_nothing_is_allocated_at_first(hypervisor):
    info = hypervisor.info()
    assert (info.buffer_mfn, info.size, info.pages, info.enabled) == (0, 0, 0, False)
    assert info.evt_mask == 0x0FFFF000
    assert info.cpus is None
    with pytest.raises(OSError, match="Invalid argument"):
        hypervisor.enable()


def test_t_info_lists_the_rings_by_page_number(hypervisor):
    hypervisor.set_size(4)
    zero, one = parse_t_info(t_info(hypervisor), 2)
    assert zero == (0, (2, 3, 4, 5))
    assert one == (1, (6, 7, 8, 9))
    # As Debian's Xen lays it out: 256 offsets, then the lists.
    assert struct.unpack_from("<3H", t_info(hypervisor)) == (4, 129, 133)


def test_ring_of_a_page_number_is_the_ring(hypervisor):
    hypervisor.set_size(2)
    hypervisor.rings[CpuId(1)].trace(0x81001, (42,), timed=False)
    (_, one) = parse_t_info(t_info(hypervisor), 2)
    page = os.pread(hypervisor.memory.fd, 16, one.mfns[0] * PAGE_BYTES)
    assert struct.unpack("<4I", page) == (0, 8, 0x10081001, 42)


def test_cpus_that_are_offline_have_no_ring():
    """R22: max id 7, ids 0, 2, 4, 6: odd ones have offset 0; nothing is renumbered."""
    machine = Hypervisor([0, 2, 4, 6], 8)
    machine.set_size(1)
    assert [ring.cpu for ring in parse_t_info(t_info(machine), 8)] == [0, 2, 4, 6]
    offsets = struct.unpack_from("<8H", t_info(machine), 2)
    assert offsets == (129, 0, 131, 0, 133, 0, 135, 0)
    assert list(machine.rings) == [0, 2, 4, 6]


def test_three_hundred_cpus():
    """R64: t_info then has more than 256 offsets and several pages."""
    machine = Hypervisor(list(range(300)), 300)
    machine.set_size(8)
    rings = parse_t_info(t_info(machine), 300)
    assert [ring.cpu for ring in rings] == list(range(300))
    assert machine.info().size == 3 * PAGE_BYTES
    assert len({mfn for ring in rings for mfn in ring.mfns}) == 2400


def test_more_pages_than_offsets_can_express_become_fewer():
    """R25: 16-bit offsets count words: with 4 CPUs at most (65535 - 129) / 3 pages each."""
    machine = Hypervisor([0, 1, 2, 3], 4)
    machine.set_size(65535)
    assert machine.info().pages == 21802
    assert len(parse_t_info(t_info(machine), 4)) == 4


def test_size_is_set_once_and_switches_tracing_on(hypervisor):
    """R24: the same size again is EBUSY, another EINVAL, as in Xen."""
    with pytest.raises(OSError, match="Invalid argument"):
        hypervisor.set_size(0)
    hypervisor.set_size(4)
    assert hypervisor.info().enabled
    for pages, number in ((4, errno.EBUSY), (8, errno.EINVAL)):
        with pytest.raises(OSError, match=os.strerror(number)) as caught:
            hypervisor.set_size(pages)
        assert caught.value.errno == number
    assert hypervisor.info().pages == 4


def test_second_binder_is_refused(hypervisor):
    """R29: EEXIST until the first one lets go."""
    hypervisor.bind_virq()
    with pytest.raises(FileExistsError):
        hypervisor.bind_virq()
    hypervisor.release_virq()
    hypervisor.bind_virq()


def fill(hypervisor: Hypervisor, cpu: int, size: int) -> None:
    for _ in range(size // 4):
        hypervisor.rings[CpuId(cpu)].trace(0x81001, timed=False)


def test_one_event_for_however_many_rings(hypervisor):
    hypervisor.set_size(1)
    notifier = hypervisor.bind_virq()
    fill(hypervisor, 0, 3000)
    fill(hypervisor, 1, 3000)
    hypervisor.deliver()
    hypervisor.deliver()
    assert os.eventfd_read(notifier) == 1
    assert hypervisor.delivered == 1


def test_event_before_the_binding_is_gone(hypervisor):
    """R28: so a consumer has to drain once when it has bound."""
    hypervisor.set_size(1)
    fill(hypervisor, 0, 3000)
    notifier = hypervisor.bind_virq()
    hypervisor.deliver()
    with pytest.raises(BlockingIOError):
        os.eventfd_read(notifier)


def test_disable_clears_the_count_on_every_cpu(hypervisor):
    hypervisor.set_size(1)
    for cpu in (0, 1):
        fill(hypervisor, cpu, 5000)
        assert hypervisor.rings[CpuId(cpu)].lost > 0
    hypervisor.disable()
    assert [ring.lost for ring in hypervisor.rings.values()] == [0, 0]
    fill(hypervisor, 0, 4)
    assert hypervisor.rings[CpuId(0)].lost == 0


def test_masks_stay_as_the_last_consumer_left_them(hypervisor):
    """R66: sticky, over a consumer's end."""
    hypervisor.set_size(1)
    hypervisor.set_cpu_mask(frozenset({1}))
    hypervisor.set_event_mask(0x0002F000)
    hypervisor.disable()
    hypervisor.enable()
    fill(hypervisor, 0, 4)
    hypervisor.rings[CpuId(1)].trace(0x21011, (1,), timed=False)
    assert [len(take(words)) for words in hypervisor.memory.rings.values()] == [0, 8]
    assert (hypervisor.info().evt_mask, hypervisor.info().cpus) == (0x0002F000, {1})


def test_faults(hypervisor):
    hypervisor.set_size(1)
    notifier = hypervisor.bind_virq()
    hypervisor.inject(Fault.NO_NOTIFY, 0)
    fill(hypervisor, 0, 3000)
    hypervisor.deliver()
    with pytest.raises(BlockingIOError):
        os.eventfd_read(notifier)
    with pytest.raises(OSError, match="Invalid argument"):
        hypervisor.inject(Fault.BOGUS_PROD, 7)
    hypervisor.inject(Fault.BOGUS_PROD, 1)
    fill(hypervisor, 1, 4)
    assert not hypervisor.info().enabled


def test_list_outside_t_info_is_refused():
    """R25, from the consumer's side."""
    with pytest.raises(SourceError, match="lies outside"):
        parse_t_info(struct.pack("<3H", 600, 65000, 0) + bytes(4090), 2)
