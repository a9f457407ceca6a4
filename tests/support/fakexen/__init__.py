"""Builds the stand-ins for Xen's libraries, and puts them in the real ones' place.

fakexen.h says what they are and what the environment can make them do. Where they differ
from the real thing, which `make test-xen` is for:

- the event comes at once; Xen raises it from a tasklet, so one may come late, after tracing
  was switched off;
- nobody else uses the domain's event channels and foreign mappings;
- refusals are injected by number; there is no XSM policy behind them;
- CPUs neither come nor go while tracing;
- the producer is a process that competes with us for the same cores;
- time stamps are the machine's own, never scaled for the domain.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.sim import Hypervisor
from tracelib.errors import SourceError
from xtraced.sources.sim.abi import Op
from xtraced.sources.sim.connection import Connection
from xtraced.sources.xen.host import Host
from xtraced.sources.xen.source import XenSource

HERE = Path(__file__).parent
NAMES = ("xencall", "xenforeignmemory", "xenevtchn")
_RESET = "reset.so"
COMPILER = shutil.which("cc")
XENTRACE = Path("/usr/lib/xen-4.17/bin/xentrace")
"""Debian's, linked with libxenctrl.so.4.17 (package xen-utils-4.17)."""


def build(directory: Path) -> Path:
    """Compile the three libraries into this directory; returns it."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        versions = f"-Wl,--version-script={HERE / name}.map"
        _compile(name, library(directory, name), f"-Wl,-soname,lib{name}.so.1", versions)
    _compile("reset", directory / _RESET)
    return directory


def _compile(name: str, into: Path, *options: str) -> None:
    assert COMPILER is not None
    warnings = ("-Wall", "-Wextra", "-Werror")
    command = [COMPILER, "-shared", "-fPIC", "-O2", *warnings, *options, "-o", str(into)]
    subprocess.run([*command, str(HERE / f"{name}.c"), "-ldl"], check=True)


def library(directory: Path, name: str) -> Path:
    return directory / f"lib{name}.so.1"


def environ(
    directory: Path, socket: Path, *, preload: bool = False, **behaviour: str
) -> dict[str, str]:
    """What a program needs in its environment to find the stand-ins, and through them the
    hypervisor at `socket`. `behaviour`: fail, sysctl, overflow, spoil (fakexen.h); with
    `preload`, an event queue that overflowed can be reset."""
    found = {"LD_LIBRARY_PATH": str(directory), **variables(socket, behaviour)}
    if preload:
        found["LD_PRELOAD"] = str(directory / _RESET)
    return found


def variables(socket: Path, behaviour: Mapping[str, str]) -> dict[str, str]:
    """The stand-ins' own variables."""
    told = {f"FAKEXEN_{name.upper()}": value for name, value in behaviour.items()}
    return {"FAKEXEN_SOCKET": str(socket), **told}


def load_here(directory: Path) -> None:
    """Have this process find the stand-ins by soname from now on, whatever its library
    path: the linker takes a library that is loaded already."""
    for name in NAMES:
        ctypes.CDLL(str(library(directory, name)), mode=os.RTLD_NOW)


def failing(**calls: int) -> str:
    """For `fail`: these calls with these errnos. `map_3` is the third call of `map`, counted
    over the life of the process."""
    rules = []
    for name, number in calls.items():
        stem, _, nth = name.rpartition("_")
        call = f"{stem}:{nth}" if nth.isdigit() else name
        rules.append(f"{call}={number}")
    return ",".join(rules)


@functools.cache
def built() -> Path:
    """The libraries, compiled once for all tests of this process. Skips the test that asks
    where there is no C compiler."""
    if COMPILER is None:
        pytest.skip("needs a C compiler (cc)")
    directory = tempfile.mkdtemp(prefix="fakexen-")
    atexit.register(shutil.rmtree, directory)
    return build(Path(directory))


class Stage:
    """A simulated hypervisor that this process sees as Xen, through the stand-ins."""

    def __init__(self, machine: Hypervisor, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine = machine
        self._monkeypatch = monkeypatch
        load_here(built())
        for name, value in variables(machine.socket, {}).items():
            monkeypatch.setenv(name, value)

    def tell(self, **behaviour: str) -> None:
        """How the stand-ins behave from now on: fail, sysctl, spoil (fakexen.h)."""
        for name, value in variables(self.machine.socket, behaviour).items():
            self._monkeypatch.setenv(name, value)

    @staticmethod
    def opened(pages: int = 8, host: Host | None = None) -> XenSource:
        """The source, open."""
        source = XenSource(pages=pages, host=host)
        source.open()
        return source

    @staticmethod
    def descriptors() -> int:
        """How many this process has open."""
        return len(list(Path("/proc/self/fd").iterdir()))

    @staticmethod
    def mapped() -> int:
        """How many mappings of the hypervisor's memory this process has."""
        return Path("/proc/self/maps").read_text().count("memfd:xtraced-sim")

    def bound(self) -> bool:
        return is_bound(self.machine)


def is_bound(machine: Hypervisor) -> bool:
    """Whether somebody has VIRQ_TBUF; binds it for a moment to know."""
    connection = Connection.to(machine.socket)
    try:
        (events,) = connection.ask(Op.BIND_VIRQ).fds
    except SourceError as error:
        if error.errno != errno.EEXIST:
            raise
        return True
    finally:
        connection.close()
    os.close(events)
    return False
