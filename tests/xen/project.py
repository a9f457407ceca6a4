"""This project, installed into dom0's root file system as a user would."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.xen.image import Image

_TOP = Path(__file__).parents[2]
PREFIX = "root"
"""Of the working directories in the cache."""

_PATIENCE = 300
_TEST_PACKAGES = ("pytest", "pytest-trio")
_TESTS = ("tests/aio/test_source_conformance.py", "tests/xen/on_real_xen.py")
_SIZE = "4G"
"""Of the file system, most of it a hole: store.keep_free's default must leave room."""


class InstallError(Exception):
    """The project cannot be installed; the text is what a program said."""


def install(image: Image, cache: Path) -> Path:
    """dom0's root file system with the project in it, as an ext4 image in `cache`.

    Raises InstallError.
    """
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}-", dir=cache) as name:
        work = Path(name)
        wheels = _wheels(work / "wheels")
        root = work / "root"
        root.mkdir()
        _run("tar", "-C", root, "-xf", image.root)
        _programs(root, wheels)
        _tests(root)
        # The programs are there already: of `make install`, all but them.
        _run("make", "-C", _TOP, "install-files", f"DESTDIR={root}")
        _run("chroot", root, "systemd-sysusers")
        return _file_system(root, cache / "dom0.ext4")


def _wheels(directory: Path) -> Path:
    """The project's wheel and those of all that it depends on."""
    python = sys.executable
    _run(python, "-m", "build", "--no-isolation", "--outdir", directory, _TOP)
    (wheel,) = directory.glob("xtraced-*.whl")
    wanted = (f"{wheel}[analysis]", *_TEST_PACKAGES)
    _run(python, "-m", "pip", "--quiet", "download", "--dest", directory, *wanted)
    return directory


def _programs(root: Path, wheels: Path) -> None:
    """pip, inside the root file system but not inside the emulation: there it takes minutes."""
    carried = root / "wheels"
    shutil.copytree(wheels, carried)
    _run("chroot", root, "python3", "-m", "venv", "/opt/xtraced")
    pip = (
        "chroot", root, "/opt/xtraced/bin/pip", "--quiet", "--disable-pip-version-check",
        "install", "--no-index", "--find-links", "/wheels",
    )
    _run(*pip, "xtraced[analysis]")
    # Beside the product, not into it.
    _run(*pip, "--target", "/opt/tests/packages", *_TEST_PACKAGES)
    shutil.rmtree(carried)
    for program in ("xtraced", "xtracectl"):
        (root / "usr/local/bin" / program).symlink_to(f"/opt/xtraced/bin/{program}")


def _tests(root: Path) -> None:
    """The tests that on_real_xen.py takes over, with what they stand on."""
    tests = root / "opt/tests"
    for name in ("pyproject.toml", "tests/__init__.py", *_TESTS):
        target = tests / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_TOP / name, target)
    shutil.copytree(_TOP / "tests/support", tests / "tests/support")


def _file_system(root: Path, image: Path) -> Path:
    """An ext4 image of a directory, made without mounting anything."""
    image.unlink(missing_ok=True)
    _run("truncate", "--size", _SIZE, image)
    _run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-d", root, image)
    return image


def _run(*command: str | Path) -> None:
    """Run it, quietly unless it fails."""
    answer = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", check=False, timeout=_PATIENCE,
    )
    if answer.returncode:
        raise InstallError(f"{' '.join(map(str, command))}: {answer.stdout[-2000:]}")
