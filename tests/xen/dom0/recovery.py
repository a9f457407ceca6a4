"""Killed under load, and told to read its configuration again."""

from __future__ import annotations

import re

from dom0.commands import UNIT, properties, require, run, status, wait_for
from dom0.live import SCHED
from dom0.room import CONFIG, STORE, Room
from dom0.starting import ALL_EVENTS


def killed_and_restarted(_: Room) -> str:
    """kill -9 under load: systemd starts it again"""
    before = properties("MainPID")["MainPID"]
    run("systemctl", "kill", "--signal=KILL", UNIT)
    wait_for(lambda: properties("MainPID")["MainPID"] not in (before, "0"), "another process")
    seconds = wait_for(lambda: properties("ActiveState")["ActiveState"] == "active", "READY=1")
    restarts = properties("NRestarts")["NRestarts"]
    require(restarts == "1", f"{restarts} restarts")
    return f"active {seconds:.0f} s after its new process was there"


def same_rings(room: Room) -> str:
    """it takes up the same rings, and tracing goes on"""
    info = room.hypervisor.info()
    require(info.mfn == room.notes["mfn"], f"t_info was at {room.notes['mfn']:#x}, now {info}")
    require(info.event_mask == ALL_EVENTS, f"event mask {info.event_mask:#x}")
    require(room.hypervisor.busy() == {0, 1}, "no records")
    return f"t_info at {info.mfn:#x}"


def accounts_for_the_gap(_: Room) -> str:
    """what had left the rings is stored, and the account says what Xen dropped meanwhile"""
    wait_for(lambda: status()["records"] > 0, "records after the restart")
    now = status()
    # Five seconds without a consumer, under load: rings of 256 KiB do not hold that.
    require(now["lost"].get("ring_full", 0) > 0, f"lost: {now['lost']}")
    said = run("journalctl", "--no-pager", "-o", "cat", "-u", UNIT)
    require('"segment_recovered"' in said, "nothing is said of the segment that was open")
    # systemd kept the staging buffers.
    require("crash" not in now["lost_unknown"], f"lost: {now['lost_unknown']}")
    taken_over = sum(map(int, re.findall(r'"handed_over": (\d+)', said)))
    leftovers = [path.name for path in STORE.glob("*.open")]
    require(len(leftovers) == 1, f"open segments: {leftovers}")
    return f"{taken_over} records handed over; lost {now['lost']}"


def reloads(room: Room) -> str:
    """systemctl reload brings a change of the configuration into force"""
    room.notes["config"] = CONFIG.read_text()
    _configure(room, events="sched")
    return _reload(room, SCHED)


def refuses_a_bad_reload(room: Room) -> str:
    """a mistake in the configuration changes nothing at reload, and the log says which"""
    _configure(room, events="all", flush_interval="soon")
    _reload(room, SCHED)
    said = run("journalctl", "--no-pager", "-o", "cat", "-u", UNIT, "-n", "5")
    require("flush_interval" in said, said)
    _configure(room)
    return _reload(room, ALL_EVENTS)


def _configure(room: Room, **settings: str) -> None:
    """The file as it was installed, with some of its commented-out defaults changed."""
    text = str(room.notes["config"])
    for key, value in settings.items():
        text, found = re.subn(rf"(?m)^#{key} = .*$", f'{key} = "{value}"', text, count=1)
        require(found, f"no {key} in {CONFIG}")
    CONFIG.write_text(text)


def _reload(room: Room, mask: int) -> str:
    run("systemctl", "reload", UNIT)
    # `kill` returns before the service has read a line.
    wait_for(lambda: properties("ActiveState")["ActiveState"] == "active", "the reload's end")
    wait_for(lambda: room.hypervisor.info().event_mask == mask, f"event mask {mask:#x}", 20)
    return f"event mask {mask:#010x}"


CHECKS = (killed_and_restarted, same_rings, accounts_for_the_gap, reloads, refuses_a_bad_reload)
