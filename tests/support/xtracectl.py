"""The command line: called in this process, or as one of its own where that matters."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from xtracectl.cli import main

COMMAND = (sys.executable, "-m", "xtracectl")
PATIENCE = 120.0


class Done(NamedTuple):
    """How a run ended."""

    returncode: int
    stdout: bytes
    stderr: bytes


def run(*words: str | Path, data: bytes | None = None) -> Done:
    """Run to the end. With `data`, which is its standard input, as a process of its own."""
    if data is None:
        return _call([str(word) for word in words])
    done = subprocess.run(
        [*COMMAND, *map(str, words)], input=data, capture_output=True, check=False,
        timeout=PATIENCE,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _call(words: list[str]) -> Done:
    out, complaints = io.TextIOWrapper(io.BytesIO(), write_through=True), io.StringIO()
    with redirect_stdout(out), redirect_stderr(complaints):
        code = main(words)
    assert isinstance(out.buffer, io.BytesIO)
    return Done(code, out.buffer.getvalue(), complaints.getvalue().encode())


def output(*words: str | Path, data: bytes | None = None) -> str:
    """Standard output of a run that must be fine."""
    done = run(*words, data=data)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def info(*words: str | Path, data: bytes | None = None) -> dict[str, Any]:
    """What `info --json` says."""
    answer: dict[str, Any] = json.loads(output("info", "--json", *words, data=data))
    return answer


def lines(*words: str | Path, data: bytes | None = None) -> list[dict[str, Any]]:
    """What `dump --format json` says."""
    text = output("dump", "--format", "json", *words, data=data)
    return [json.loads(line) for line in text.splitlines()]


def shell(line: str, *words: str | Path) -> Done:
    """A line for bash, in which $XTRACECTL is the command and $1, $2 ... are `words`."""
    done = subprocess.run(
        ["bash", "-c", line, "bash", *map(str, words)],
        env={**os.environ, "XTRACECTL": " ".join(COMMAND)},
        stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=PATIENCE,
    )
    return Done(done.returncode, done.stdout, done.stderr)
