"""`python -m xtraced.sources.sim`: the simulated hypervisor as a process."""

from __future__ import annotations

import errno
import socket
import sys
import uuid
from pathlib import Path

from tracelib.errors import XtraceError
from tracelib.store import fsops
from xtraced.sources.sim import abi, options, truth
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
        connection = None
        if process.connection is not None:
            connection = socket.socket(fileno=process.connection)
        elif chosen.socket is None:
            options.argparse_parser().error("--socket is required")
        return run(chosen, connection, keep=process.keep)
    except XtraceError as error:
        print(f"xtraced.sources.sim: {error}", file=sys.stderr)
        return 1


def run(chosen: SimOptions, connection: socket.socket | None, *, keep: bool) -> int:
    """Be the hypervisor until told to stop. What keeps it from starting is told to whoever
    started it, or raised if nobody did."""
    try:
        server = build(chosen, keep=keep)
    except XtraceError as error:
        if connection is None:
            raise
        connection.recv(abi.PACKET_BYTES)
        connection.send(abi.HEADER.pack(0, errno.EINVAL, 0) + str(error).encode())
        return 1
    if connection is not None:
        server.add(connection)
    serve(server, chosen.socket)
    return 0


def build(chosen: SimOptions, *, keep: bool) -> Server:
    """The hypervisor, with guests or a file. Raises StoreError or FormatError for a file
    that cannot be read, StoreError for a truth that cannot be written."""
    if chosen.truth is not None:
        truth.check(chosen.truth)
    if chosen.replay is None:
        hypervisor = Hypervisor(chosen.online(), chosen.cpus)
        guests = GuestWorkload(chosen, hypervisor, now_ns())
        return Server(chosen, hypervisor, guests, _physinfo(chosen), keep=keep)
    # Here, since only a replay needs what reads files.
    from xtraced.sources.sim.replay import ReplayWorkload, open_replay

    reader, physinfo, cpus = open_replay(chosen.replay)
    hypervisor = Hypervisor([int(cpu) for cpu in cpus], physinfo.max_cpu_id + 1, patient=True)
    replay = ReplayWorkload(reader, chosen.rate, hypervisor)
    physinfo = physinfo._replace(boot_id=str(uuid.uuid4()))
    return Server(chosen, hypervisor, replay, physinfo, keep=keep)


def serve(server: Server, path: Path | None) -> None:
    """Be the hypervisor, listening at `path`. Raises StoreError if that cannot be, or the
    truth cannot be written."""
    if path is not None:
        server.listen(_listener(path))
        print(f"listening at {path}", flush=True)
    try:
        server.run()
    finally:
        if path is not None:
            path.unlink(missing_ok=True)


def _listener(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with fsops.translated("listen at", path):
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
