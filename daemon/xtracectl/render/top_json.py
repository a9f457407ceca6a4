"""`top --json`: one object a line, a line for each sample. Cycles are strings of digits."""

from __future__ import annotations

import json
from typing import Any

from xtracectl.answers.intervals import CPU_TIMES, VCPU_TIMES, Row
from xtracectl.render.durations import nanoseconds
from xtracectl.render.points import seconds
from xtracectl.render.summary_intervals import row_object
from xtracectl.render.top_columns import name_of
from xtracectl.top.sampling import Load, Sample

SCHEMA = 1

_TOP = 10
"""Exit reasons of a row."""


def json_line(sample: Sample) -> str:
    """The sample, whatever is asked to be shown of it: domains, vCPUs and CPUs."""
    line = {
        "schema": SCHEMA,
        "boot": sample.boot[0],
        "first_tsc": str(sample.first),
        "last_tsc": str(sample.last),
        "start": _seconds(sample, sample.first),
        "end": _seconds(sample, sample.last),
        "realtime_ns": sample.at,
        "tsc_hz": sample.rate.hz,
        "family": sample.verdict.family,
        "family_guessed": sample.verdict.guessed,
        "notes": list(sample.notes),
        "all": _guests(sample.whole),
        "domains": [_load(load) for load in sample.loads("domain")],
        "vcpus": [_load(load) for load in sample.loads("vcpu")],
        "cpus": [
            {"name": owner.name, "cpu": owner.cpu, **_cpu(row)}
            for owner, row in sample.cpus.items()
        ],
    }
    return json.dumps(line) + "\n"


def _seconds(sample: Sample, tsc: int) -> str:
    return seconds(nanoseconds(tsc - sample.start, sample.rate))


def _load(load: Load) -> dict[str, Any]:
    domain, vcpu, cpu = load.owner
    return {
        "name": name_of(load), "domain": domain, "vcpu": vcpu, "cpu": cpu,
        "vcpus": load.vcpus, **_guests(load.row),
    }


def _guests(row: Row) -> dict[str, Any]:
    return {
        **row_object(row, VCPU_TIMES, _TOP),
        "runs": row.runs, "waits": row.waits, "wait_cycles": str(row.waited),
    }


def _cpu(row: Row) -> dict[str, Any]:
    return {
        "cycles": {name: str(cycles) for name, cycles in zip(CPU_TIMES, row.times, strict=True)},
        "records": row.records, "bytes": row.bytes, "gaps": row.gaps, "lost_records": row.lost,
        "uncounted_gaps": row.uncounted,
    }
