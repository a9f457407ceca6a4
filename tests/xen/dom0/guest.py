"""A guest with VM exits beside the load, recorded by the service, then by xentrace.

In a boot of its own: nested virtualization under emulation now and then stops dead.
"""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from pathlib import Path

from dom0.commands import PATIENCE, UNIT, require, run, status, wait_for
from dom0.room import STORE, Room

_FOLLOWED = 5.0
"""Seconds of records after which following has shown that it follows."""
_RECORD = re.compile(r" *([0-9]+\.[0-9]+)")


def collects(_: Room) -> str:
    """the service collects before there is a guest"""
    run("systemctl", "start", UNIT)
    return run("xtracectl", "status").splitlines()[0]


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
    room.notes["rounds"] = room.guest_rounds()
    return said


def is_recorded(room: Room) -> str:
    """stopped, it leaves the whole recording, without a gap"""
    room.destroy_guest()
    room.stop_load()
    run("systemctl", "stop", UNIT)
    room.leave(STORE, "store")
    return f"{sum(path.stat().st_size for path in STORE.iterdir()) / 1e6:.0f} MB"


def is_recorded_by_xentrace(room: Room) -> str:
    """xentrace records the same load and another boot of the same guest"""
    trace = Path("/run/xentrace.trace")
    with subprocess.Popen(
        ["xentrace", "-D", "-e", "all", str(trace)],
        stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT,
    ) as xentrace:  # fmt: skip
        try:
            wait_for(lambda: room.hypervisor.busy(1), "records for xentrace")
            room.start_load()
            took = room.run_guest(room.notes["rounds"])
        finally:
            xentrace.send_signal(signal.SIGINT)
    room.leave(trace, "xentrace.trace")
    return took


CHECKS = (
    collects, boots_a_guest, wakes_by_event, status_for_people, dump_follows, rotates,
    is_recorded, is_recorded_by_xentrace,
)
