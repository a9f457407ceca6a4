"""The service stops and starts again; then it gives way to xentrace."""

from __future__ import annotations

import signal
import subprocess

from dom0.commands import UNIT, attempt, properties, require, run, wait_for
from dom0.room import STORE, Room


def stops(_: Room) -> str:
    """systemctl stop ends it well, with every segment sealed"""
    run("systemctl", "stop", UNIT)
    shown = properties("ActiveState", "Result", "ExecMainStatus")
    require(
        shown == {"ActiveState": "inactive", "Result": "success", "ExecMainStatus": "0"}, str(shown)
    )
    leftovers = [path.name for path in STORE.glob("*.open")]
    require(not leftovers, f"open segments: {leftovers}")
    code = attempt("xtracectl", "status")[0]
    require(code == 3, f"xtracectl status: exit code {code}")
    return ""


def tracing_is_off(room: Room) -> str:
    """tracing is off in Xen afterwards: no producer index moves under load"""
    before = room.hypervisor.produced()
    busy = room.hypervisor.busy(4)
    require(not busy, f"records on CPUs {busy}")
    return f"prod {before}"


def starts_again(room: Room) -> str:
    """systemctl start starts it again, on the same rings"""
    run("systemctl", "start", UNIT)
    info = room.hypervisor.info()
    require(info.mfn == room.notes["mfn"], str(info))
    require(room.hypervisor.busy() == {0, 1}, "no records")
    run("systemctl", "stop", UNIT)
    require(not room.hypervisor.busy(), "tracing is still on")
    return ""


def is_carried_home(room: Room) -> str:
    """what it kept can be copied away"""
    room.stop_load()
    room.leave(STORE, "store")
    return f"{sum(path.stat().st_size for path in STORE.iterdir()) / 1e6:.0f} MB"


def gives_way(room: Room) -> str:
    """while xentrace records, a start fails with 4, once, and leaves its mask alone"""
    with subprocess.Popen(
        ["xentrace", "-D", "-e", "all", "/run/xentrace.trace"],
        stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT,
    ) as xentrace:  # fmt: skip
        try:
            wait_for(lambda: room.hypervisor.busy(1), "records for xentrace")
            mask = room.hypervisor.info().event_mask
            code, _, _ = attempt("systemctl", "start", UNIT)
            shown = properties("ExecMainStatus", "NRestarts", "ActiveState")
            now = room.hypervisor.info().event_mask
        finally:
            xentrace.send_signal(signal.SIGINT)
    require(code != 0 and shown["ExecMainStatus"] == "4", f"{code}, {shown}")
    require((shown["ActiveState"], shown["NRestarts"]) == ("failed", "0"), str(shown))
    require(mask == now, f"event mask {mask:#x}, then {now:#x}")
    return f"event mask {now:#010x}"


CHECKS = (stops, tracing_is_off, starts_again, is_carried_home, gives_way)
