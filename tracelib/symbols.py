"""Names for code addresses, out of the lists that `nm` and the kernel's build write.

A line is `ffff82d040200000 T _start`: address, type, name, and for modules of a running kernel
(/proc/kallsyms) their name in brackets. System.map, `nm vmlinux`, xen-syms.map and
/proc/xen/xensyms look like that. The order of the lines does not matter.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tracelib.errors import StoreError, UsageError
from tracelib.units import DomId

MAX_OFFSET = 1 << 16
"""An address farther behind a symbol is not said to belong to it: lists have no lengths, and
what lies behind the last function, or between two modules, is nobody's."""

XEN_FIRST = 0xFFFF_8000_0000_0000
XEN_LAST = 0xFFFF_87FF_FFFF_FFFF
"""The hypervisor's part of the address space on x86 (xen/arch/x86/include/asm/config.h)."""

_MAX_BYTES = 1 << 28
_LINE = re.compile(rb"([0-9A-Fa-f]{1,16}) +([A-Za-z?]) +(\S+)(?:[ \t]+\[(\S+)\])?\s*\Z")
_UNDEFINED = re.compile(rb"\s+[A-Za-z] +\S+\s*\Z")
"""What nm says of names that are defined elsewhere."""
_RANKS = {b"T": 0, b"W": 1, b"t": 2, b"w": 3, b"i": 4}
"""Types of code, by nm(1): of several names for an address, a global one is the best known."""


class _Symbol(NamedTuple):
    address: int
    rank: int
    name: str


class Symbols:
    """One address space's names."""

    def __init__(self, found: Iterable[tuple[int, int, str]]) -> None:
        """Of (address, rank, name), the lowest rank first where addresses are the same."""
        best: dict[int, tuple[int, str]] = {}
        for address, rank, name in found:
            if address not in best or rank < best[address][0]:
                best[address] = rank, name
        self._addresses = array("Q", sorted(best))
        self._names = [best[address][1] for address in self._addresses]

    def __len__(self) -> int:
        return len(self._names)

    def lookup(self, address: int) -> str | None:
        """ "name" or "name+0x1c"; None if no symbol is at most MAX_OFFSET before it."""
        at = bisect_right(self._addresses, address) - 1
        if at < 0 or address - self._addresses[at] > MAX_OFFSET:
            return None
        offset = address - self._addresses[at]
        return f"{self._names[at]}+{offset:#x}" if offset else self._names[at]


@dataclass(slots=True)
class SymbolBook:
    """Names for the addresses of all guests, and of the hypervisor."""

    guests: Symbols | None = None
    """For domains that have none of their own."""
    xen: Symbols | None = None
    domains: Mapping[DomId, Symbols] = field(default_factory=dict)

    def lookup(self, domain: int | None, address: int) -> str | None:
        """A name for where `domain` was, None being unknown. In the hypervisor's part of the
        address space its names go first; an HVM guest may have code of its own there."""
        own = self.guests if domain is None else self.domains.get(DomId(domain), self.guests)
        in_xen = XEN_FIRST <= address <= XEN_LAST
        for symbols in (self.xen if in_xen else None, own):
            name = None if symbols is None else symbols.lookup(address)
            if name is not None:
                return name
        return None


def load_book(files: Iterable[tuple[str, Path]]) -> SymbolBook:
    """Read lists of symbols: of a domain ("d3"), of "xen", or of all guests (""). Several of the
    same are taken together. Raises StoreError; UsageError with file and line."""
    found: dict[str, list[_Symbol]] = {}
    for whose, path in files:
        found.setdefault(whose, []).extend(_read(path))
    made = {whose: Symbols(symbols) for whose, symbols in found.items()}
    return SymbolBook(
        made.pop("", None), made.pop("xen", None),
        {DomId(int(whose[1:])): symbols for whose, symbols in made.items()},
    )


def _read(path: Path) -> list[_Symbol]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as exc:
        raise StoreError(f"cannot read {path}: {exc.strerror}", errno=exc.errno) from exc
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{path}: more than {_MAX_BYTES >> 20} MiB: no list of symbols")
    symbols = []
    for number, line in enumerate(data.splitlines(), start=1):
        if line.strip() and not _UNDEFINED.match(line):
            symbol = _parse(path, number, line)
            if symbol is not None:
                symbols.append(symbol)
    _check(path, symbols)
    return symbols


def _parse(path: Path, number: int, line: bytes) -> _Symbol | None:
    """None for what is no code."""
    match = _LINE.match(line)
    if match is None:
        shown = line[:40].decode(errors="replace")
        raise UsageError(
            f"{path}:{number}: {shown!r} is no symbol",
            hint="lines are like 'ffffffff81000000 T startup_64', as in System.map or by nm",
        )
    address, kind, name, module = match.groups()
    rank = _RANKS.get(kind)
    if rank is None:
        return None
    full = name.decode(errors="replace")
    if module is not None:
        full += f" [{module.decode(errors='replace')}]"
    return _Symbol(int(address, 16), rank, full)


def _check(path: Path, symbols: list[_Symbol]) -> None:
    if not symbols:
        raise UsageError(f"{path}: no names of code in it (types T, t, W, w)")
    if all(symbol.address == 0 for symbol in symbols):
        raise UsageError(
            f"{path}: all addresses are 0",
            hint="/proc/kallsyms shows them to root only: copy it as root "
            "(kernel.kptr_restrict must not be 2)",
        )
