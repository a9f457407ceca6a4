"""What the simulated guests do: tables of VM exits and hypercalls, and who lives where.

Exit reasons are the vendors' (Intel SDM volume 3 appendix C, AMD APM volume 2 appendix C);
the words of each handler record are Xen's (xen/include/public/trace.h and its emission
sites). The engine knows an exit by its row number here.
"""

from __future__ import annotations

from typing import NamedTuple

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
    """Mean cost; the engine scales all of them down where the wanted rate leaves less."""


EXITS = (
    Exit("interrupt", vmx=1, svm=0x60, weight=10, cycles=1500),
    Exit("interrupt window", vmx=7, svm=0x64, weight=4, cycles=1200),
    Exit("cpuid", vmx=10, svm=0x72, weight=3, cycles=1600),
    Exit("halt", vmx=12, svm=0x78, weight=4, cycles=2500),
    Exit("rdtsc", vmx=16, svm=0x6E, weight=20, cycles=1000),
    Exit("hypercall", vmx=18, svm=0x81, weight=12, cycles=2200),
    Exit("cr access", vmx=28, svm=0x13, weight=5, cycles=1800),
    Exit("port read", vmx=30, svm=0x7B, weight=10, cycles=6000),
    Exit("port write", vmx=30, svm=0x7B, weight=8, cycles=6500),
    Exit("msr read", vmx=31, svm=0x7C, weight=6, cycles=1300),
    Exit("msr write", vmx=32, svm=0x7C, weight=10, cycles=1700),
    Exit("pause", vmx=40, svm=0x77, weight=3, cycles=800),
    Exit("nested page fault", vmx=48, svm=0x400, weight=8, cycles=4000),
    Exit("device memory", vmx=48, svm=0x400, weight=2, cycles=9000),
)

MEAN_EXIT_CYCLES = sum(row.weight * row.cycles for row in EXITS) // sum(
    row.weight for row in EXITS
)


EXIT_BYTES = 60
"""Of an exit, its handler and the entry after it, about."""


def exit_reason(row: int, family: str) -> int:
    """The vendor's number for a row of EXITS."""
    return EXITS[row].vmx if family == "vmx" else EXITS[row].svm


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
