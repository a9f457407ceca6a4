"""What a segment says of itself: its first block. FORMAT.md, "Metadata", is the table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from tracelib import packing
from tracelib.errors import FormatError
from tracelib.segment.fields import Fields
from tracelib.units import CpuId, Nanoseconds

FORMAT = 1
UNDERSTOOD: frozenset[str] = frozenset()
"""Incompatible features that this release can read."""

LITTLE = "little"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Machine, rings, masks and history, as they were when the segment was opened.

    Unknown is None, never a guess. `compatible` features may be ignored by a reader that
    does not know them; one `incompatible` feature that it does not know and it must refuse.
    """

    sequence: int
    """The segment's number in its store, as in its name."""
    run_id: str
    """One run of the service; random."""
    created_at: Nanoseconds
    service_version: str
    previous_reason: str
    """Why the previous segment ended ("size", "age", "command", "stop", "crash" ...);
    "none" if there was none."""
    source: str
    """ "xen", "sim" or "file"."""
    host: str | None = None
    boot_id: str | None = None
    hypervisor: str | None = None
    hypervisor_version: str | None = None
    hypervisor_changeset: str | None = None
    hypervisor_capabilities: str | None = None
    cpu_vendor: str | None = None
    cpu_model: str | None = None
    exit_family: str | None = None
    """ "vmx", "svm" or "arm"."""
    tsc_hz: int | None = None
    tsc_source: str | None = None
    """Where the rate came from: "physinfo", "simulated", "option", "file"."""
    cpus: int
    """Highest possible CPU number plus one."""
    ring_cpus: tuple[CpuId, ...]
    """The CPUs that have a ring, ascending; the others below `cpus` have none."""
    ring_pages_wanted: int
    ring_pages: int
    """Pages of 4096 bytes in each ring: asked for, and real."""
    events_wanted: int
    events: int
    """Event masks: asked for, and what the hypervisor said it traces."""
    cpus_wanted: tuple[CpuId, ...] | None = None
    cpus_traced: tuple[CpuId, ...] | None = None
    """CPU masks: asked for, and in force; None is all of them."""
    format: int = FORMAT
    compatible: tuple[str, ...] = ()
    incompatible: tuple[str, ...] = ()
    byte_order: str = LITTLE
    """Of the words in records blocks."""

    def encode(self) -> bytes:
        """The payload of a metadata block."""
        return packing.pack({field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def decode(cls, payload: bytes | memoryview) -> Metadata:
        """The inverse of `encode`. Keys that this release does not know are ignored.

        Raises FormatError, naming what is needed, for a newer format or an incompatible
        feature; DamageError for a missing or mistyped key.
        """
        found = Fields.unpack(payload, "metadata")
        _refuse_newer(found)
        return cls(
            sequence=found.integer("sequence"),
            run_id=found.text("run_id"),
            created_at=Nanoseconds(found.integer("created_at")),
            service_version=found.text("service_version"),
            previous_reason=found.text("previous_reason"),
            source=found.text("source"),
            **{key: found.optional(key, found.text) for key in _OPTIONAL_TEXTS},
            tsc_hz=found.optional("tsc_hz", found.integer),
            cpus=found.integer("cpus"),
            ring_cpus=_cpu_ids(found.integers("ring_cpus")),
            ring_pages_wanted=found.integer("ring_pages_wanted"),
            ring_pages=found.integer("ring_pages"),
            events_wanted=found.integer("events_wanted"),
            events=found.integer("events"),
            cpus_wanted=_optional_cpu_ids(found, "cpus_wanted"),
            cpus_traced=_optional_cpu_ids(found, "cpus_traced"),
            format=found.integer("format"),
            compatible=found.texts("compatible"),
            incompatible=found.texts("incompatible"),
            byte_order=found.text("byte_order"),
        )


_OPTIONAL_TEXTS = (
    "host", "boot_id", "hypervisor", "hypervisor_version", "hypervisor_changeset",
    "hypervisor_capabilities", "cpu_vendor", "cpu_model", "exit_family", "tsc_source",
)


def _refuse_newer(found: Fields) -> None:
    number = found.integer("format")
    if number != FORMAT:
        raise FormatError(f"segment format {number}; this release reads {FORMAT}", hint=_NEWER)
    unknown = sorted(set(found.texts("incompatible")) - UNDERSTOOD)
    if unknown:
        raise FormatError(f"needs features unknown here: {', '.join(unknown)}", hint=_NEWER)
    order = found.text("byte_order")
    if order != LITTLE:
        raise FormatError(f"records in {order!r} byte order; this release reads {LITTLE!r}")


_NEWER = "a newer xtraced wrote this: read it with one at least as new"


def _cpu_ids(numbers: Iterable[int]) -> tuple[CpuId, ...]:
    return tuple(CpuId(number) for number in numbers)


def _optional_cpu_ids(found: Fields, key: str) -> tuple[CpuId, ...] | None:
    numbers = found.optional(key, found.integers)
    return None if numbers is None else _cpu_ids(numbers)
