"""On which line of a TOML document each key stands: tomllib does not tell.

Only for documents that tomllib has accepted, so the grammar is not checked again. Keys
inside inline tables have no line of their own; ask for the table's.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r'''
      """(?:\\.|[^\\])*?"{3,5}          # multi-line strings; up to two quotes may end them
    | \'\'\'.*?\'{3,5}
    | "(?:\\.|[^"\\])*" | '[^']*'
    | \#[^\n]*
    | [\n=.{}\[\]]
    | [^\s"'=.{}\[\]\#]+
    ''',
    re.DOTALL | re.VERBOSE,
)


def key_lines(document: str) -> dict[str, int]:
    """Line, from 1, of each dotted key and of each table's first header."""
    lines: dict[str, int] = {}
    section: list[str] = []
    names: list[str] = []
    header = in_value = False
    depth, line = 0, 1
    for match in _TOKEN.finditer(document + "\n"):
        token = match[0]
        if token == "\n" and depth == 0:
            if header:
                section = names
                lines.setdefault(".".join(names), line)
            names, header, in_value = [], False, False
        elif in_value:
            depth += (token in ("[", "{")) - (token in ("]", "}"))
        elif token == "=":
            in_value = True
            lines.setdefault(".".join([*section, *names]), line)
        elif token == "[":
            header = True
        elif token not in ("]", ".") and not token.startswith("#"):
            names.append(token.strip("\"'"))
        line += token.count("\n")
    return lines
