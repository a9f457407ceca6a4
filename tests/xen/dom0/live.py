"""Load and a guest; the commands act on the real hypervisor."""

from __future__ import annotations

import re
import subprocess
import threading
from pathlib import Path

from dom0.commands import PATIENCE, CheckError, attempt, require, run, status
from dom0.room import STORE, Room
from dom0.starting import ALL_EVENTS

SCHED = 0x0002F000
_FOLLOWED = 5.0
"""Seconds of records after which following has shown that it follows."""
_RECORD = re.compile(r" *([0-9]+\.[0-9]+)")


def boots_a_guest(room: Room) -> str:
    """a PVH guest boots while a load runs"""
    room.start_load()
    return room.run_guest(rounds=1)


def wakes_by_event(_: Room) -> str:
    """VIRQ_TBUF wakes the service"""
    wakes = status()["wakes"]
    require(wakes["event"] > 0, str(wakes))
    return str(wakes)


def status_for_people(_: Room) -> str:
    """xtracectl status is healthy under load, and has every CPU"""
    text = run("xtracectl", "status")
    now = status()
    require(now["state"] == "collecting" and now["healthy"], str(now["reasons"]))
    require(all(cpu["records"] > 0 for cpu in now["cpus"]), text)
    return f"{now['records']:,} records, lost {sum(now['lost'].values())}; {text.splitlines()[0]}"


def dump_follows(_: Room) -> str:
    """xtracectl dump -f prints records that are newer than itself"""
    following = subprocess.Popen(
        ["xtracectl", "dump", "-f", "--since=-1s", "--event", "runstate_change"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    # Should it print nothing, reading would wait for ever.
    stop = threading.Timer(PATIENCE, following.kill)
    stop.start()
    times: list[float] = []
    said: list[str] = []
    assert following.stdout is not None
    for line in following.stdout:
        if found := _RECORD.match(line):
            times.append(float(found[1]))
            # What was there when it began is no older than a second.
            if times[-1] > times[0] + _FOLLOWED:
                break
        else:
            said.append(line)
    stop.cancel()
    following.terminate()
    following.wait()
    require(times and times[-1] > times[0] + _FOLLOWED, f"{len(times)} records; {said[-3:]}")
    return f"{len(times)} of them in {times[-1] - times[0]:.0f} s"


def rotates(room: Room) -> str:
    """xtracectl rotate seals a segment"""
    run("xtracectl", "flush")
    said = run("xtracectl", "rotate").strip()
    sealed = Path(said.partition(":")[0])
    require(sealed.is_file() and sealed.parent == STORE, said)
    # Up to here the recording has no gap; the host needs to know.
    (room.share / "whole").write_text(sealed.name)
    room.notes["rounds"] = room.guest_rounds()
    # Whatever follows takes twice as long with a guest beside it.
    room.destroy_guest()
    return said


def masks_events(room: Room) -> str:
    """xtracectl mask --events changes Xen's event mask"""
    run("xtracectl", "mask", "--events", "sched")
    masked = room.hypervisor.info().event_mask
    run("xtracectl", "mask", "--events", "all")
    unmasked = room.hypervisor.info().event_mask
    require((masked, unmasked) == (SCHED, ALL_EVENTS), f"{masked:#x}, then {unmasked:#x}")
    return f"{masked:#010x}, and back to {unmasked:#010x}"


def masks_cpus(room: Room) -> str:
    """xtracectl mask --cpus changes which CPUs Xen traces"""
    run("xtracectl", "mask", "--cpus", "1")
    masked = room.hypervisor.busy()
    run("xtracectl", "mask", "--cpus", "all")
    unmasked = room.hypervisor.busy()
    require((masked, unmasked) == ({1}, {0, 1}), f"{masked}, then {unmasked}")
    return f"records on CPUs {masked}, then on {unmasked}"


def pauses(room: Room) -> str:
    """xtracectl pause: Xen writes no record any more, and status says paused"""
    run("xtracectl", "pause")
    busy = room.hypervisor.busy()
    code, text, _ = attempt("xtracectl", "status")
    require(not busy, f"records on CPUs {busy}")
    require(code == 1 and status()["state"] == "paused", f"exit code {code}: {text}")
    return text.splitlines()[0]


def resumes(room: Room) -> str:
    """xtracectl resume: Xen writes records again"""
    run("xtracectl", "resume")
    busy = room.hypervisor.busy()
    require(busy == {0, 1}, f"records on CPUs {busy}")
    if (state := status()["state"]) != "collecting":
        raise CheckError(state)
    return f"records on CPUs {busy}"


CHECKS = (
    boots_a_guest, wakes_by_event, status_for_people, dump_follows, rotates, masks_events,
    masks_cpus, pauses, resumes,
)
