"""xtracectl(1) says what xtracectl does: every command, option and exit code, and no other."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from tracelib.losses import Cause
from xtracectl.cli import COMMANDS, build_parser
from xtracectl.exits import MEANINGS

PAGE = (Path(__file__).parents[2] / "man" / "xtracectl.1").read_text()
PLAIN = re.sub(r"\\f[A-Z]", "", PAGE).replace("\\-", "-")

GLOBAL = {"--store", "--socket", "--config", "-h", "--help", "--version"}


def section(text: str, macro: str, title: str) -> str:
    """From a heading to the next one of its kind or above."""
    _, _, rest = text.partition(f".{macro} {title}\n")
    assert rest, title
    return re.split(r"^\.S[HS] " if macro == "SS" else r"^\.SH ", rest, flags=re.MULTILINE)[0]


def options_in(text: str) -> set[str]:
    """The options that have a paragraph of their own: the line after .TP names them."""
    tags = re.findall(r"^\.TP\n\.\w+ (.*)$", text, re.MULTILINE)
    return {word for tag in tags for word in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", tag)}


def subparsers() -> dict[str, argparse.ArgumentParser]:
    parser = build_parser()
    [action] = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(action.choices)


def test_every_command_has_a_section():
    titles = re.findall(r"^\.SS (.*)$", PLAIN, re.MULTILINE)
    assert sorted(titles) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_described(name):
    real = {
        option for action in subparsers()[name]._actions for option in action.option_strings
    }
    assert options_in(section(PLAIN, "SS", name)) == real - GLOBAL


def test_the_options_of_all_commands():
    text = section(PLAIN, "SH", "PLACES") + section(PLAIN, "SH", "OPTIONS")
    assert options_in(text) == GLOBAL


def test_every_exit_code_and_its_meaning():
    """R79: exit codes are a table in the man page."""
    rows = re.findall(r"^(\d+)\tT\{\n(.*?)\nT\}$", section(PLAIN, "SH", "EXIT STATUS"), re.M | re.S)
    assert {int(code): text for code, text in rows} == {
        code.value: text for code, text in MEANINGS.items()
    }


def test_every_cause_of_loss():
    """R37: five counters and more, documented."""
    causes = re.findall(r"^\.B (\w+)$", section(PLAIN, "SH", "LOSSES"), re.MULTILINE)
    assert {cause.value for cause in Cause} <= set(causes)
