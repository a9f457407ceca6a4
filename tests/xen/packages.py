"""What the machine needs beyond what the project itself needs."""

from __future__ import annotations

import os
import subprocess

PACKAGES = (
    "qemu-system-x86", "mmdebstrap", "debian-archive-keyring", "e2fsprogs", "cpio", "kmod",
    "python3-pip", "python3-dev", "gcc",  # make install, with the distribution's Python
    "xen-utils-common",  # xenalyze
)


def install() -> None:
    """Install what is missing; needs root."""
    answer = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *PACKAGES],
        capture_output=True, text=True, check=False,
    )
    missing = [name for name in PACKAGES if f"{name} installed" not in answer.stdout]
    if missing:
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
            subprocess.run(
                ["apt-get", "-qq", *command], env=environment, stdout=subprocess.DEVNULL, check=True
            )
