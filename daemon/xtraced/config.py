"""The configuration: a TOML file and `--set` overrides become Settings, or all that is wrong
with them at once, each with its place.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tracelib.errors import ConfigError, UsageError
from tracelib.units import format_size
from xtraced.checks import contradictions
from xtraced.settings import SECTIONS, TABLE, Settings
from xtraced.tomlplaces import key_lines

DEFAULT_PATH = Path("/etc/xtraced/xtraced.toml")

MAX_FILE = 1 << 20
"""Bytes of a configuration file; the one with every setting has 6000."""


class Override(NamedTuple):
    """A setting from the command line, which beats the file."""

    option: str
    """What the user wrote, for messages: "--set", "--store"."""
    key: str
    text: str


class Reloaded(NamedTuple):
    """What a reload comes to."""

    settings: Settings
    """The settings in force from now on."""
    changed: tuple[str, ...]
    """Keys whose new values are in force."""
    need_restart: tuple[str, ...]
    """Keys whose new values are not, until a restart."""


class _Given(NamedTuple):
    """One value that somebody gave, not parsed yet."""

    place: str
    key: str
    value: object


def find(path: Path | None) -> Path | None:
    """The file to load: the one asked for, else the default one if there is one."""
    return path if path is not None or not DEFAULT_PATH.exists() else DEFAULT_PATH


def load(path: Path | None, overrides: Sequence[Override] = ()) -> Settings:
    """The settings of a file (None: the defaults) with the overrides applied.

    Raises ConfigError with a line for every mistake: `file:line: key: reason`.
    """
    problems: list[str] = []
    given = [] if path is None else list(_read_file(path, problems))
    given += [_Given(override.option, override.key, override.text) for override in overrides]
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    wrong: set[str] = set()
    for item in given:
        places[item.key] = item.place
        try:
            values[item.key] = _parse(item)
        except UsageError as error:
            wrong.add(item.key)
            problems.append(f"{item.place}: {item.key}: {_with_hint(error)}")
    settings = Settings.of(values)
    problems += _contradictions(settings, places, wrong)
    if problems:
        raise ConfigError(problems)
    return settings


def reload(current: Settings, path: Path | None, overrides: Sequence[Override] = ()) -> Reloaded:
    """Load again: all or nothing. Settings that need a restart keep their current values.

    Raises ConfigError if anything is wrong; then nothing has changed.
    """
    wanted = load(path, overrides)
    differing = [key for key in TABLE if wanted.get(key) != current.get(key)]
    later = tuple(key for key in differing if not TABLE[key].reloadable)
    mixed = Settings.of(
        {key: (current if key in later else wanted).get(key) for key in TABLE}
    )
    if problems := list(_contradictions(mixed, {}, set())):
        until = f"until a restart brings {', '.join(later)} into force"
        raise ConfigError([f"{problem} ({until})" for problem in problems])
    return Reloaded(mixed, tuple(key for key in differing if key not in later), later)


def _read_file(path: Path, problems: list[str]) -> Iterator[_Given]:
    try:
        document = _read_bounded(path).decode()
        sections = tomllib.loads(document)
    except OSError as error:
        problems.append(f"{path}: {error.strerror}")
    except UsageError as error:
        problems.append(f"{path}: {error.message}")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problems.append(f"{path}:{line}: not UTF-8, as TOML must be")
    except tomllib.TOMLDecodeError as error:
        problems.append(_syntax_problem(path, str(error), document))
    except (RecursionError, ValueError):
        # What tomllib does not translate: a thousand brackets, an integer of 4301 digits.
        problems.append(f"{path}: nested too deeply, or a number is too long")
    else:
        lines = key_lines(document)
        for section, content in sections.items():
            yield from _section(path, lines, section, content, problems)


def _read_bounded(path: Path) -> bytes:
    """A whole file. Raises OSError, or UsageError for what has no end, or a far one."""
    # A FIFO's open would wait for a writer, and it is refused anyway.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UsageError("not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_FILE + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_FILE:
        raise UsageError(f"larger than {format_size(MAX_FILE)}: not a configuration file")
    return content


def _section(
    path: Path, lines: dict[str, int], section: str, content: object, problems: list[str]
) -> Iterator[_Given]:
    place = f"{path}:{lines.get(section, 1)}"
    if section not in SECTIONS:
        problems.append(f"{place}: {section}: {_unknown(section, 'section')}")
    elif not isinstance(content, dict):
        problems.append(f"{place}: {section}: this is a section; write [{section}] above its keys")
    else:
        for name, value in content.items():
            key = f"{section}.{name}"
            yield _Given(f"{path}:{lines.get(key, lines.get(section, 1))}", key, value)


def _syntax_problem(path: Path, message: str, document: str) -> str:
    """tomllib's message with its "(at line 3, column 5)" turned into a place."""
    match = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)\Z", message)
    if match is None:
        return f"{path}: {message}"
    line = match[1] or str(len(document.splitlines()))
    return f"{path}:{line}: {message[: match.start()]}"


def _parse(item: _Given) -> Any:
    row = TABLE.get(item.key)
    if row is None:
        raise UsageError(_unknown(item.key, "setting"))
    try:
        return row.parse(_as_text(item.value))
    except ValueError:  # From int and str, beyond 4300 digits.
        raise UsageError("a number is too long") from None


def _as_text(value: object) -> str:
    """A TOML value as somebody would write it after `--set KEY=`, so that one parser does."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case list() if not any(isinstance(item, list) for item in value):
            return ",".join(map(_as_text, value))
    what = _NOT_POSSIBLE.get(type(value), "a date or time")
    raise UsageError(f"{what} is not possible here")


_NOT_POSSIBLE: dict[type, str] = {dict: "a table", list: "an array of arrays"}


def _unknown(key: str, what: str) -> str:
    """ "unknown setting; did you mean store.max_bytes?"."""
    known = SECTIONS if what == "section" else TABLE
    # Not lower: a shared section alone would make two keys look alike.
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
    name = key.rpartition(".")[2]
    if not close:  # The right name, perhaps, in the wrong section or in none.
        close = [other for other in TABLE if other.rpartition(".")[2] == name]
    guess = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"unknown {what}{guess}"


def _contradictions(
    settings: Settings, places: dict[str, str], wrong: set[str]
) -> Iterator[str]:
    """Cross checks, blamed on the first key that somebody set; none on values that were wrong."""
    for keys, reason in contradictions(settings):
        if not wrong.intersection(keys):
            key = next((key for key in keys if key in places), keys[0])
            yield f"{places.get(key, 'defaults')}: {key}: {reason}"


def _with_hint(error: UsageError) -> str:
    return error.message if error.hint is None else f"{error.message}; {error.hint}"
