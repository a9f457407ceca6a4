"""The table of settings as people read it: the commented default configuration, and the
settings' part of xtraced.toml(5).

Both stand in the tree, written by `python -m xtraced.describe toml` (or `roff`); a test
compares.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator

from tracelib.cpulist import format_cpu_list
from tracelib.masks import EventMask
from xtraced.parsers import SourceKind
from xtraced.settings import SECTIONS, TABLE, Setting

_HEAD = """\
# Configuration of xtraced; xtraced.toml(5) explains the notation.
#
# Every setting stands here with its default, commented out. After a change:
#     xtraced --check-config          says what is wrong with it, if anything
#     systemctl reload xtraced        brings it into force, unless it says "at start only"
# Sizes: 64M, 1.5G. Durations: 250ms, 5s, 2h, 7d.
"""


def toml() -> str:
    """The default configuration, every setting commented out."""
    return "\n".join([_HEAD.rstrip("\n"), *_toml_lines()]) + "\n"


def roff() -> str:
    """The settings as man page sections."""
    return "\n".join(_roff_lines()) + "\n"


def shown(key: str, value: object) -> str:
    """A setting's value as somebody could have written it, exactly."""
    unit = TABLE[key].unit
    match value:
        case None:
            return "all" if key == "collect.cpus" else "(none)"
        case bool():
            return "true" if value else "false"
        case EventMask():
            return f"{value.mask:#010x}"
        case int() if unit in _SCALES:
            return _scaled(value, _SCALES[unit])
        case frozenset() if unit == "CPU list":
            return format_cpu_list(value)
        case tuple() if unit == "two durations":
            return ",".join(_scaled(part, _SCALES["duration"]) for part in value)
        case tuple() | frozenset() if not isinstance(value, SourceKind):
            return ",".join(map(str, value))
    return str(value)


_SCALES = {
    "size": (("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10), ("", 1)),
    "duration": (
        ("d", 86400 * 10**9), ("h", 3600 * 10**9), ("m", 60 * 10**9), ("s", 10**9),
        ("ms", 10**6), ("us", 10**3), ("ns", 1),
    ),
}  # fmt: skip


def _scaled(value: int, scales: tuple[tuple[str, int], ...]) -> str:
    """With the largest unit that divides it."""
    unit, scale = next(pair for pair in scales if value % pair[1] == 0)
    return f"{value // scale}{unit}" if value else "0"


def _toml_lines() -> Iterator[str]:
    for section, cls in SECTIONS.items():
        yield from ("", "", f"# {_first_line(cls)}", f"[{section}]")
        for name, row in _rows(section):
            yield ""
            yield from textwrap.wrap(
                _sentence(row), 96, initial_indent="# ", subsequent_indent="# "
            )
            yield f"#{name} = {_literal(row)}"


def _roff_lines() -> Iterator[str]:
    for section, cls in SECTIONS.items():
        yield f'.SS "[{section}]"'
        yield _escaped(_first_line(cls))
        for name, row in _rows(section):
            yield ".TP"
            yield f'.BR {name} " = {_escaped(_literal(row)).replace(chr(34), chr(34) * 2)}"'
            yield from map(_escaped, textwrap.wrap(_sentence(row), 96))


def _rows(section: str) -> Iterator[tuple[str, Setting]]:
    for key, row in TABLE.items():
        if key.startswith(f"{section}."):
            yield key.removeprefix(f"{section}."), row


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").partition("\n")[0]


def _sentence(row: Setting) -> str:
    when = "" if row.reloadable else ", at start only"
    return f"{row.help} ({row.unit}{when})"


def _literal(row: Setting) -> str:
    """The default in TOML's notation."""
    bare = row.default in ("true", "false") or row.default.isdigit()
    return row.default if bare else f'"{row.default}"'


def _escaped(line: str) -> str:
    """Text that roff takes as it is: backslashes, minus signs, a leading control character."""
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{line}" if line.startswith((".", "'")) else line


if __name__ == "__main__":
    sys.stdout.write({"toml": toml, "roff": roff}[sys.argv[1]]())
