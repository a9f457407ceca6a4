"""Where there is no C compiler: the same programs, slower, with the same result."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.captures import capture

# Finds the .py of every module of ours, whatever was compiled from it.
_PLAIN = """\
import importlib.util, os, sys
from importlib.abc import MetaPathFinder

class Plain(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        for folder in path if path and name.startswith("tracelib.") else ():
            source = os.path.join(folder, name.rpartition(".")[2] + ".py")
            if os.path.exists(source):
                return importlib.util.spec_from_file_location(name, source)
        return None

sys.meta_path.insert(0, Plain())
from tracelib.analysis import engine
assert not engine.COMPILED
"""
_RUN = "import sys\nfrom xtracectl.cli import main\nsys.exit(main(sys.argv[1:]))\n"


def summary(script: str, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", script, "summary", *words], capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONWARNINGS": "error"},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("by", ["vcpu", "cpu"])
@pytest.mark.parametrize("name", ["pvh-hvm.trace", "boot4.trace"])
def test_every_number_is_the_same(name, by, tmp_path):
    path = tmp_path / name
    path.write_bytes(capture(name)[:600_000])
    words = (str(path), "--by", by, "--section", "exits", "--section", "runstates", "--section",
             "pv", "--section", "volume", "--section", "losses", "--section", "where", "--json")
    installed = summary(_RUN, *words)
    assert summary(_PLAIN + _RUN, *words) == installed
    assert len(installed[1]) > 1000
