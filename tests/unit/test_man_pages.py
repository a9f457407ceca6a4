"""The man pages as troff takes them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "man").glob("*.[1-8]"))


def render(page: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["groff", "-t", "-man", "-Tutf8", "-ww", "-P-cbou", str(page)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page):
    answer = render(page)
    assert answer.stderr == ""
    sections = [line for line in answer.stdout.splitlines() if line[:1].isupper()]
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"):
        assert section in sections
    assert max(len(line) for line in answer.stdout.splitlines()) <= 80


def test_handing_a_trace_on_is_warned_about():
    """R80: unused fields of some records hold what lay in the hypervisor's memory."""
    for name in ("README.md", "man/xtracectl.1"):
        text = " ".join((PAGES[0].parents[1] / name).read_text().split())
        assert "bytes of the hypervisor's stack" in text
