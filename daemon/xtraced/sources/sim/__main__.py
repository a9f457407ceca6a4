"""`python -m xtraced.sources.sim`: the simulated hypervisor as a process."""

from __future__ import annotations

import socket
import sys
import uuid
from pathlib import Path

from tracelib.errors import XtraceError
from xtraced.sources.sim import abi, options
from xtraced.sources.sim.hypervisor import Hypervisor
from xtraced.sources.sim.options import SimOptions
from xtraced.sources.sim.server import Server, now_ns
from xtraced.sources.sim.workload import GuestWorkload

_BACKLOG = 8
_VENDORS = {"vmx": "GenuineIntel", "svm": "AuthenticAMD"}


def main(words: list[str]) -> int:
    """Serve until told to stop; 0, or 1 with the reason on stderr, or 2 for a bad option."""
    try:
        chosen, process = options.parse_argv(words)
        if chosen.socket is None and process.connection is None:
            options.argparse_parser().error("--socket is required")
        serve(chosen, keep=process.keep, connection=process.connection)
    except XtraceError as error:
        print(f"xtraced.sources.sim: {error}", file=sys.stderr)
        return 1
    return 0


def serve(chosen: SimOptions, *, keep: bool, connection: int | None) -> None:
    """Be the hypervisor. Raises StoreError if the truth cannot be written."""
    hypervisor = Hypervisor(chosen.online(), chosen.cpus)
    workload = GuestWorkload(chosen, hypervisor, now_ns())
    server = Server(chosen, hypervisor, workload, _physinfo(chosen), keep=keep)
    if connection is not None:
        server.add(socket.socket(fileno=connection))
    if chosen.socket is not None:
        server.listen(_listener(chosen.socket))
    try:
        server.run()
    finally:
        if chosen.socket is not None:
            chosen.socket.unlink(missing_ok=True)


def _listener(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    path.unlink(missing_ok=True)
    listener.bind(str(path))
    listener.listen(_BACKLOG)
    return listener


def _physinfo(chosen: SimOptions) -> abi.PhysInfo:
    return abi.PhysInfo(
        nr_cpus=len(chosen.online()),
        max_cpu_id=chosen.cpus - 1,
        tsc_hz=chosen.tsc_hz,
        name="sim",
        version="4.19-sim",
        capabilities="xen-3.0-x86_64 hvm-3.0-x86_32 hvm-3.0-x86_64",
        cpu_vendor=_VENDORS[chosen.family],
        cpu_model="simulated",
        exit_family=chosen.family,
        boot_id=str(uuid.uuid4()),
        tsc_source="simulated",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
