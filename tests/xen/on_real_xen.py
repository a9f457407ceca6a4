"""The contract of sources, over the real thing: pytest runs this in dom0, on rings of one page.

tests/aio/test_source_conformance.py has the tests and says what they mean. Left out is what
only a machine made for a test can promise: the size of its rings and what is in them before
the first consumer, its CPU vendor, its clock.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from tests.aio import test_source_conformance as contract
from tests.support.machines import Taker
from xtraced.sources.xen.source import XenSource

Make = Callable[[], XenSource]

source = contract.source

test_open_does_not_switch_tracing_on = contract.test_open_does_not_switch_tracing_on
test_masks_in_force_are_the_ones_set = contract.test_masks_in_force_are_the_ones_set
test_masks_are_obeyed = contract.test_masks_are_obeyed
test_disable_stops_records = contract.test_disable_stops_records_and_leaves_the_rings
test_close_frees_everything = contract.test_close_is_idempotent_and_frees_everything


@pytest.fixture
def make() -> Make:
    """Sources over the hypervisor, in whose rings nothing is left from the test before."""
    leftovers = XenSource(pages=1)
    leftovers.open()
    leftovers.disable()
    Taker(leftovers).drain()
    leftovers.close()
    return lambda: XenSource(pages=1)


async def test_notifier_wakes_a_task_and_acknowledge_takes_the_event(source: XenSource):
    source.enable()
    with trio.fail_after(30):
        await trio.lowlevel.wait_readable(source.notifier)
    source.disable()
    assert source.acknowledge() >= 1
    # Xen raises the event from a tasklet: what rings crossed half before tracing was off may
    # still announce. Once for each, and then it is quiet.
    late = 0
    with trio.move_on_after(2):
        while late <= len(source.rings):
            await trio.lowlevel.wait_readable(source.notifier)
            late += source.acknowledge()
    assert late <= len(source.rings)
    assert source.acknowledge() == 0


# Called, not taken over: there they are parametrised with sources.


def test_tracing_goes_on_after_disable_and_enable(source: XenSource):
    contract.test_tracing_goes_on_after_disable_and_enable(source)


def test_a_live_source_is_never_finished(source: XenSource):
    contract.test_a_live_source_is_never_finished(source)


def test_second_consumer_is_refused_and_changes_nothing(make: Make):
    contract.test_second_consumer_is_refused_and_changes_nothing(make)


def test_rings_keep_identity_and_content_over_a_restart_of_the_consumer(make: Make):
    contract.test_rings_keep_identity_and_content_over_a_restart_of_the_consumer(make)


def test_open_after_close_works_again(make: Make):
    contract.test_open_after_close_works_again(make)
