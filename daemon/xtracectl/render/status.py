"""The service's status as text: what is wrong first, then everything else.

Works on the map that came over the socket (tracelib.status.Status says what is in it), so
that `status` needs to import nothing of the service's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tracelib.causes import produced
from tracelib.events.classes import describe
from tracelib.units import format_duration, format_size
from xtracectl.render.table import count, indented, labelled, moment, number_of, table

Map = Mapping[str, Any]


def render(status: Map) -> str:
    """The whole status, at most 80 columns wide. Raises KeyError or TypeError if it is none."""
    now = status["started_at"] + status["uptime"]
    return "\n".join([_head(status), "", *_rings(status, now), "", *_storage(status, now)]) + "\n"


def _head(status: Map) -> str:
    how = "compiled" if status["compiled"] else "not compiled: slower"
    return "\n".join([
        f"{status['state']}, {'healthy' if status['healthy'] else 'not healthy'}",
        *(indented(f"! {reason}", 2) for reason in status["reasons"]),
        indented(
            f"up {format_duration(status['uptime'])} (since {moment(status['started_at'])}),"
            f" pid {status['pid']}, xtraced {status['version']}, {how}", 2,
        ),
        indented(
            f"{number_of(status['records'], 'record')} ({format_size(status['bytes'])}) taken,"
            f" {lost_sum(status)}", 2,
        ),
    ])


def lost_sum(status: Map) -> str:
    """How much was lost, in a phrase. What nobody can count is said, not counted as 0."""
    known, unknown = sum(status["lost"].values()), bool(status["lost_unknown"])
    if not known:
        return "nobody can know how many lost" if unknown else "none lost"
    share = 100 * known / max(produced(status["records"], status["lost"]), 1)
    # Two digits, but never as 1e+02.
    text = f"{count(known)} lost ({share:{'.2g' if share < 99.5 else '.0f'}} %)"
    return text + ", and more that nobody can count" if unknown else text


def _rings(status: Map, now: int) -> Iterator[str]:
    source = status["source"]
    yield labelled("source", _source(source))
    wanted = source["ring_pages_wanted"]
    fewer = "" if wanted == source["ring_pages"] else f" ({wanted} wanted)"
    yield labelled("rings", f"{source['ring_pages']} pages each{fewer}")
    yield labelled("masks", *masks(status["masks"]))
    wakes = status["wakes"]
    yield labelled(
        "wakes", f"event {count(wakes['event'])}, timer {count(wakes['timer'])},"
        f" command {count(wakes['command'])}; events missed: {count(wakes['missed'])}",
    )
    yield ""
    yield _cpus(status["cpus"], now)
    yield from _losses(status["cpus"])


def _source(source: Map) -> str:
    rate = source["tsc_hz"]
    tsc = "TSC rate unknown" if rate is None else f"TSC {rate / 10**9:.6g} GHz"
    if source["tsc_source"] is not None:
        tsc += f" ({source['tsc_source']})"
    parts = [source["hypervisor"], source["cpu_vendor"], source["exit_family"], tsc]
    return ", ".join(part for part in parts if part)


def masks(status: Map) -> list[str]:
    """What is traced; what was asked for beside it, where that differs."""
    lines = [f"events {events(status['events'])}; CPUs {status['cpus']}"]
    if status["events_wanted"] != status["events"]:
        lines.append(f"but events asked for: {events(status['events_wanted'])}")
    if status["cpus_wanted"] != status["cpus"]:
        lines.append(f"but CPUs asked for: {status['cpus_wanted']}")
    return lines


def events(mask: int) -> str:
    """An event mask in words and as Xen's number."""
    return f"{describe(mask)} ({mask:#010x})"


_CPU_HEADS = ("CPU", "ring", "fill", "high", "records", "bytes", "lost", "last drain")


def _cpus(cpus: list[Map], now: int) -> str:
    rows = [_cpu_row(cpu, now) for cpu in cpus]
    lines = table(_CPU_HEADS, rows, left=(7,)).splitlines()
    text = [lines[0]]
    for cpu, line in zip(cpus, lines[1:], strict=True):
        text.append(line)
        if cpu["trouble"] and cpu["ring_bytes"]:
            text.append(indented(f"! {cpu['trouble']}", 5))
    return "\n".join(text)


