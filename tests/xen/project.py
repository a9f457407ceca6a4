"""This project, installed into dom0's root file system as a user would."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.xen.image import Image

_TOP = Path(__file__).parents[2]
PREFIX = "root"
"""Of the working directories in the cache."""

_PATIENCE = 300
_PYTHON = "/usr/bin/python3"
"""The distribution's: dom0 has the same one."""
_TEST_PACKAGES = ("pytest", "pytest-trio")
_TESTS = ("tests/aio/test_source_conformance.py", "tests/xen/on_real_xen.py")
_SIZE = "4G"
"""Of the file system, most of it a hole: store.keep_free's default must leave room."""


class InstallError(Exception):
    """The project cannot be installed; the text is what a program said."""


def install(image: Image, cache: Path) -> Path:
    """dom0's root file system with the project in it, as an ext4 image in `cache`.

    On this machine, for a directory: in dom0 there is no network, and pip takes minutes
    under emulation. Raises InstallError.
    """
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}-", dir=cache) as name:
        root = Path(name)
        _run("tar", "-C", root, "-xf", image.root)
        _run("make", "-C", _TOP, "install", f"PYTHON={_PYTHON}", f"DESTDIR={root}")
        _run("chroot", root, "systemd-sysusers")
        _tests(root / "opt/tests")
        return _file_system(root, cache / "dom0.ext4")


def _tests(tests: Path) -> None:
    """The tests that on_real_xen.py takes over, with what they stand on; not into the product."""
    for name in ("pyproject.toml", "tests/__init__.py", *_TESTS):
        target = tests / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_TOP / name, target)
    shutil.copytree(_TOP / "tests/support", tests / "tests/support")
    pip = (_PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
    _run(*pip, "--target", tests / "packages", *_TEST_PACKAGES)


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
