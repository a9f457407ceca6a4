"""Plain text for terminals of 80 columns: aligned tables, labelled paragraphs, numbers."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Sequence

WIDTH = 80
LABEL_WIDTH = 9

_MANY = 10**9


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> str:
    """Columns two blanks apart, as wide as they need; to the right but for those in `left`."""
    lines = [heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def indented(paragraph: str, indent: int) -> str:
    """A paragraph wrapped at 80 columns, its other lines two blanks further in."""
    return textwrap.fill(
        paragraph, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + 2),
        break_on_hyphens=False,
    )


def labelled(label: str, *paragraphs: str) -> str:
    """A label in front of paragraphs, each wrapped and starting a line."""
    text = "\n".join(indented(paragraph, LABEL_WIDTH) for paragraph in paragraphs)
    return label.ljust(LABEL_WIDTH) + text[LABEL_WIDTH:]


def count(number: int) -> str:
    """1,234,567; from a thousand million on rounded, so that columns stay narrow."""
    return f"{number:,}" if number < _MANY else f"{number / 10**9:,.1f} G"


def number_of(number: int, what: str) -> str:
    """ "1 segment", "1,234 segments"."""
    return f"{count(number)} {what}" + ("" if number == 1 else "s")


def moment(nanoseconds: int) -> str:
    """A wall-clock time, in UTC, from nanoseconds since the epoch."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(nanoseconds // 10**9))
