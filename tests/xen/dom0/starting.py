"""The service starts, and says so in all the places where one looks."""

from __future__ import annotations

import json

from dom0.commands import UNIT, find, properties, require, run, status, wait_for
from dom0.room import Room

ALL_EVENTS = 0x0FFFF000
_EXPOSURE_LIMIT = 3.0


def installed(_: Room) -> str:
    """the programs are there, with the inner loop compiled"""
    version = run("xtraced", "--version").strip()
    require("compiled" in version and "not compiled" not in version, version)
    return version


def becomes_active(_: Room) -> str:
    """systemctl start reaches active, by READY=1"""
    run("systemctl", "start", UNIT)
    shown = properties(
        "Type", "ActiveState", "SubState", "ExecMainStartTimestampMonotonic",
        "ActiveEnterTimestampMonotonic",
    )
    # With Type=notify nothing but READY=1 leads to active.
    require(shown["Type"] == "notify", f"Type={shown['Type']}")
    require((shown["ActiveState"], shown["SubState"]) == ("active", "running"), str(shown))
    started = int(shown["ExecMainStartTimestampMonotonic"])
    active = int(shown["ActiveEnterTimestampMonotonic"])
    return f"{(active - started) / 1e6:.1f} s after its process began"


def says_status(_: Room) -> str:
    """systemctl status shows the STATUS text"""
    return find(r'Status: "(.+)"', run("systemctl", "status", "--no-pager", UNIT))


def logs_structured_lines(_: Room) -> str:
    """the journal has structured lines of the service, and nothing else from it"""
    entries = [
        json.loads(line)
        for line in run("journalctl", "--no-pager", "-o", "json", "-u", UNIT).splitlines()
    ]
    own = [entry for entry in entries if entry.get("_TRANSPORT") == "stdout"]
    require(own, "no line of the service")
    lines = [json.loads(entry["MESSAGE"]) for entry in own]
    for line in lines:
        require({"event", "level"} <= set(line), f"not structured: {line}")
    # On the stream every line carries its priority; 6 is "info".
    priorities = {line["level"]: entry["PRIORITY"] for entry, line in zip(own, lines, strict=True)}
    require(priorities.get("info") == "6", f"priorities: {priorities}")
    return ", ".join(dict.fromkeys(line["event"] for line in lines))


def is_confined(_: Room) -> str:
    """systemd-analyze security scores below 3.0"""
    said = run("systemd-analyze", "security", "--no-pager", UNIT)
    exposure = find(r"Overall exposure level for .*: ([0-9.]+)", said)
    require(float(exposure) < _EXPOSURE_LIMIT, exposure)
    return exposure


def knows_the_machine(_: Room) -> str:
    """it says what the hypervisor is without being told: Xen, AMD, SVM, clock rate"""
    source = status()["source"]
    require(source["name"] == "xen" and "4.17" in source["hypervisor"], str(source))
    require(source["exit_family"] == "svm", str(source))
    require(source["cpu_vendor"] == "AuthenticAMD", str(source))
    require(source["tsc_hz"] and source["tsc_source"] == "physinfo", str(source))
    return f"{source['hypervisor']}, {source['tsc_hz'] / 1e9:.4f} GHz by {source['tsc_source']}"


def traces_everything(room: Room) -> str:
    """Xen traces what the configuration asks for, in rings of the size it asks for"""
    info, now = room.hypervisor.info(), status()
    pages = room.hypervisor.pages()
    require(info.event_mask == ALL_EVENTS == now["masks"]["events"], f"{info}, {now['masks']}")
    wanted, real = now["source"]["ring_pages_wanted"], now["source"]["ring_pages"]
    require(wanted == real == pages, f"{wanted} wanted, {real} by status, {pages} by Xen")
    room.notes["mfn"] = info.mfn
    return f"{pages} pages for each of {len(now['cpus'])} CPUs"


def wakes_by_timer(_: Room) -> str:
    """on a quiet host the timer takes what no event announces"""
    seconds = wait_for(lambda: status()["wakes"]["timer"] > 0, "a timer wake")
    return f"after {seconds:.0f} s: {status()['wakes']}"


CHECKS = (
    installed, becomes_active, says_status, logs_structured_lines, is_confined,
    knows_the_machine, traces_everything, wakes_by_timer,
)
