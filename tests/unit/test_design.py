"""What DESIGN.md says is shown by tests, by tests that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
TEXT = (TOP / "daemon/DESIGN.md").read_text()
SHOWN = sorted(set(re.findall(r"`(test_\w+)::(test_\w+)`", TEXT)))
PACKAGES = (TOP / "daemon/xtraced").glob("[a-z]*.py")


def test_the_matrix_names_tests():
    assert len(SHOWN) > 20


@pytest.mark.parametrize(("module", "test"), SHOWN)
def test_a_named_test_exists(module, test):
    found = list(TOP.glob(f"tests/*/{module}.py"))
    assert found
    names = {
        node.name
        for path in found for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert test in names


def test_every_row_of_the_matrix_has_one():
    table = TEXT.partition("## What fails")[2].splitlines()
    rows = [line for line in table if line.startswith("| ")][1:]
    assert [row for row in rows if "::" not in row.rpartition(" | ")[2]] == []


@pytest.mark.parametrize("module", sorted(path.stem for path in PACKAGES))
def test_every_module_of_the_service_is_in_the_table(module):
    table = TEXT.partition("## Modules")[2].partition("## Tasks")[0]
    assert re.search(rf"`{module}`", table)
