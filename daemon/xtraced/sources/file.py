"""An xentrace file, a segment or a store, replayed as if live.

It is the simulated hypervisor with another workload: the records of the file go through
real rings, which wait for the consumer instead of dropping anything. What is wrong with the
file would not show in the new store, so it is logged.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from xtraced.sources.sim.abi import Wrong
from xtraced.sources.sim.client import SimSource
from xtraced.sources.sim.options import SimOptions

_log = structlog.get_logger("source")


def file_source(
    path: Path, *, pages: int, rate: int = 0, truth: Path | None = None
) -> SimSource:
    """A source of this file's records, once, in its order; then it has finished.

    `rate` is in bytes a second over all CPUs; 0 is as fast as they are taken. `truth` is
    where the replaying process accounts for itself.
    """
    options = SimOptions(replay=path.absolute(), rate=rate, truth=truth)
    return SimSource(options, pages=pages, on_end=_log_what_is_wrong)


def _log_what_is_wrong(wrong: Wrong) -> None:
    for problem in wrong.first:
        _log.warning("replay_damaged", **problem, problems=wrong.problems)
    for cause, records in wrong.lost.items():
        _log.warning("replay_lost_before", cause=cause, records=records)
