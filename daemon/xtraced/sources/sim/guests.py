"""What the simulated guests do: tables of VM exits and hypercalls, and who lives where.

Exit reasons are the vendors' (Intel SDM volume 3 appendix C, AMD APM volume 2 appendix C);
the words of each handler record are Xen's (xen/include/public/trace.h and its emission
sites). The engine knows an exit by its row number here.
"""

from __future__ import annotations

from typing import NamedTuple

from xtraced.sources.sim import headers

IDLE_DOMAIN = 0x7FFF

IDLE, PV, HVM = range(3)
"""Kinds of vCPU; the numbers are the engine's."""


class Exit(NamedTuple):
    """One kind of VM exit."""

    name: str
    vmx: int
    svm: int
    weight: int
    """How often, against the other rows."""
    cycles: int
    """Mean cost."""
    handler: int = 0
    """Header of the handler's record; 0 for none, or one that the engine makes itself."""
    first: int = 0
    spread: int = 0
    """Its first word is `first` plus random bits under the mask `spread`."""


EXITS = (
    Exit("interrupt", vmx=1, svm=0x60, weight=10, cycles=1500),
    Exit("interrupt window", vmx=7, svm=0x64, weight=4, cycles=1200),
    Exit("cpuid", vmx=10, svm=0x72, weight=3, cycles=1600),
    Exit("halt", vmx=12, svm=0x78, weight=4, cycles=2500),
    Exit("rdtsc", vmx=16, svm=0x6E, weight=20, cycles=1000),
    Exit("hypercall", 18, 0x81, 12, 2200, headers.VMMCALL, first=17, spread=0xF),
    Exit("cr write", 28, 0x13, 5, 1800, headers.CR_WRITE, first=3),
    Exit("port read", 30, 0x7B, 10, 6000, headers.IOPORT_READ, first=0x1F0, spread=7),
    Exit("port write", 30, 0x7B, 8, 6500, headers.IOPORT_WRITE, first=0x3F8, spread=7),
    Exit("msr read", 31, 0x7C, 6, 1300, headers.MSR_READ, first=0x10, spread=0xFF),
    Exit("msr write", 32, 0x7C, 10, 1700, headers.MSR_WRITE, first=0x800, spread=0x3F),
    Exit("pause", vmx=40, svm=0x77, weight=3, cycles=800),
    Exit("nested page fault", vmx=48, svm=0x400, weight=8, cycles=4000),
    Exit("device memory", vmx=48, svm=0x400, weight=2, cycles=9000),
)

MEAN_EXIT_CYCLES = sum(row.weight * row.cycles for row in EXITS) // sum(
    row.weight for row in EXITS
)


class ExitRow(NamedTuple):
    """A row of EXITS as the engine takes it, for one vendor and one rate."""

    reason: int
    weight: int
    cycles: int
    handler: int
    first: int
    spread: int


EXIT_BYTES = 60
"""Of an exit, its handler and the entry after it, about."""


def exit_reason(row: int, family: str) -> int:
    """The vendor's number for a row of EXITS."""
    return EXITS[row].vmx if family == "vmx" else EXITS[row].svm


def exit_rows(family: str, price: int) -> list[ExitRow]:
    """The table for the engine, with bytes at `price` (1/256 cycles).

    Where bytes are cheap, exits cost less than in life, so that their handling takes at
    most about half of the time there is.
    """
    budget = EXIT_BYTES * price // 512
    return [
        ExitRow(
            exit_reason(number, family), row.weight,
            min(row.cycles, row.cycles * budget // MEAN_EXIT_CYCLES),
            row.handler, row.first, row.spread,
        )
        for number, row in enumerate(EXITS)
    ]  # fmt: skip


def shares(weights: list[int]) -> list[int]:
    """A list of 256 indexes of `weights`, each as often as its weight's share of the sum."""
    total = sum(weights)
    ends = [sum(weights[: index + 1]) * 256 for index in range(len(weights))]
    return [
        next(index for index, end in enumerate(ends) if end > byte * total) for byte in range(256)
    ]


class Place(NamedTuple):
    """One vCPU: who it is and which CPU it starts on."""

    domain: int
    vcpu: int
    kind: int
    wide: bool
    """An HVM guest in 64-bit mode; its exits carry a 64-bit RIP."""
    cpu: int


def place_guests(cpus: list[int], domains: int) -> list[Place]:
    """Domain 0 gets a vCPU on every CPU, as Xen gives it; guests get 2, or as many more as
    it takes to have two guest vCPUs on every CPU."""
    places = [Place(0, number, PV, True, cpu) for number, cpu in enumerate(cpus)]
    if domains == 0:
        return places
    each = min(128, max(2, (2 * len(cpus) + domains - 1) // domains))
    for index in range(domains * each):
        domain, number = 1 + index // each, index % each
        kind = HVM if domain % 2 else PV
        places.append(Place(domain, number, kind, domain % 8 != 7, cpus[index % len(cpus)]))
    return places
