"""A simulated hypervisor that outlives the services attached to it, and tells the truth."""

from __future__ import annotations

import json
import mmap
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tracelib.ring.layout import PAGE_BYTES, parse_t_info
from xtraced.sources.sim import abi
from xtraced.sources.sim.abi import Fault, Op
from xtraced.sources.sim.connection import Connection, Reply
from xtraced.sources.sim.options import SimOptions, argv


class Hypervisor:
    """`python -m xtraced.sources.sim` as a process, listening at `socket`.

    It holds one connection of its own, so services may come, die and come again. A context
    manager; `options` are SimOptions' fields.
    """

    def __init__(
        self, directory: Path, *, limits: tuple[str, ...] = (), **options: Any
    ) -> None:
        """Returns when it listens. `limits`: a command to run it under, e.g. prlimit."""
        directory.mkdir(parents=True, exist_ok=True)
        self.socket = directory / "sim.sock"
        self.truth_path = directory / "truth.json"
        chosen = SimOptions(socket=self.socket, truth=self.truth_path, **options)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [*limits, sys.executable, "-m", "xtraced.sources.sim",
                 f"--connection={theirs.fileno()}", *argv(chosen)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            )  # fmt: skip
        self._connection = Connection(ours, "the simulated hypervisor")
        self.ask(Op.PHYSINFO)

    @property
    def settings(self) -> dict[str, str]:
        """What a service must be told to attach to it."""
        return {"sim.socket": str(self.socket)}

    def ask(self, op: Op, value: int = 0) -> Reply:
        return self._connection.ask(op, value)

    def truth(self) -> dict[str, Any]:
        """What it did so far (xtraced.sources.sim.truth)."""
        self.ask(Op.TRUTH)
        told: dict[str, Any] = json.loads(self.truth_path.read_text())
        return told

    def info(self) -> abi.TbufInfo:
        """Masks, and whether tracing is on."""
        return abi.TbufInfo.decode(self.ask(Op.GET_INFO).payload)

    def ring(self, cpu: int) -> memoryview:
        """A CPU's ring, mapped for whoever wants to interfere; the words of a Ring."""
        (memfd,) = self.ask(Op.MAP).fds
        try:
            info = self.info()
            memory = memoryview(mmap.mmap(memfd, 0))
        finally:
            os.close(memfd)
        t_info = memory[info.buffer_mfn * PAGE_BYTES :][: info.size]
        cpus = abi.PhysInfo.decode(self.ask(Op.PHYSINFO).payload).max_cpu_id + 1
        (pages,) = (ring for ring in parse_t_info(t_info, cpus) if ring.cpu == cpu)
        start = pages.mfns[0] * PAGE_BYTES
        return memory[start : start + len(pages.mfns) * PAGE_BYTES].cast("I")

    def inject(self, fault: Fault, cpu: int = 0) -> None:
        """Do something wrong from now on."""
        self.ask(Op.FAULT, fault << 32 | cpu)

    def halt(self) -> None:
        """Stop it in its tracks: no records, no answers, until `go_on`."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it; idempotent."""
        if self.process.poll() is None:
            self.go_on()
            self.ask(Op.SHUTDOWN)
        self._connection.close()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
