"""Somebody else in the store while the service writes: it goes on, and the account is told."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.account import stored, truths
from tests.support.rig import Rig
from tests.support.service import ServiceProcess
from tracelib.errors import RefusedError
from tracelib.store.directory import list_segments


@pytest.fixture
def rig(tmp_path):
    with Rig(tmp_path) as rig:
        rig.boot(rate=8_000_000, cpus=2)
        yield rig


def open_segment(service: ServiceProcess) -> Path:
    """One with records in it."""
    status = service.wait_status(lambda status: status["store"]["open_bytes"] > 1 << 20)
    return Path(status["store"]["open_segment"])


def go_on(service: ServiceProcess) -> None:
    """Until as much again was drained and everything is well."""
    much = service.status()["records"] + 200_000
    service.wait_status(lambda status: status["records"] > much)


def truncate(path: Path) -> None:
    os.truncate(path, 8192)


def rename(path: Path) -> None:
    path.rename(path.with_name("mine"))


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    path.unlink()
    path.write_text("mine")


@pytest.mark.parametrize("do", [truncate, rename, delete, replace], ids=lambda do: do.__name__)
def test_the_live_segment_is_tampered_with(rig, do: Callable[[Path], None]):
    """It lives, goes on in other segments, and all of those are whole; a stop ends well or says
    what is missing."""
    service = rig.start()
    path = open_segment(service)
    do(path)
    go_on(service)
    with suppress(RefusedError):
        # What should get its last name may not be there any more.
        service.ask("rotate")
    go_on(service)
    status = service.wait_status(lambda status: status["healthy"])
    assert status["store"]["open_segment"] != str(path)
    assert service.stop() in (0, 1)
    assert "Traceback" not in service.log()
    later = [entry for entry in list_segments(rig.store) if entry.path.name[:8] > path.name[:8]]
    assert later
    assert all(entry.sealed for entry in later)


def test_the_directory_is_removed(rig):
    """Degraded, and said so; back by itself when the directory is there again. What was written
    meanwhile is lost by write_failed, exactly."""
    service = rig.start({"writer.retry": "100ms"})
    open_segment(service)
    service.ask("rotate")
    # (An empty segment would not be rotated.)
    service.wait_status(lambda status: status["store"]["open_bytes"] > 100_000)
    gone = rig.store.with_name("gone")
    rig.store.rename(gone)
    # Whether the open segment was given up by then or not: the next one has no place.
    with pytest.raises(RefusedError, match="No such file"):
        service.ask("rotate")
    status = service.wait_status(lambda status: status["writer"]["failed_records"] > 100_000)
    assert not status["healthy"]
    rig.store.mkdir(mode=0o750)
    service.wait_status(lambda status: status["healthy"] and list(rig.store.glob("*.xtr*")))
    go_on(service)
    service.ask("pause")
    assert service.stop() in (0, 1)
    assert "Traceback" not in service.log()
    kept: Counter[int] = Counter()
    for path in (gone, rig.store):
        account = stored(path)
        kept += account.events
        kept += Counter({loss.cpu: loss.records or 0 for loss in account.stated
                         if loss.cause == "write_failed"})
    assert sum(kept.values()) == truths(rig.hypervisor.truth(), "inserted").total()
    shutil.rmtree(gone)
