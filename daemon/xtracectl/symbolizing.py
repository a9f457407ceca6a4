"""Names for code addresses: the option --symbols, and what it adds to a dump's lines."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from tracelib.errors import UsageError
from xtracectl.places import Options, parse_path
from xtracectl.sink import Sink

if TYPE_CHECKING:
    from tracelib.symbols import SymbolBook

_OWNER = re.compile(r"(xen|d[0-9]{1,5})=(.*)", re.DOTALL)
_ADDRESS = re.compile(rb"\b[er]ip=0x([0-9a-f]+)")
_DOMAIN = re.compile(rb" d(\d+)v")


def add_symbols(parser: argparse.ArgumentParser) -> None:
    """--symbols."""
    parser.add_argument(
        "--symbols", metavar="[WHOSE=]FILE", action="append", default=[],
        help="names for code addresses, from System.map or `nm`: the guests', or those of "
        "WHOSE: a domain such as d3, or xen; may be repeated",
    )


def symbol_book(options: Options) -> SymbolBook | None:
    """The lists that were given; None if none were. Raises UsageError, StoreError."""
    given: list[str] = options.symbols
    if not given:
        return None
    from tracelib.symbols import load_book

    files = []
    for text in given:
        match = _OWNER.fullmatch(text)
        whose, name = ("", text) if match is None else match.groups()
        # "d03" and "d3" are one.
        whose = f"d{int(whose[1:])}" if whose.startswith("d") else whose
        files.append((whose, parse_path(name)))
    return load_book(files)


def dump_book(options: Options) -> SymbolBook | None:
    """For `dump`. Raises UsageError, StoreError."""
    if options.symbols and (options.format != "text" or options.formats is not None):
        raise UsageError(
            "--symbols is for dump's own text",
            hint="distribution --format csv has addresses and their names in columns",
        )
    return symbol_book(options)


class NamedLines:
    """A sink for a dump's lines of text that adds names to the code addresses in them."""

    def __init__(self, out: Sink, book: SymbolBook) -> None:
        self._out = out
        self._book = book

    def write(self, data: bytes | memoryview) -> None:
        """Whole lines."""
        lines = bytes(data)

        def named(match: re.Match[bytes]) -> bytes:
            start = lines.rfind(b"\n", 0, match.start()) + 1
            running = _DOMAIN.search(lines, start, match.start())
            domain = None if running is None else int(running[1])
            name = self._book.lookup(domain, int(match[1], 16))
            return match[0] if name is None else match[0] + f" <{name}>".encode()

        self._out.write(_ADDRESS.sub(named, lines))

    def flush(self) -> None:
        self._out.flush()
