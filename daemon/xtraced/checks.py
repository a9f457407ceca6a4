"""Settings that are fine one by one and make no sense together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from tracelib.cpulist import format_cpu_list
from tracelib.errors import UsageError
from tracelib.segment.block import PAGE
from tracelib.units import format_duration, format_size
from xtraced.describe import shown
from xtraced.settings import Settings, SimSettings
from xtraced.sources.sim.options import SimOptions

Contradiction = tuple[tuple[str, ...], str]
"""The keys it is between, and why their values cannot be."""


def contradictions(settings: Settings) -> Iterator[Contradiction]:
    """All of them."""
    yield from _sizes(settings)
    yield from _ages(settings)
    yield from _simulation(settings.sim)


def warnings(settings: Settings) -> Iterator[str]:
    """What is allowed and may still surprise, a sentence each."""
    for warning in settings.collect.events.warnings:
        yield f"collect.events: {warning}"
    if settings.collect.events.mask == 0:
        yield "collect.events: the mask lets nothing through; nothing will be recorded"
    yield from _cpus_that_are_not_there(settings)
    if settings.source.kind.name == "xen":
        if settings.sim != SimSettings():
            yield "sim: these settings do nothing while source.kind is xen"
    elif (truth := settings.sim.truth) is not None and not truth.parent.is_dir():
        yield f"sim.truth: there is no directory {truth.parent}; the service will not start"


def sim_options(sim: SimSettings) -> SimOptions:
    """The [sim] section as the simulated hypervisor takes it; the names are the same."""
    return SimOptions(**{row.name: getattr(sim, row.name) for row in fields(sim)})


def _sizes(settings: Settings) -> Iterator[Contradiction]:
    segment, buffer = settings.segment.max_bytes, settings.writer.buffer_bytes
    store = settings.store.max_bytes
    if segment < 2 * buffer:
        yield ("segment.max_bytes", "writer.buffer_bytes"), (
            f"segment.max_bytes ({format_size(segment)}) must be at least twice "
            f"writer.buffer_bytes ({format_size(buffer)}): a segment has a head and a seal "
            f"beside its records; {_set('segment.max_bytes', at_least=2 * buffer)}"
        )
    if segment > store // 2:
        smaller = _set("segment.max_bytes", at_most=store // 2)
        if buffer > store // 4:
            smaller += " and " + _set("writer.buffer_bytes", at_most=store // 4 // PAGE * PAGE)
        yield ("segment.max_bytes", "store.max_bytes"), (
            f"segment.max_bytes ({format_size(segment)}) must be at most half of "
            f"store.max_bytes ({format_size(store)}), or nothing older than the open segment "
            f"could be kept; {_set('store.max_bytes', at_least=2 * segment)}, or {smaller}"
        )


def _cpus_that_are_not_there(settings: Settings) -> Iterator[str]:
    """Only of the hypervisor that we would start: others are not known before they are open."""
    sim, asked = settings.sim, settings.collect.cpus
    if settings.source.kind.name != "sim" or sim.socket is not None or asked is None:
        return
    there = set(sim_options(sim).online())
    if not asked & there:
        yield "collect.cpus: the mask names no CPU that is there; nothing will be recorded"
    elif asked - there:
        missing = format_cpu_list(frozenset(asked - there))
        yield f"collect.cpus: {missing} will not be recorded: no such CPU is there"


def _set(key: str, *, at_least: int | None = None, at_most: int | None = None) -> str:
    """What to do, with a value that can be written so, exactly."""
    if at_least is not None:
        return f"set {key} to at least {shown(key, at_least)}"
    return f"set {key} to at most {shown(key, at_most)}"


def _ages(settings: Settings) -> Iterator[Contradiction]:
    segment, store = settings.segment.max_age, settings.store.max_age
    if 0 < store < segment:
        yield ("segment.max_age", "store.max_age"), (
            f"segment.max_age ({format_duration(segment)}) must be at most store.max_age "
            f"({format_duration(store)}), or segments would be deleted as soon as they are sealed"
        )


def _simulation(sim: SimSettings) -> Iterator[Contradiction]:
    if sim.offline and max(sim.offline) >= sim.cpus:
        yield ("sim.offline", "sim.cpus"), (
            f"CPU {max(sim.offline)} cannot be offline: there are {sim.cpus} (sim.cpus)"
        )
    try:
        sim_options(sim).check()
    except UsageError as error:
        keys = ("sim.offline", "sim.weights", "sim.faults", "sim.domains", "sim.cpus")
        yield keys, error.message
