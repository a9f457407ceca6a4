"""Damaged copies of real captures: every command still says what is left, and never fails."""

from __future__ import annotations

import json
import random

import pytest

from tests.fuzz.mutate import delete, overwrite, start_later, truncate, zero_a_sector
from tests.support.captures import capture, expected
from tests.support.xtracectl import run

COPIES = 12


@pytest.mark.parametrize(
    ("damage", "share"),
    [(truncate, 0.0), (overwrite, 0.5), (delete, 0.7), (zero_a_sector, 0.7),
     (start_later, 0.4)],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
@pytest.mark.parametrize("name", ["idle.trace", "probe4.trace", "pvh-hvm.trace"])
def test_something_is_always_said(damage, share, name, tmp_path):
    """R20, R21, R34: xenalyze gives no report on most of these. `share` of the records is
    left at least, whatever is hit."""
    rng = random.Random(f"{damage.__name__} {name}")
    path = tmp_path / name
    for _ in range(COPIES):
        data = bytearray(capture(name))
        damage(data, rng)
        path.write_bytes(data)
        done = run("info", "--json", path)
        assert done.returncode in (0, 1)
        answer = json.loads(done.stdout)
        assert answer["records"] >= share * expected()[name]["records"]
        for style in ("text", "json", "csv"):
            dumped = run("dump", "--format", style, path, "--cpu-hz", "1G")
            assert dumped.returncode == done.returncode
            lines = dumped.stdout.count(b"\n") - (style == "csv")
            assert lines == answer["records"]
        again = run("dump", "--format", "xentrace", path)
        assert again.returncode == done.returncode
        path.write_bytes(again.stdout)
        assert json.loads(run("info", "--json", path).stdout)["records"] == answer["records"]
