"""kvmtrace sets, analysed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import tracelib
from tests.support.kvmtrace import Rec, Style, write_set
from tracelib.analysis.analyze import Analysis, Analyzer
from tracelib.analysis.exits import ExitRow, Exits, exits
from tracelib.analysis.forms import Forms
from tracelib.batches import first_tsc
from tracelib.clock import Clock, Rate
from tracelib.units import Tsc


def analyze_set(
    folder: Path, cpus: Mapping[int, Iterable[Rec]], style: Style | None = None, **options: Any
) -> Analysis:
    """A set of these records (in nanoseconds), through the engine."""
    return analyze_path(write_set(folder, style or Style("timestamp"), cpus), **options)


def analyze_path(path: Path, **options: Any) -> Analysis:
    """A set that is there."""
    with closing(tracelib.open(path)) as reader:
        clock = Clock(first_tsc(reader) or Tsc(0), Rate(10**9, "test"))
        forms = Forms(family=reader.info.exit_family, version=None, kvm=True)
        analyzer = Analyzer(reader, clock, forms, **options)
        analyzer.run()
        return analyzer.analysis


def rows_of(analysis: Analysis, **options: Any) -> dict[tuple[str, int], ExitRow]:
    """The rows of the exits section by owner's name and reason."""
    return {(row.owner.name, row.cause.reason): row for row in section(analysis, **options).rows}


def section(analysis: Analysis, **options: Any) -> Exits:
    """The exits section."""
    return exits(analysis, **{"by": "vcpu", **options})
