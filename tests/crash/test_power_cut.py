"""The power goes, by real means: the disk as it is at some instant under load, mounted again.

The disk is a file on a file system that can copy one in no time (XFS): what the copy has is
what had reached the disk by then, and neither more of the page cache nor of the journal.
"""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import disks
from tests.support.account import assert_in_order, payloads, stored
from tests.support.rig import Rig
from tracelib.segment.findings import Severity
from tracelib.store.directory import list_segments
from tracelib.store.recover import Outcome, recover
from tracelib.store.verify import verify_store

CUTS = 20
MIB = 1 << 20


def cut(image: Path, copy: Path) -> Path:
    """The disk as of now."""
    subprocess.run(["cp", "--reflink=always", str(image), str(copy)], check=True)
    return copy


def beyond(records: int) -> Callable[[dict[str, Any]], bool]:
    """Whether the service has drained more than so many records by now."""
    return lambda status: status["records"] > records


class Left(NamedTuple):
    """What the next start makes of such a disk."""

    records: Counter[int]
    """By CPU; lost records count."""
    payloads: dict[int, bytes]
    opened: int
    """Segments that had no seal."""


def after(copy: Path, where: Path) -> Left:
    """Mount it, and start."""
    with disks.loop_device(copy, None) as device, disks.mounted(where, "ext4", str(device)):
        store = where / "store"
        recovered = recover(store)
        assert all(one.outcome in (Outcome.SEALED, Outcome.REMOVED) for one in recovered)
        assert [f for f in verify_store(store) if f.severity is Severity.ERROR] == []
        assert all(entry.sealed for entry in list_segments(store))
        assert_in_order(store)
        account = stored(store)
        return Left(account.events + account.lost_marks, payloads(store), len(recovered))


@pytest.mark.slow
@pytest.mark.needs_root
def test_the_power_goes_at_any_instant(tmp_path):
    """R59: what was acknowledged is there, nothing invented, order kept: each CPU's records are
    the beginning of those that the service that lived on stored."""
    disks.need("mkfs.ext4", "mkfs.xfs")
    chance = random.Random(3)
    cuts: list[tuple[Path, dict[int, int]]] = []
    with (
        disks.filesystem(tmp_path, "xfs", 4096 * MIB) as host,
        disks.loop_device(host / "disk", 768 * MIB) as device,
    ):
        subprocess.run(["mkfs.ext4", "-q", str(device)], check=True)
        with (
            disks.mounted(tmp_path / "disk", "ext4", str(device)) as disk,
            Rig(tmp_path, store=disk / "store") as rig,
        ):
            rig.boot(rate=8_000_000, cpus=2)
            service = rig.start({
                "segment.max_bytes": "2M", "writer.buffer_bytes": "256K",
                "writer.sync_interval": "200ms",
            })  # fmt: skip
            for number in range(CUTS):
                durable = {cpu["cpu"]: cpu["records"] for cpu in service.status()["cpus"]}
                service.ask("flush")
                much = service.status()["records"] + chance.randrange(1, 150_000)
                service.wait_status(beyond(much))
                cuts.append((cut(host / "disk", host / f"cut{number}"), durable))
            assert service.stop() == 0
            whole = payloads(rig.store)
            rig.balance()
        opened = check(cuts, whole, tmp_path / "again")
    print(f"\n  {CUTS} cuts, {opened} with a segment open; "
          f"{sum(map(len, whole.values())) / MIB:.1f} MiB of records in all")
    assert opened > CUTS // 2


def check(
    cuts: list[tuple[Path, dict[int, int]]], whole: dict[int, bytes], where: Path
) -> int:
    """Every cut against what was acknowledged before it; how many had a segment open."""
    opened = 0
    for copy, durable in cuts:
        left = after(copy, where)
        assert all(left.records[cpu] >= count for cpu, count in durable.items())
        assert all(whole[cpu].startswith(data) for cpu, data in left.payloads.items())
        opened += left.opened
    return opened
