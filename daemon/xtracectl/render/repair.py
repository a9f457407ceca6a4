"""What `repair` did with a file: a few lines, or an object."""

from __future__ import annotations

import json

from tracelib.losses import Loss
from tracelib.store.repair import Repaired

SCHEMA = 1
_SHOWN = 10
"""So many gaps of a file are printed; all are in the JSON."""


def text(repaired: Repaired) -> str:
    """The file, what was kept, and below it what is missing."""
    if not repaired.target:
        head = f"{repaired.source}: nothing in it is intact; left out"
    else:
        what = "nothing was damaged" if repaired.clean else "mended"
        head = f"{repaired.source} -> {repaired.target}: {what}, {repaired.records} records"
    lines = [head]
    for offset, size, reason in repaired.gaps[:_SHOWN]:
        lines.append(f"  offset {offset}: {size} bytes left out: {reason}")
    if len(repaired.gaps) > _SHOWN:
        lines.append(f"  and {len(repaired.gaps) - _SHOWN} more stretches")
    if repaired.repeated:
        lines.append(f"  {repaired.repeated} blocks were there twice, and are kept once")
    if repaired.headless:
        lines.append("  the metadata is lost: readers must be told clock rate and vendor")
    lines += [f"  lost: {_loss(loss)}" for loss in repaired.losses]
    return "\n".join(lines)


def _loss(loss: Loss) -> str:
    count = "an unknown number of records" if loss.records is None else f"{loss.records} records"
    return f"CPU {loss.cpu}: {count} ({loss.detail})"


def json_line(repaired: Repaired) -> str:
    return json.dumps({
        "schema": SCHEMA,
        "source": repaired.source,
        "target": repaired.target or None,
        "records": repaired.records,
        "gaps": [
            {"offset": offset, "bytes": size, "reason": reason}
            for offset, size, reason in repaired.gaps
        ],
        "repeated_blocks": repaired.repeated,
        "metadata_lost": repaired.headless,
        "losses": [
            {
                "cause": loss.cause, "cpu": loss.cpu, "records": loss.records,
                "bytes": loss.bytes, "first_tsc": loss.first_tsc, "last_tsc": loss.last_tsc,
                "detail": loss.detail,
            }
            for loss in repaired.losses
        ],
    })
