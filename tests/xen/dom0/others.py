"""Others who want the rings, or may not have them."""

from __future__ import annotations

from dom0.commands import attempt, properties, require, run, status
from dom0.live import SCHED
from dom0.room import Room
from dom0.starting import ALL_EVENTS


def second_service(room: Room) -> str:
    """a second xtraced ends with 4 and changes nothing"""
    code, _, said = attempt("xtraced", "--store", "/run/other", "--socket", "/run/other.socket")
    require(code == 4, f"exit code {code}: {said[-400:]}")
    mask = room.hypervisor.info().event_mask
    require(mask == ALL_EVENTS, f"event mask {mask:#x}")
    require(status()["state"] == "collecting", "the first one does not collect any more")
    return said.strip().splitlines()[-1][:200]


def xentrace_beside(room: Room) -> str:
    """xentrace beside it gets nothing but changes the event mask: mask says so, and repairs it"""
    code, _, _ = attempt("xentrace", "-D", "-e", "0x2f000", "-T", "1", "/run/beside.trace")
    require(code != 0, "xentrace got the event channel too")
    mask = room.hypervisor.info().event_mask
    shown = run("xtracectl", "mask")
    require(mask == SCHED, f"event mask {mask:#x}")
    require("asked for: all" in shown and f"{SCHED:#010x}" in shown, shown)
    run("xtracectl", "mask", "--events", "all")
    mask = room.hypervisor.info().event_mask
    require(mask == ALL_EVENTS, f"event mask {mask:#x}")
    return " / ".join(line.strip() for line in shown.splitlines()[:2])


def without_rights(room: Room) -> str:
    """as nobody it ends with 3, naming the call and what to do"""
    code, _, said = attempt(
        "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "xtraced",
        "--store", "/tmp/nobody", "--socket", "/tmp/nobody.socket",
    )
    require(code == 3, f"exit code {code}: {said[-400:]}")
    require("root" in said, said)
    mask = room.hypervisor.info().event_mask
    require(mask == ALL_EVENTS, f"event mask {mask:#x}")
    return said.strip().splitlines()[-1][:300]


def undisturbed(_: Room) -> str:
    """none of that restarted the service"""
    shown = properties("NRestarts", "ActiveState")
    require(shown == {"NRestarts": "0", "ActiveState": "active"}, str(shown))
    return ""


CHECKS = (second_service, xentrace_beside, without_rights, undisturbed)
