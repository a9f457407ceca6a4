"""Xen, a kernel and dom0's root file system, from the machine's own Debian mirrors."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

XEN_VERSION = "4.17"

_HERE = Path(__file__).parent
_RECIPE = (
    "image.py", "image.sh", "dom0/init.dom0", "dom0/init.guest", "dom0/room-run",
    "dom0/room.service",
)
_PACKAGES = (
    "systemd", "systemd-sysv", "udev", "kmod", "procps", "iproute2", "linux-image-amd64",
    f"xen-hypervisor-{XEN_VERSION}-amd64", f"xen-utils-{XEN_VERSION}", "xen-utils-common",
    "python3", "busybox-static",
)
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_NOT_WANTED = ("doc", "man", "locale", "info")
_PATIENCE = 600


@dataclass(frozen=True, slots=True)
class Image:
    """Files of one finished build; never changed afterwards."""

    directory: Path

    @property
    def xen(self) -> Path:
        """The hypervisor, as QEMU's multiboot loader wants it."""
        return self.directory / "xen"

    @property
    def kernel(self) -> Path:
        return self.directory / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.directory / "initrd"

    @property
    def root(self) -> Path:
        """dom0's root file system, a tar archive."""
        return self.directory / "root.tar"


def cached(cache: Path) -> Image | None:
    """The image of today's recipe, if it was built before."""
    image = Image(cache / f"image-{_recipe()}")
    return image if image.directory.is_dir() else None


def build(cache: Path) -> Image:
    """Build it; those of other recipes go. Needs root and a network. Seconds: about 90.

    Raises CalledProcessError, TimeoutExpired.
    """
    cache.mkdir(exist_ok=True)
    for old in cache.glob("image-*"):
        shutil.rmtree(old)
    image = Image(cache / f"image-{_recipe()}")
    # Under another name until it is whole: a build that was cut off is not found.
    with tempfile.TemporaryDirectory(prefix="building-", dir=cache) as name:
        unfinished = Path(name) / "image"
        unfinished.mkdir()
        _mmdebstrap(Image(unfinished))
        unfinished.rename(image.directory)
    return image


def _recipe() -> str:
    digest = hashlib.sha256(_suite().encode())
    for name in _RECIPE:
        digest.update((_HERE / name).read_bytes())
    return digest.hexdigest()[:16]


def _suite() -> str:
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


def _mmdebstrap(image: Image) -> None:
    subprocess.run(
        [
            "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--format=tar",
            f"--include={','.join(_PACKAGES)}",
            '--aptopt=Apt::Install-Recommends "false"',
            *(f"--aptopt={option}" for option in _apt_options()),
            *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _NOT_WANTED),
            f"--customize-hook={_HERE / 'image.sh'} \"$1\"",
            _suite(), str(image.root), "-",
        ],
        input="".join(_sources()), text=True, check=True, timeout=_PATIENCE,
        env=os.environ | {
            "OUT": str(image.directory), "XEN_VERSION": XEN_VERSION, "TMPDIR": str(image.directory),
            # Debian's own initramfs takes half a minute to make and is not used.
            "INITRD": "No",
        },
    )


def _sources() -> list[str]:
    """The machine's mirrors of Debian: where apt says it gets packages from."""
    answer = subprocess.run(
        [
            "apt-get", "indextargets", "--format", f"deb [signed-by={_KEYRING}] $(REPO_URI) "
            "$(RELEASE) $(COMPONENT)", "Created-By: Packages", "Origin: Debian", "Component: main",
        ],
        capture_output=True, text=True, check=True,
    )
    return sorted({f"{line}\n" for line in answer.stdout.splitlines()})


def _apt_options() -> list[str]:
    """What the machine's apt needs to reach them: proxies, and checks that are off."""
    answer = subprocess.run(
        ["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=True
    )
    wanted = re.compile(r'Acquire::(?:Check-|.*proxy|Retries)[^ ]* ".+";', re.IGNORECASE)
    return [line for line in answer.stdout.splitlines() if wanted.match(line)]
