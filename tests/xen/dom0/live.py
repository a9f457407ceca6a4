"""Under load the commands act on the real hypervisor."""

from __future__ import annotations

from dom0.commands import CheckError, attempt, require, run, status
from dom0.room import Room
from dom0.starting import ALL_EVENTS

SCHED = 0x0002F000


def under_load(room: Room) -> str:
    """a load of disk reads, processes and hypercalls runs, and is traced"""
    room.start_load()
    require(room.hypervisor.busy() == {0, 1}, "no records")
    return ""


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


CHECKS = (under_load, masks_events, masks_cpus, pauses, resumes)