def _cpu_row(cpu: Map, now: int) -> tuple[str, ...]:
    size = cpu["ring_bytes"]
    if not size:
        return (str(cpu["cpu"]), "none", "-", "-", "-", "-", "-", cpu["trouble"] or "-")
    lost = count(sum(cpu["lost"].values())) + ("+?" if cpu["lost_unknown"] else "")
    drain = cpu["last_drain"]
    return (
        str(cpu["cpu"]), format_size(size), _percent(cpu["fill"], size),
        _percent(cpu["high_water"], size), count(cpu["records"]), format_size(cpu["bytes"]), lost,
        "never" if drain is None else f"{_since(drain, now)} ago, {cpu['last_wake']}",
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part // whole}%"


def _losses(cpus: list[Map]) -> Iterator[str]:
    """By cause, for the CPUs that lost anything."""
    lossy = [cpu for cpu in cpus if any(cpu["lost"].values()) or cpu["lost_unknown"]]
    if lossy:
        yield ""
        yield labelled("lost", *(f"CPU {cpu['cpu']}: {_by_cause(cpu)}" for cpu in lossy))


def _by_cause(cpu: Map) -> str:
    counted = [f"{cause} {number:,}" for cause, number in sorted(cpu["lost"].items()) if number]
    return ", ".join([*counted, *(f"{cause} ?" for cause in cpu["lost_unknown"])])


def _storage(status: Map, now: int) -> Iterator[str]:
    yield labelled("writer", *_writer(status["writer"], status["pool"], now))
    yield labelled("store", *_store(status["store"]))
    yield labelled("all runs", *_ledger(status["ledger"]))


_HOW = {True: "past the page cache", False: "through the page cache", None: "no write yet"}


def _writer(writer: Map, pool: Map, now: int) -> Iterator[str]:
    reason = writer["direct_reason"]
    yield _HOW[writer["direct"]] + (f": {reason}" if reason else "")
    yield (
        f"{writer['queued']} of {pool['buffers']} buffers of"
        f" {format_size(pool['buffer_bytes'])} wait for the disk, {pool['free']} are free"
    )
    if pool["stalled"] or pool["stalled_since"] is not None:
        since = pool["stalled_since"]
        yield f"the rings waited {format_duration(pool['stalled'])} for a free one" + (
            "" if since is None else f", and do so now, since {_ago(since, now)}"
        )
    yield (
        f"{number_of(writer['writes'], 'write')},"
        f" {format_size(writer['bytes'])}{_latency(writer)}"
    )
    if writer["busy_since"] is not None:
        yield f"one is in flight since {_ago(writer['busy_since'], now)}"
    yield from _errors(writer, now)


def _latency(writer: Map) -> str:
    latency = writer["latency"]
    if latency is None:
        return ""
    return ", each " + ", ".join(
        f"{format_duration(latency[key])} ({key})" for key in ("p50", "p99", "max")
    )


def _errors(writer: Map, now: int) -> Iterator[str]:
    if writer["failing_since"] is not None:
        yield f"! nothing could be stored since {_ago(writer['failing_since'], now)}"
    if writer["last_error"] is not None:
        at = writer["last_error_at"]
        yield f"last error: {writer['last_error']}" + ("" if at is None else f" ({moment(at)})")
    if writer["failed_blocks"]:
        yield (
            f"not stored: {number_of(writer['failed_blocks'], 'block')},"
            f" {number_of(writer['failed_records'], 'record')}"
        )


def _store(store: Map) -> Iterator[str]:
    yield store["directory"]
    oldest = store["oldest"]
    since = "" if oldest is None else f", the oldest from {moment(oldest)}"
    yield f"{number_of(store['segments'], 'segment')}, {format_size(store['bytes'])}{since}"
    if store["open_segment"] is not None:
        name = store["open_segment"].rpartition("/")[2]
        yield f"open: {name}, {format_size(store['open_bytes'])}"
    yield f"limits: {_limits(store)}"
    free = store["free_bytes"]
    yield f"free on its file system: {'unknown' if free is None else format_size(free)}"
    if store["deleted_segments"]:
        yield (
            f"deleted to keep to them: {number_of(store['deleted_segments'], 'segment')},"
            f" {number_of(store['deleted_records'], 'record')},"
            f" {format_size(store['deleted_bytes'])}"
        )


def _ledger(ledger: Map) -> Iterator[str]:
    """Everything that was ever stored here."""
    since = f" since {moment(ledger['since'])}"
    before = ", without what was deleted before" if ledger["rebuilt"] else ""
    yield f"{number_of(ledger['records'], 'record')} stored{since}{before}"
    if ledger["deleted_segments"]:
        yield (
            f"{number_of(ledger['deleted_records'], 'record')} of them deleted since, with"
            f" {number_of(ledger['deleted_segments'], 'segment')}"
        )
    yield f"lost: {_by_cause(ledger) or 'none'}"


def _limits(store: Map) -> str:
    """Those that are set; 0 means no limit."""
    formats: dict[str, Callable[[int], str]] = {
        "max_bytes": format_size, "keep_free": format_size, "max_age": format_duration,
        "max_segments": str,
    }
    return ", ".join(
        f"{name} {shown(store[name])}" + (" (acts)" if store["acting"] == name else "")
        for name, shown in formats.items()
        if store[name]
    )


def _since(then: int, now: int) -> str:
    # A clock that was set back must not show as a negative time.
    return format_duration(max(now - then, 0))


def _ago(since: int, now: int) -> str:
    return f"{moment(since)} ({_since(since, now)})"
