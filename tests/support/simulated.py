"""What a simulated hypervisor wrote while it ran for a while, and the truth about it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from tests.support.machines import take
from tests.support.segments import SegmentBuilder
from tracelib.units import Nanoseconds
from tracelib.xentrace.format import CPU_CHANGE_HEADER
from xtraced.sources.sim.hypervisor import Hypervisor
from xtraced.sources.sim.options import SimOptions
from xtraced.sources.sim.truth import truth
from xtraced.sources.sim.workload import GuestWorkload

_TURN = 2_000_000
"""Nanoseconds from one drain of all rings to the next."""


class SimulatedTrace:
    """A machine run in this process, every ring drained each 2 ms, in the machine's time."""

    def __init__(self, milliseconds: int, *, pages: int = 64, **options: Any) -> None:
        """`options` are those of the simulator (SimOptions)."""
        self.options = SimOptions(
            **{"cpus": 3, "rate": 5_000_000, "domains": 3, "deterministic": True} | options
        )
        hypervisor = Hypervisor(self.options.online(), self.options.cpus)
        hypervisor.set_size(pages)
        now = 10**9
        workload = GuestWorkload(self.options, hypervisor, Nanoseconds(now))
        workload.start(Nanoseconds(now))
        self.windows: list[tuple[int, bytes]] = []
        """CPU and records, in the order in which they were drained."""
        for _ in range(milliseconds * 1_000_000 // _TURN):
            now += _TURN
            workload.advance(Nanoseconds(now))
            for cpu, words in hypervisor.memory.rings.items():
                self.windows.append((cpu, take(words)))
        self.hz = self.options.tsc_hz
        self.truth = truth(self.options, hypervisor, workload.engine)
        """As in the simulator's truth file."""

    @property
    def vcpus(self) -> dict[tuple[int, int], dict[str, Any]]:
        """The truth about the guests' vCPUs, by domain and number."""
        return {
            (vcpu["domain"], vcpu["vcpu"]): vcpu
            for vcpu in self.truth["vcpus"] if vcpu["kind"] != "idle"
        }  # fmt: skip

    def write_xentrace(self, path: Path) -> Path:
        """As xentrace would have."""
        with path.open("wb") as out:
            for cpu, payload in self.windows:
                out.write(struct.pack("<III", CPU_CHANGE_HEADER, cpu, len(payload)) + payload)
        return path

    def write_segment(self, directory: Path) -> Path:
        """As xtraced would have, but for clock anchors and what ran at the start."""
        builder = SegmentBuilder(exit_family=self.options.family, tsc_hz=self.hz)
        for cpu, payload in self.windows:
            builder.block(cpu, payload)
        return builder.seal().write(directory)
