"""What the boots brought back, checked where the tools are quick."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.xen import xenalyze
from tests.xen.report import Report

_PATIENCE = 120
_COMMON = 100
"""Exits of a reason from which on it belongs to a guest's boot, not to chance."""
_PLAUSIBLE = 4.0
"""How many times as many another boot of the same guest may have of one reason."""


class CheckError(Exception):
    """Something is not as it should be."""


def check_service(report: Report, share: Path) -> None:
    """The store of a service that was started, killed, stopped."""
    store = share / "store"
    report.check(verifies, store)
    report.check(adds_up, store)


def check_guest(report: Report, share: Path) -> None:
    """The store of a guest's boot; and xentrace's file of another."""
    store = share / "store"
    report.check(verifies, store)
    report.check(adds_up, store)
    report.check(names_svm, store)
    report.check(agrees_with_xenalyze, store, share / "store.trace")
    report.check(like_xentrace, store, share / "xentrace.trace")


def check_rings(report: Report, share: Path) -> None:
    """The store of rings that lost records."""
    store = share / "store"
    report.check(verifies, store)
    report.check(adds_up, store)
    report.check(agrees_on_losses, store, share / "status.json")


def verifies(store: Path) -> str:
    """xtracectl verify finds the store clean, by recounting everything"""
    return _xtracectl("verify", store).strip().splitlines()[-1]


def adds_up(store: Path) -> str:
    """xtracectl info adds up: by event, by CPU, in all"""
    info = _info(store)
    records, lost = info["records"], info["lost_by_cause"]
    _equal("records by event", sum(info["per_event"].values()), records)
    _equal("records by CPU", sum(info["per_cpu"].values()), records)
    _equal("lost by CPU", sum(info["lost"].values()), sum(lost.values()))
    return f"{records:,} records, lost {lost}"


def names_svm(store: Path) -> str:
    """the exits are named as SVM's, without being told"""
    counts = _exits(store)
    if not {"IOIO", "CPUID", "MSR"} <= set(counts):
        raise CheckError(f"exits: {dict(counts)}")
    return ", ".join(f"{name} {count:,}" for name, count in counts.most_common(5))


def agrees_with_xenalyze(store: Path, trace: Path) -> str:
    """xenalyze counts the same exits, reason by reason, in the same recording"""
    _xtracectl("dump", store, "--format", "xentrace", "-o", trace)
    ours, theirs = _exits(store), xenalyze.exits(trace, _tsc_hz(store))
    if ours != theirs:
        raise CheckError(f"ours {dict(ours - theirs)} more, theirs {dict(theirs - ours)} more")
    return f"{ours.total():,} exits of {len(ours)} reasons"


def like_xentrace(store: Path, trace: Path) -> str:
    """in xentrace's recording of another such boot the exits have the same reasons, as often"""
    ours, theirs = _exits(store), xenalyze.exits(trace, _tsc_hz(store))
    unlike = {
        reason: (ours[reason], theirs[reason])
        for reason in ours | theirs
        if max(ours[reason], theirs[reason]) >= _COMMON
        and not 1 / _PLAUSIBLE <= ours[reason] / max(theirs[reason], 1) <= _PLAUSIBLE
    }
    if unlike or not theirs:
        raise CheckError(f"ours, theirs: {unlike}")
    common = [reason for reason, _ in ours.most_common(4)]
    return ", ".join(f"{reason} {ours[reason]:,} : {theirs[reason]:,}" for reason in common)


def agrees_on_losses(store: Path, status: Path) -> str:
    """status, info and dump agree on how many records there are and how many were lost"""
    said = json.loads(status.read_text())
    info = _info(store)
    dumped: Counter[str] = Counter()
    for loss in _dump(store, "lost_records", "loss"):
        dumped[loss["cause"]] += loss["records"] or 0
    lost = {cause: count for cause, count in said["lost"].items() if count}
    _equal("records by status and by info", said["records"], info["records"])
    _equal("lost by status and by info", lost, info["lost_by_cause"])
    _equal("lost by status and by dump", lost, +dumped)
    if not lost:
        raise CheckError("nothing was lost")
    return f"{info['records']:,} records, lost {lost}"


def _equal(what: str, one: object, other: object) -> None:
    if one != other:
        raise CheckError(f"{what}: {one} and {other}")


def _exits(store: Path) -> Counter[str]:
    records = _dump(store, "vmexit", "record")
    return Counter(str(record["fields"]["reason_name"]) for record in records)


def _tsc_hz(store: Path) -> int:
    return int(_info(store)["tsc_hz"])


def _dump(store: Path, event: str, kind: str) -> Iterator[dict[str, Any]]:
    """Lines of one kind, of those that are left when all events but one are."""
    for text in _xtracectl("dump", store, "--event", event, "--format", "json").splitlines():
        line = json.loads(text)
        if line["type"] == kind:
            yield line


def _info(store: Path) -> dict[str, Any]:
    return dict(json.loads(_xtracectl("info", store, "--json")))


def _xtracectl(*arguments: str | Path) -> str:
    """Its standard output; CheckError unless it is content."""
    program = Path(sys.executable).with_name("xtracectl")
    answer = subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=_PATIENCE
    )
    if answer.returncode:
        said = (answer.stderr or answer.stdout)[-800:]
        raise CheckError(f"xtracectl {arguments[0]}: exit code {answer.returncode}: {said}")
    return answer.stdout
