"""Lines of keys in a TOML document, which tomllib does not tell."""

from __future__ import annotations

import tomllib

import pytest

from xtraced.tomlplaces import key_lines


@pytest.mark.parametrize(
    ("document", "lines"),
    [
        ("", {}),
        ("# a = 1\n", {}),
        ("a = 1", {"a": 1}),
        ("\n\na.b = 1\n", {"a.b": 3}),
        ("[s]\na = 1\nb = 2\n[t]\na = 3\n", {"s": 1, "s.a": 2, "s.b": 3, "t": 4, "t.a": 5}),
        ("[ s . t ]\n a = 1", {"s.t": 1, "s.t.a": 2}),
        ("[[s]]\na = 1\n[[s]]\na = 2", {"s": 1, "s.a": 2}),
        ("[s] # [x]\na = '#' # = 5\nb = 1", {"s": 1, "s.a": 2, "s.b": 3}),
        ('"s" = 1\n\'t.u\' = 2', {"s": 1, "t.u": 2}),
        ('a = """\nb = 1\n\\"""x = 2\n"""\nc = 1', {"a": 1, "c": 5}),
        ("a = '''\nb = 1\n[x]'''\nc = 1", {"a": 1, "c": 4}),
        ('a = """x""\n"""""\nc = 1', {"a": 1, "c": 3}),
        ("a = [\n  1, # ]\n  [2],\n]\nb = 1", {"a": 1, "b": 5}),
        ("a = {b = 1, c = [1,\n2]}\nd = 1", {"a": 1, "d": 3}),
        ("a = 1\r\nb = 2\r\n", {"a": 1, "b": 2}),
        ("a = 2026-11-30T10:00:00Z\nb = 1", {"a": 1, "b": 2}),
        ("a = ''\nb = \"\"\nc = '\"'\nd = 1", {"a": 1, "b": 2, "c": 3, "d": 4}),
    ],
)
def test_lines(document, lines):
    tomllib.loads(document)
    assert key_lines(document) == lines
