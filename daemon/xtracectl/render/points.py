"""`distribution`'s points, one a line: CSV, or JSON objects. All numbers are exact."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from xtracectl.render.durations import nanoseconds

if TYPE_CHECKING:
    from tracelib.analysis.distributions import Points, What
    from tracelib.symbols import SymbolBook
    from xtracectl.answers.distributing import Part

Line = tuple[Any, ...]


class PointFormat(NamedTuple):
    """How lines are written."""

    head: Callable[[Sequence[str]], str]
    line: Callable[[Sequence[str], Line], str]


def columns(what: What) -> list[str]:
    """By name. `time` is seconds since the trace's first record; it and `ns` are empty, or
    null, if the clock rate is unknown."""
    value = ["cycles", "ns"] if what.timed else ["value"]
    return ["time", "tsc", "vcpu", "cpu", "what", *value, "address", "symbol"]


def lines(part: Part, points: Points, book: SymbolBook | None) -> Iterator[Line]:
    """The points' columns."""
    clock, distribution = part.clock, part.distribution
    elapsed = [None] * len(points) if clock.rate is None else clock.elapsed(points.tsc).tolist()
    rows = zip(
        elapsed, points.tsc.tolist(), points.value.tolist(), points.vcpu.tolist(),
        points.cpu.tolist(), points.label.tolist(), points.address.tolist(), strict=True,
    )
    for time, tsc, value, vcpu, cpu, label, address in rows:
        owner = distribution.owner(vcpu)
        numbers: Line = (value,)
        if part.what.timed:
            numbers = value, None if clock.rate is None else nanoseconds(value, clock.rate)
        symbol = book.lookup(owner.domain, address) if book is not None and address else None
        yield (
            None if time is None else seconds(time), tsc, owner.name, cpu,
            distribution.labels[label], *numbers, f"{address:#x}" if address else None, symbol,
        )


def seconds(nanoseconds: int) -> str:
    sign = "-" if nanoseconds < 0 else ""
    return f"{sign}{abs(nanoseconds) // 10**9}.{abs(nanoseconds) % 10**9:09}"


def _csv_head(names: Sequence[str]) -> str:
    return ",".join(names) + "\n"


def _csv_line(_: Sequence[str], line: Line) -> str:
    return ",".join("" if cell is None else _csv_cell(str(cell)) for cell in line) + "\n"


def _csv_cell(text: str) -> str:
    if any(special in text for special in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _json_line(names: Sequence[str], line: Line) -> str:
    return json.dumps(dict(zip(names, map(_json_cell, names, line), strict=True))) + "\n"


def _json_cell(name: str, cell: Any) -> Any:
    """Numbers that may need more than 53 bits are strings of digits."""
    return str(cell) if name in ("tsc", "cycles", "value", "ns") and cell is not None else cell


CSV = PointFormat(_csv_head, _csv_line)
JSON = PointFormat(lambda _: "", _json_line)
FORMATS: dict[str, PointFormat] = {"csv": CSV, "json": JSON}
