"""The table of settings: every key with its parser, default, unit, help, and what it takes
for a change to come into force.

The configuration file's reader, `--set`, the default configuration and the man page are all
made from it. Access is typed: `settings.store.max_bytes` is an int, in bytes.
"""

# ruff: noqa: RUF009
# setting() is a field specifier, as dataclasses.field is; ruff cannot know that.

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from tracelib.masks import EventMask, parse_event_mask
from tracelib.units import CpuId, Nanoseconds
from xtraced import parsers as p

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table, as far as it does not depend on the section it is in."""

    parse: p.Parser[Any]
    default: str
    """As somebody would write it."""
    unit: str
    """What a bare value is made of: "size", "duration", "number", "true/false" ..."""
    help: str
    reloadable: bool
    """Whether a reload (SIGHUP) brings a change into force; if not, it takes a restart."""


def setting(
    parse: p.Parser[T], default: str, unit: str, help: str, *, reloadable: bool = False
) -> T:
    """A row of the table, as a dataclass field whose default is the parsed default."""
    row = Setting(parse, default, unit, " ".join(help.split()), reloadable)
    return field(default=parse(default), metadata={"setting": row})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """Where the records come from."""

    kind: p.SourceKind = setting(
        p.source_kind, "xen", "source",
        """xen: this host's hypervisor. sim: a simulated one, to try the product anywhere.
        file:PATH: an xentrace file or a segment, replayed as if it were live.""",
    )
    pages: int = setting(
        p.number(1, 65535), "64", "pages of 4096 bytes",
        """Size of each CPU's ring. Xen allocates its rings once per boot; if they exist
        already, they keep the size they have, and status shows both.""",
    )
    cpu_hz: int | None = setting(
        p.optional(p.hz), "", "clock rate",
        """Rate of the time stamps, if what the hypervisor says is wrong. Empty: ask it.""",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSettings:
    """The simulated hypervisor, for source.kind = "sim".

    The names are those of SimOptions' fields.
    """

    cpus: int = setting(p.number(1, 4096), "4", "CPUs", "How many CPUs it has.")
    offline: frozenset[CpuId] = setting(
        p.cpu_list, "", "CPU list", "CPUs that are offline and have no ring."
    )
    rate: int = setting(
        p.size("1", "16G", off=True), "1M", "size",
        "Bytes of records a second, over all CPUs; 0 for a silent host.",
    )
    burst: tuple[Nanoseconds, Nanoseconds] | None = setting(
        p.optional(p.burst), "", "two durations",
        "ON,OFF: records come at the rate for so long, then none for so long. Empty: always on.",
    )
    weights: tuple[int, ...] = setting(
        p.weights, "", "numbers", "Each CPU's share of the rate, e.g. 4,1,1,0. Missing ones are 1."
    )
    seed: int = setting(p.number(0, 2**63 - 1), "1", "number", "The same seed, the same guests.")
    domains: int = setting(p.number(0, 64), "3", "domains", "How many guests run beside domain 0.")
    deterministic: bool = setting(
        p.boolean, "false", "true/false",
        "Time stamps come from the options, not from the clock: the same records each run.",
    )
    tsc_hz: int = setting(p.hz, "2.4G", "clock rate", "Rate of its time stamps.")
    skew: int = setting(
        p.number(-(2**40), 2**40), "0", "cycles",
        "How far each CPU's time stamps are ahead of those of the CPU before it.",
    )
    family: Literal["vmx", "svm"] = setting(
        p.family, "vmx", "vmx or svm", "Whose exit codes its guests have."
    )
    tbuf_pages: int = setting(
        p.number(1, 65535, off=True), "0", "pages of 4096 bytes",
        "Rings that exist at its boot, as Xen's tbuf_size= makes them; 0 for none.",
    )
    limit: int = setting(
        p.number(1, 2**63 - 1, off=True), "0", "records",
        "Stop after about so many records; 0 to go on for ever.",
    )
    faults: frozenset[str] = setting(
        p.words, "", "words", "What it does wrong, for tests: no-notify, stuck, bogus-prod."
    )
    socket: Path | None = setting(
        p.optional(p.socket_path), "", "path",
        "Attach to the simulated hypervisor that listens there; empty: start one.",
    )
    truth: Path | None = setting(
        p.optional(p.path), "", "path", "A file in which it says what it did; empty for none."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectSettings:
    """What is traced, and how it is taken out of the rings."""

    events: EventMask = setting(
        parse_event_mask, "all", "event mask",
        """What to trace: names of classes and subclasses with commas between them
        (sched,hvm.handler), or a number as Xen's masks have it; all, none.""",
        reloadable=True,
    )
    cpus: frozenset[CpuId] | None = setting(
        p.cpu_set, "all", "CPU list", "Which CPUs to trace: all, or a list like 0-3,7.",
        reloadable=True,
    )
    flush_interval: Nanoseconds = setting(
        p.duration("10ms", "1h"), "5s", "duration",
        """How long records may wait in a ring that does not fill. Xen gives a sign at half
        full only; this is the timer beside it.""",
        reloadable=True,
    )
    start: str = setting(
        p.choice("keep", "discard"), "keep", "keep or discard",
        """What to do with records that lie in the rings at start: keep them, marked as
        older than the start, or discard them.""",
    )
    leave_enabled: bool = setting(
        p.boolean, "false", "true/false",
        """Leave tracing switched on at stop, for a successor; what comes in between stays
        in the rings as far as they hold it.""",
        reloadable=True,
    )
    pause_on_start: bool = setting(
        p.boolean, "false", "true/false",
        "Start without switching tracing on; `xtracectl resume` does.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSettings:
    """The staging buffers, and the thread that writes them."""

    buffers: int = setting(
        p.number(3, 64), "8", "buffers",
        """How many staging buffers. All of them full means that the disk is slower than
        the rings: then the rings fill, and what Xen drops is counted as queue_full.""",
    )
    buffer_bytes: int = setting(
        p.size("64K", "16M", multiple=4096), "1M", "size",
        "Size of each: as much as one write writes. A multiple of 4096.",
    )
    direct: str = setting(
        p.choice("auto", "off"), "auto", "auto or off",
        """auto: write past the page cache (O_DIRECT) where the file system takes it. off:
        through the page cache.""",
    )
    sync_interval: Nanoseconds = setting(
        p.duration("100ms", "1h"), "5s", "duration",
        "How much time's records a crash of the host may cost, at most.",
        reloadable=True,
    )
    retry: Nanoseconds = setting(
        p.duration("100ms", "10m"), "2s", "duration",
        "How long to wait before another attempt after the store refused a write.",
        reloadable=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSettings:
    """When a segment is sealed and the next one begun."""

    max_bytes: int = setting(
        p.size("128K", "1T"), "64M", "size",
        """Largest segment; at least twice writer.buffer_bytes, at most half of
        store.max_bytes. Not set: 64M, or a quarter of store.max_bytes if that is less.""",
        reloadable=True,
    )
    max_age: Nanoseconds = setting(
        p.duration("1s", "365d", off=True), "1h", "duration",
        "Oldest an open segment may get; 0 for no limit.", reloadable=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Where segments are kept, and how much of them. The oldest go first."""

    directory: Path = setting(
        p.path, "/var/lib/xtraced", "path", "The directory of segments, 0750, made if missing."
    )
    max_bytes: int = setting(
        p.size("256K", "1024T"), "4G", "size",
        "Largest sum of all segments, the open one included.", reloadable=True,
    )
    keep_free: int = setting(
        p.size("1M", "1024T", off=True), "1G", "size",
        "What the file system must have left for the service; 0 for no such limit.",
        reloadable=True,
    )
    max_age: Nanoseconds = setting(
        p.duration("1s", "36500d", off=True), "0", "duration",
        "Oldest a sealed segment may get; 0 for no limit.", reloadable=True,
    )
    max_segments: int = setting(
        p.number(2, 10**8, off=True), "0", "segments",
        "Most segments, the open one included; 0 for no limit.", reloadable=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """The socket through which xtracectl asks and commands."""

    socket: Path = setting(p.socket_path, "/run/xtraced/control.sock", "path", "Where it is.")
    status_for: str = setting(
        p.choice("group", "all"), "group", "group or all",
        """Who may read the status: root and the group xtraced, or everybody. Commands are
        for root and the group in either case.""",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """The service as a process."""

    stop_timeout: Nanoseconds = setting(
        p.duration("1s", "1h"), "20s", "duration",
        """How long a stop may take to drain the rings and seal the segment. The unit's
        TimeoutStopSec must be longer.""",
        reloadable=True,
    )
    anchor_interval: Nanoseconds = setting(
        p.duration("1s", "1h"), "60s", "duration",
        "How often the time stamp counter is read beside the wall clock.", reloadable=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What the service says on standard error."""

    level: str = setting(
        p.choice("debug", "info", "warning", "error"), "info", "debug, info, warning or error",
        "The least important messages that are shown.", reloadable=True,
    )
    format: str = setting(
        p.choice("auto", "json", "console"), "auto", "auto, json or console",
        "auto: console on a terminal, json elsewhere.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of them, section by section; without arguments, the defaults."""

    source: SourceSettings = field(default_factory=SourceSettings)
    sim: SimSettings = field(default_factory=SimSettings)
    collect: CollectSettings = field(default_factory=CollectSettings)
    writer: WriterSettings = field(default_factory=WriterSettings)
    segment: SegmentSettings = field(default_factory=SegmentSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    control: ControlSettings = field(default_factory=ControlSettings)
    service: ServiceSettings = field(default_factory=ServiceSettings)
    log: LogSettings = field(default_factory=LogSettings)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Settings:
        """The defaults with parsed values by dotted key, e.g. {"store.max_bytes": 1 << 30}."""
        parts: dict[str, dict[str, Any]] = {}
        for key, value in values.items():
            section, name = key.split(".")
            parts.setdefault(section, {})[name] = value
        settings = cls(**{section: SECTIONS[section](**part) for section, part in parts.items()})
        if "segment.max_bytes" not in values:
            segment = replace(settings.segment, max_bytes=settings._segment_that_fits())
            settings = replace(settings, segment=segment)
        return settings

    def _segment_that_fits(self) -> int:
        """The default, or less in a small store, which should hold a few segments; but not
        so little that a segment would hold nothing."""
        few = max(self.store.max_bytes // 4, 2 * self.writer.buffer_bytes)
        return min(SegmentSettings().max_bytes, few)

    def get(self, key: str) -> Any:
        """The value behind a dotted key of the table."""
        section, name = key.split(".")
        return getattr(getattr(self, section), name)


def _rows() -> Iterator[tuple[str, Setting]]:
    for section, cls in SECTIONS.items():
        for row in dataclasses.fields(cls):
            yield f"{section}.{row.name}", row.metadata["setting"]


SECTIONS: dict[str, type[Any]] = {
    row.name: cast("type[Any]", row.default_factory) for row in dataclasses.fields(Settings)
}
"""Sections by name, in the order of the default configuration."""

TABLE: dict[str, Setting] = dict(_rows())
"""All settings by dotted key, in that order."""
