"""Names for code addresses: the option --symbols, and what it adds to a dump's lines."""

from __future__ import annotations

import argparse
import json
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
_JSON_ADDRESS = re.compile(rb'"[er]ip":(?:"0x([0-9a-f]+)"|([0-9]+))')
"""32 bits are a number there."""
_JSON_DOMAIN = re.compile(rb'"running":"d(\d+)v')
_CSV_DOMAIN = re.compile(rb",d(\d+)v")
_CSV_HEADS = (b"tsc,", b"time_")
"""How the line of column names begins: no row has letters there."""


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
    if options.symbols and (options.format not in _LINES or options.formats is not None):
        raise UsageError(
            "--symbols is for dump's own text, JSON and CSV",
            hint="distribution --format csv has addresses and their names in columns",
        )
    return symbol_book(options)


def _name(
    book: SymbolBook, line: bytes, address: re.Pattern[bytes], domain: re.Pattern[bytes]
) -> str | None:
    """What a line's code address is called, by who ran then."""
    found = address.search(line)
    if found is None:
        return None
    running = domain.search(line, 0, found.start())
    place = int(found[1], 16) if found[1] else int(found[found.lastindex or 0])
    return book.lookup(None if running is None else int(running[1]), place)


def _text_line(book: SymbolBook, line: bytes) -> bytes:
    """The name stands behind the address."""
    name = _name(book, line, _ADDRESS, _DOMAIN)
    if name is None:
        return line
    return _ADDRESS.sub(lambda match: match[0] + f" <{name}>".encode(), line, count=1)


def _json_line(book: SymbolBook, line: bytes) -> bytes:
    """The name is one member more, the last."""
    name = _name(book, line, _JSON_ADDRESS, _JSON_DOMAIN)
    if name is None:
        return line
    return line.removesuffix(b"}") + f',"symbol":{json.dumps(name)}}}'.encode()


def _csv_line(book: SymbolBook, line: bytes) -> bytes:
    """The name is one column more, the last, which is empty for most."""
    if line.startswith(_CSV_HEADS):
        return line + b",symbol"
    name = _name(book, line, _ADDRESS, _CSV_DOMAIN) or ""
    if any(character in name for character in ',"'):
        name = '"' + name.replace('"', '""') + '"'
    return line + f",{name}".encode()


_LINES = {"text": _text_line, "json": _json_line, "csv": _csv_line}


class NamedLines:
    """A sink for a dump's lines that adds names to the code addresses in them."""

    def __init__(self, out: Sink, book: SymbolBook, form: str) -> None:
        """`form` is "text", "json" or "csv"."""
        self._out = out
        self._book = book
        self._named = _LINES[form]

    def write(self, data: bytes | memoryview) -> None:
        """Whole lines."""
        lines = bytes(data).split(b"\n")
        last = lines.pop()
        named = [self._named(self._book, line) + b"\n" for line in lines]
        self._out.write(b"".join(named) + last)

    def flush(self) -> None:
        self._out.flush()
