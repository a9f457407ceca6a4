"""`make test-xen`: build, boot, check, count. Exits 1 if any check failed."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tests.xen import host, image, packages, project
from tests.xen.boot import SILENCE, Boot
from tests.xen.report import Report

_ATTEMPTS = 3
_CACHE = Path(__file__).parents[2] / ".xen"

# Scenario: arguments for Xen, seconds it may take, what is checked afterwards.
_BOOTS = {
    "service": ("", 600, host.check_service),
    "guest": ("", 600, host.check_guest),
    "rings": ("tbuf_size=1", 300, host.check_rings),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.xen", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(_BOOTS))
    parser.add_argument("--keep", action="store_true", help="leave what the boots brought back")
    options = parser.parse_args()
    if unknown := set(options.scenarios) - set(_BOOTS):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    if os.geteuid() != 0:
        parser.error("make test-xen needs root: it installs packages and makes a file system")
    report = Report()
    started = time.monotonic()
    if prepared := _prepare(report):
        for scenario in options.scenarios or _BOOTS:
            _boot(report, *prepared, scenario, keep=options.keep)
    report.say(f"\nin {time.monotonic() - started:.0f} s")
    return report.finish()


def _prepare(report: Report) -> tuple[image.Image, Path] | None:
    try:
        packages.install()
        _tidy()
        built = image.cached(_CACHE)
        if built is None:
            report.say("building Xen's and dom0's image; it is kept in .xen/")
            built = image.build(_CACHE)
        report.say("installing the project into dom0")
        return built, project.install(built, _CACHE)
    except (subprocess.SubprocessError, project.InstallError, OSError) as exc:
        report.fail(f"dom0 is built and has the project installed: {exc}")
        return None


def _tidy() -> None:
    """Remove what runs before this one left, by --keep or because they were killed."""
    for name in (*_BOOTS, project.PREFIX):
        for leftover in _CACHE.glob(f"{name}-*"):
            shutil.rmtree(leftover)


def _boot(report: Report, built: image.Image, root: Path, scenario: str, *, keep: bool) -> None:
    """One scenario. A machine that falls silent is booted again: nested virtualization under
    emulation now and then stops dead. What does so every time has failed, and a check that
    failed before the silence stays failed."""
    before = report.passed
    for attempt in range(1, _ATTEMPTS + 1):
        trouble = _attempt(report, built, root, scenario, keep=keep)
        if trouble != SILENCE or attempt == _ATTEMPTS:
            break
        report.say(f"HUNG {scenario}: {trouble}; again, from the start")
        report.passed = before
    if trouble is not None:
        report.fail(f"dom0 came to the end of the scenario: {trouble}")


def _attempt(
    report: Report, built: image.Image, root: Path, scenario: str, *, keep: bool
) -> str | None:
    """Boot, and check what the boot brought back; what kept it from its end."""
    xen, limit, check = _BOOTS[scenario]
    share = Path(tempfile.mkdtemp(prefix=f"{scenario}-", dir=_CACHE))
    try:
        report.say(f"\n{scenario}: booting Xen {image.XEN_VERSION} and dom0")
        trouble = Boot(built, root, share, scenario).run(report, xen=xen, limit=limit)
        if trouble is None:
            check(report, share)
        return trouble
    finally:
        if keep:
            report.say(f"     left in {share}")
        else:
            shutil.rmtree(share)


if __name__ == "__main__":
    raise SystemExit(main())
