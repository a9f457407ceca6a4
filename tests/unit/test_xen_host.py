"""What dom0's kernel says, and the description of the hypervisor made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from xtraced.sources.xen.host import Host, read_host
from xtraced.sources.xen.hypercalls import PhysInfo, XenVersion
from xtraced.sources.xen.source import describe

X86 = """\
processor	: 0
vendor_id	: {vendor}
model name	: A processor: with a colon
flags		: fpu

processor	: 1
vendor_id	: GenuineTwo
"""
ARM = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd08\n"
XEN_X86 = "xen-3.0-x86_64 hvm-3.0-x86_32 hvm-3.0-x86_64"
NOBODY = Host(None, None, None, None)


def root(directory: Path, cpuinfo: str, guest_type: str | None = None) -> Path:
    (directory / "proc/sys/kernel/random").mkdir(parents=True)
    (directory / "sys/hypervisor").mkdir(parents=True)
    (directory / "proc/cpuinfo").write_text(cpuinfo)
    (directory / "proc/sys/kernel/random/boot_id").write_text("b-1\n")
    if guest_type is not None:
        (directory / "sys/hypervisor/guest_type").write_text(f"{guest_type}\n")
    return directory


@pytest.mark.parametrize(
    ("vendor", "family"),
    [("GenuineIntel", "vmx"), ("AuthenticAMD", "svm"), ("HygonGenuine", "svm"), ("Odd", None)],
)
def test_the_vendor_decides_the_family_of_exits(tmp_path, vendor, family):
    """R32: a reader need not be told."""
    host = read_host(root(tmp_path, X86.format(vendor=vendor), "PV"))
    assert host == Host(vendor, "A processor: with a colon", "b-1", "PV")
    assert host.exit_family == family


def test_an_arm_host(tmp_path):
    host = read_host(root(tmp_path, ARM))
    assert host == Host("arm", None, "b-1", None)
    assert host.exit_family == "arm"
    assert not host.shares_xens_tsc


def test_nothing_to_read_is_nothing_known(tmp_path):
    assert read_host(tmp_path) == NOBODY
    assert NOBODY.exit_family is None


@pytest.mark.parametrize(("guest_type", "shares"), [("PV", True), ("PVH", False), (None, True)])
def test_whose_time_stamp_counter_it_is(guest_type, shares):
    assert Host("AuthenticAMD", None, None, guest_type).shares_xens_tsc is shares


@pytest.mark.parametrize(
    ("vendor", "capabilities", "family"),
    [
        ("AuthenticAMD", XEN_X86, "svm"),
        ("AuthenticAMD", "xen-3.0-x86_64", None),
        ("GenuineIntel", None, "vmx"),
        ("arm", "xen-3.0-aarch64 xen-3.0-armv7l", "arm"),
    ],
)
def test_exits_have_a_family_where_there_can_be_any(vendor, capabilities, family):
    version = XenVersion("4.17.7", "git:2445b30a44", capabilities)
    info = describe(PhysInfo(4, 7, 2_445_400), version, Host(vendor, "m", "b", "PV"))
    assert info.exit_family == family
    assert (info.cpus, info.tsc_hz, info.tsc_source) == (8, 2_445_400_000, "physinfo")
    assert (info.version, info.changeset) == ("4.17.7", "git:2445b30a44")


def test_an_unknown_clock_is_unknown():
    info = describe(PhysInfo(1, 0, 0), XenVersion("4.17", None, None), NOBODY)
    assert (info.tsc_hz, info.tsc_source) == (None, None)
