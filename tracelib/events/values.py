"""How the values of fields are written for people: one function a kind of value."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from tracelib.cpulist import format_cpu_list
from tracelib.events import exits, names
from tracelib.units import PROCESSES

_INT_MIN = -(1 << 31)


def domain_name(domain: int) -> str:
    """ "d7"; domains that are no guests by name, such as "idle"; "pid4711" for KVM's guests."""
    if domain >= PROCESSES:
        return f"pid{domain - PROCESSES}"
    return names.SPECIAL_DOMAINS.get(domain, f"d{domain}")


def vcpu_name(domain: int, vcpu: int) -> str:
    """ "d7v0", "idlev3"."""
    return f"{domain_name(domain)}v{vcpu}"


def nanoseconds(value: int) -> str:
    """Microseconds with all three decimals: 1005 ns is "1.005us", not "1.5us"."""
    sign = "-" if value < 0 else ""
    return f"{sign}{abs(value) // 1000}.{abs(value) % 1000:03}us"


def _vector(vector: int) -> str:
    return (names.VECTORS[vector] if vector < len(names.VECTORS) else None) or hex(vector)


def _slice(value: int) -> str:
    """-1 for the idle vCPU, which runs until somebody else wants to."""
    return "none" if value == -1 else nanoseconds(value)


def _or_none(value: int) -> str:
    return "none" if value == -1 else str(value)


def _error_code(value: int) -> str:
    """-1 for an exception that has none."""
    return "none" if value == -1 else hex(value)


def _budget(value: int) -> str:
    """Credit2 logs INT_MIN for a domain without a cap."""
    return "none" if value == _INT_MIN else str(value)


def _shadow_flags(flags: int) -> str:
    known = [name for bit, name in enumerate(names.SHADOW_FLAGS) if flags >> bit & 1]
    rest = flags >> len(names.SHADOW_FLAGS) << len(names.SHADOW_FLAGS)
    return "+".join(known + ([hex(rest)] if rest else [])) or "0"


def _cpus(mask: int) -> str:
    return format_cpu_list(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)


KINDS: MappingProxyType[str, Callable[[int], str]] = MappingProxyType({
    "dec": str,
    "x": hex,
    "dom": domain_name,
    "vcpu": str,
    "ns": nanoseconds,
    "slice": _slice,
    "opt": _or_none,
    "ec": _error_code,
    "budget": _budget,
    "cpus": _cpus,
    "runstate": lambda value: names.name_of(names.RUNSTATES, value),
    "hypercall": lambda value: names.name_of(names.HYPERCALLS, value),
    "trap": lambda value: names.name_of(names.TRAPS, value),
    "vector": _vector,
    "source": lambda value: names.name_of(names.INTERRUPT_SOURCES, value),
    "shutdown": lambda value: names.name_of(names.SHUTDOWN_REASONS, value),
    "shadow": _shadow_flags,
    "vmx": exits.vmx_exit_name,
    "svm": exits.svm_exit_name,
    "ppc": exits.ppc_exit_name,
    "pid": str,
    "emulated": lambda value: names.name_of(names.EMULATION_RESULTS, value),
})
"""By the kind that a row of the catalogue gives its field."""
