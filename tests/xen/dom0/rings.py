"""Rings of one page, made when Xen booted: losses for real."""

from __future__ import annotations

import json

from dom0.commands import UNIT, require, run, status, wait_for
from dom0.room import STORE, Room


def starts_on_small_rings(room: Room) -> str:
    """rings that exist since boot are used as they are, wanted and real size both shown"""
    require(room.hypervisor.pages() == 1, f"{room.hypervisor.pages()} pages by Xen")
    run("systemctl", "start", UNIT)
    source = status()["source"]
    require((source["ring_pages_wanted"], source["ring_pages"]) == (64, 1), str(source))
    return f"wanted {source['ring_pages_wanted']} pages, real {source['ring_pages']}"


def loses_records(room: Room) -> str:
    """under load records are lost, and status counts them"""
    room.start_load()
    wait_for(lambda: sum(status()["lost"].values()) > 0, "lost records")
    now = status()
    return f"{now['records']:,} records, lost {now['lost']}, wakes {now['wakes']}"


def settles(room: Room) -> str:
    """paused and stopped, it leaves a store and its last word on it"""
    run("xtracectl", "pause")
    room.stop_load()
    run("xtracectl", "flush")
    final = status()
    run("systemctl", "stop", UNIT)
    (room.share / "status.json").write_text(json.dumps(final))
    room.leave(STORE, "store")
    return f"{final['records']:,} records, lost {final['lost']}"


def keeps_the_contract(_: Room) -> str:
    """the source's conformance tests pass over the real thing"""
    said = run(
        "env", "-C", "/opt/tests", "PYTHONPATH=/usr/local/lib/xtraced:packages",
        "PYTHONDONTWRITEBYTECODE=1", "python3", "-m", "pytest", "-q", "-p", "no:cacheprovider",
        "tests/xen/on_real_xen.py", timeout=240,
    )  # fmt: skip
    return said.strip().splitlines()[-1]


CHECKS = (starts_on_small_rings, loses_records, settles, keeps_the_contract)
