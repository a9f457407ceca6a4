"""The unit and its companions: what they promise, and that systemd takes them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tracelib.units import parse_duration
from xtraced.cli import Exit
from xtraced.settings import Settings

SYSTEMD = Path(__file__).parents[2] / "systemd"

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


@pytest.fixture(scope="module")
def unit() -> dict[str, list[str]]:
    directives: dict[str, list[str]] = {}
    for line in (SYSTEMD / "xtraced.service").read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            directives.setdefault(key, []).append(value)
    return directives


def analyze(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """systemd-analyze on the unit; python stands in for a service that is not installed."""
    unit = tmp_path / "xtraced.service"
    text = (SYSTEMD / "xtraced.service").read_text()
    unit.write_text(text.replace("ExecStart=xtraced", f"ExecStart={sys.executable}"))
    return subprocess.run(
        ["systemd-analyze", *arguments, "--no-pager", unit],
        capture_output=True, text=True, check=False,
    )


def test_not_a_package():
    assert not list(SYSTEMD.rglob("*.py"))


def test_times_out_later_than_the_service_does(unit):
    (text,) = unit["TimeoutStopSec"]
    assert parse_duration(text) > Settings().service.stop_timeout


def test_does_not_start_again_what_would_end_the_same_way(unit):
    """R67, R29: Restart= does not spin on a hypervisor that refuses or a store in use."""
    (text,) = unit["RestartPreventExitStatus"]
    codes = {int(code) for code in text.split()}
    assert codes == {Exit.USAGE, Exit.SOURCE_REFUSED, Exit.LOCKED}
    assert unit["Restart"] == ["on-failure"]


def test_directories_are_those_of_the_defaults(unit):
    defaults = Settings()
    assert defaults.store.directory == Path("/var/lib") / unit["StateDirectory"][0]
    assert defaults.control.socket.parent == Path("/run") / unit["RuntimeDirectory"][0]
    assert unit["StateDirectoryMode"] == unit["RuntimeDirectoryMode"] == ["0750"]


def test_group_is_made_and_owns_the_directories(unit):
    (group,) = unit["Group"]
    assert f"g {group} -" in (SYSTEMD / "sysusers.d/xtraced.conf").read_text()
    tmpfiles = (SYSTEMD / "tmpfiles.d/xtraced.conf").read_text()
    for path in (Settings().store.directory, Settings().control.socket.parent):
        assert re.search(rf"^d {path} +0750 root {group} -$", tmpfiles, re.MULTILINE)


@needs_systemd
def test_systemd_takes_the_unit(tmp_path):
    answer = analyze(tmp_path, "verify", "--man=no")
    assert (answer.returncode, answer.stderr) == (0, "")


@needs_systemd
def test_the_sandbox_is_tight(tmp_path):
    """systemd's own measure, from 0 (tight) to 10; 3.0 is the most that we allow."""
    answer = analyze(tmp_path, "security", "--offline=true", "--threshold=30")
    assert answer.returncode == 0, answer.stdout


@needs_systemd
@pytest.mark.parametrize("tool", ["systemd-sysusers", "systemd-tmpfiles"])
def test_companions_are_well_formed(tool, tmp_path):
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    kind = tool.removeprefix("systemd-")
    source = SYSTEMD / f"{kind}.d/xtraced.conf"
    if kind == "sysusers":
        (tmp_path / "etc").mkdir()
        arguments = [f"--root={tmp_path}", str(source)]
    else:
        # Without its group, which this machine may not have; the rest is what is checked.
        lines = source.read_text().replace("root xtraced -", "- - -")
        (tmp_path / "x.conf").write_text(lines)
        arguments = [f"--root={tmp_path}", "--create", str(tmp_path / "x.conf")]
    answer = subprocess.run(
        [tool, *arguments], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
