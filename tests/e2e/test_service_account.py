"""The long account: produced = stored + deleted by retention + lost, to the record.

XTRACED_ACCOUNT_SECONDS says for how long; ten minutes is what a release is judged by.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.support.account import stored, truths
from tests.support.rig import Rig, descriptors, memory
from tests.support.service import ServiceProcess
from tracelib.losses import Cause
from tracelib.units import format_size

SECONDS = float(os.environ.get("XTRACED_ACCOUNT_SECONDS", "20"))
MIB = 1 << 20
RSS_GROWTH = 4 * MIB
"""What a flat memory may still move by: the allocator's ways, a summary or two."""


def lasting_descriptors(pid: int) -> int:
    """How many it holds for good: a client that is leaving, or a segment that is looked into
    before it goes, has one for a moment."""
    return min(len(descriptors(pid)) for _ in range(200))


@pytest.fixture
def rig(tmp_path):
    with Rig(tmp_path) as rig:
        yield rig


def run_for(service: ServiceProcess, seconds: float) -> None:
    """That long is what the run lasts; only its end would be news."""
    with pytest.raises(subprocess.TimeoutExpired):
        service.process.wait(seconds)


@pytest.mark.slow
def test_the_account_of_a_long_run(rig):
    """20 MB/s on 8 CPUs, two of them offline (R22); segments of 64 MiB, 512 MiB of them kept.
    R71: memory and descriptors are flat."""
    rig.boot(rate=20_000_000, cpus=8, offline=frozenset({2, 5}))
    service = rig.start({"segment.max_bytes": "64M", "store.max_bytes": "512M"})
    # Every buffer of the pool has been used by then, and every table has its size.
    warm_up = min(SECONDS / 4, 60)
    run_for(service, warm_up)
    service.status()
    early, files = memory(service.pid), lasting_descriptors(service.pid)
    run_for(service, SECONDS - warm_up)
    # All that was traced is drained now, and Xen has told all it ever will.
    service.ask("pause")
    status = service.status()
    late, peak = memory(service.pid), memory(service.pid, "VmHWM")
    assert late - early < RSS_GROWTH
    assert lasting_descriptors(service.pid) <= files
    assert status["store"]["bytes"] <= 512 * MIB
    assert service.stop() == 0

    account, truth = stored(rig.store), rig.hypervisor.truth()
    produced = truths(truth, "produced").total()
    lost = sum(status["lost"].values())
    forgotten = truths(truth, "forgotten").total()
    # Xen's lost records are records to the service, and nothing that a guest produced.
    marks = truths(truth, "lost_records").total() - account.lost_marks.total()
    deleted = sum(line["records"] for line in service.events("segment_deleted")) - marks
    print(
        f"\n  {status['uptime'] / 1e9:.0f} s: produced {produced} = stored "
        f"{account.events.total()} + deleted by retention {deleted} + lost {lost}"
        f" + forgotten by Xen {forgotten}\n"
        f"  {len(rig.segments())} segments, {status['store']['deleted_segments']} deleted;"
        f" RSS {format_size(early)}, at the end {format_size(late)}, at most {format_size(peak)}"
    )
    assert produced == account.events.total() + deleted + lost + forgotten
    assert not forgotten or Cause.TAIL_UNKNOWN in status["lost_unknown"]
    assert set(+account.events) == {0, 1, 3, 4, 6, 7}
    rig.verify()
