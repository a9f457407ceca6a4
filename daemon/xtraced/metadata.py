"""What a segment's metadata says: gathered from settings, source and host."""

from __future__ import annotations

import platform
import uuid
from pathlib import Path

from tracelib.segment.metadata import Metadata
from tracelib.units import CpuId, Nanoseconds
from tracelib.version import VERSION
from xtraced.settings import Settings
from xtraced.sources import Masks, Source

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def new_run_id() -> str:
    """Names one run of the service in all its segments."""
    return uuid.uuid4().hex


def host_boot_id() -> str | None:
    """The kernel's name for this boot; None where there is none to read."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return None


def segment_metadata(
    settings: Settings, source: Source, wanted: Masks, in_force: Masks, run_id: str
) -> Metadata:
    """Everything a reader must not need to be told. Sequence, creation time and the reason
    for the previous segment's end are left for the writer to fill in."""
    hypervisor = source.hypervisor
    override = settings.source.cpu_hz
    return Metadata(
        sequence=0,
        created_at=Nanoseconds(0),
        previous_reason="none",
        run_id=run_id,
        service_version=VERSION,
        host=platform.node(),
        boot_id=hypervisor.boot_id or host_boot_id(),
        source=settings.source.kind.name,
        hypervisor=hypervisor.name,
        hypervisor_version=hypervisor.version,
        hypervisor_changeset=hypervisor.changeset,
        hypervisor_capabilities=hypervisor.capabilities,
        cpu_vendor=hypervisor.cpu_vendor,
        cpu_model=hypervisor.cpu_model,
        exit_family=hypervisor.exit_family,
        tsc_hz=override or hypervisor.tsc_hz,
        tsc_source="option" if override else hypervisor.tsc_source,
        cpus=hypervisor.cpus,
        ring_cpus=tuple(ring.cpu for ring in source.rings),
        ring_pages=source.ring_pages,
        ring_pages_wanted=settings.source.pages,
        events_wanted=wanted.events,
        events=in_force.events,
        cpus_wanted=_sorted(wanted.cpus),
        cpus_traced=_sorted(in_force.cpus),
    )


def _sorted(cpus: frozenset[CpuId] | None) -> tuple[CpuId, ...] | None:
    return None if cpus is None else tuple(sorted(cpus))
