"""dom0 as the checks see it: load, a guest, the hypervisor, a place to leave things."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dom0.commands import CheckError, attempt, run
from dom0.hypervisor import Hypervisor

STORE = Path("/var/lib/xtraced")
CONFIG = Path("/etc/xtraced/xtraced.toml")

GUEST = "guest"
_CONSOLE = Path(f"/var/log/xen/console/guest-{GUEST}.log")
_GUEST_CONFIG = """\
name = "guest"
type = "pvh"
kernel = "/root/guest/vmlinuz"
ramdisk = "/root/guest/initrd"
extra = "console=hvc0"
memory = 256
vcpus = 1
cpus = "1"
on_reboot = "destroy"
on_crash = "destroy"
"""
_ATTEMPTS = 5
_GUEST_PATIENCE = 120
"""Seconds for its boot; a round takes about half a second."""

# Disk reads, processes that come and go, hypercalls that list domains; sleeps in between.
_LOAD = (
    "while :; do dd if=/dev/vda of=/dev/null bs=64k count=64 iflag=direct; sleep 0.1; done",
    "while :; do /bin/true; i=0; while [ $i -lt 300 ]; do i=$((i + 1)); done; sleep 0.1; done",
    "while :; do xl list; sleep 0.5; done",
)


class Room:
    """Everything that it starts ends with it."""

    def __init__(self, share: Path) -> None:
        self.share = share
        self.hypervisor = Hypervisor()
        self.notes: dict[str, Any] = {}
        """What a check leaves for a later one."""
        self._load: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop_load()

    def start_load(self) -> None:
        """A mixed load, until `stop_load`."""
        for loop in _LOAD:
            self._load.append(
                subprocess.Popen(
                    ["sh", "-c", loop], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, start_new_session=True,
                )
            )

    def stop_load(self) -> None:
        """Idempotent."""
        for process in self._load:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._load.clear()

    def run_guest(self, rounds: int) -> str:
        """Start the PVH guest, until it has done so many rounds; how long that took. The
        emulation now and then has it fault or hang: then another one is started."""
        config = Path("/run/guest.cfg")
        config.write_text(_GUEST_CONFIG)
        for number in range(1, _ATTEMPTS + 1):
            _CONSOLE.unlink(missing_ok=True)
            run("xl", "create", str(config), timeout=180)
            seconds = self._wait_for_guest(rounds)
            if self.guest_rounds() >= rounds:
                return f"{seconds:.0f} s after xl create" + (
                    f", attempt {number}" if number > 1 else ""
                )
            self.destroy_guest()
        raise CheckError(f"{_ATTEMPTS} guests faulted or hung")

    def _wait_for_guest(self, rounds: int) -> float:
        """Seconds until it has done so many rounds, or until there is nothing to hope for."""
        started = time.monotonic()
        while self.guest_rounds() < rounds and self._guest_lives():
            if time.monotonic() > started + _GUEST_PATIENCE + rounds:
                break
            time.sleep(0.5)
        return time.monotonic() - started

    def _guest_lives(self) -> bool:
        return attempt("xl", "domid", GUEST)[0] == 0

    def guest_rounds(self) -> int:
        """How much the guest has done since it booted; 0 before that."""
        printed = _CONSOLE.read_text(errors="replace") if _CONSOLE.exists() else ""
        return printed.count("guest: round")

    def destroy_guest(self) -> None:
        """Idempotent."""
        attempt("xl", "destroy", GUEST)

    def leave(self, path: Path, name: str) -> None:
        """Give a file or directory to the host."""
        if path.is_dir():
            shutil.copytree(path, self.share / name)
        else:
            shutil.copyfile(path, self.share / name)
