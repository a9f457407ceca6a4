"""What dom0's kernel says of the machine. It goes into the metadata; nothing here decides
whether this is Xen."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_FAMILIES = {"GenuineIntel": "vmx", "AuthenticAMD": "svm", "HygonGenuine": "svm", "arm": "arm"}


class Host(NamedTuple):
    """Unknown is None."""

    cpu_vendor: str | None
    """As CPUID has it, which Xen shows to dom0 unchanged; "arm" there."""
    cpu_model: str | None
    boot_id: str | None
    """Of dom0's kernel, which boots once per boot of the hypervisor."""
    guest_type: str | None
    """How dom0 runs: "PV", "PVH"."""

    @property
    def exit_family(self) -> str | None:
        return _FAMILIES.get(self.cpu_vendor or "")

    @property
    def shares_xens_tsc(self) -> bool:
        """Whether the counter that a program here reads is the one that Xen stamps records
        with. A PV dom0 runs rdtsc on the processor as it is. A PVH dom0's is shifted by the
        offset in its VMCS or VMCB, and an Arm dom0 reads its virtual counter, shifted by the
        time of its creation (xen/arch/arm/vtimer.c)."""
        return self.cpu_vendor != "arm" and self.guest_type in ("PV", None)


def read_host(root: Path = Path("/")) -> Host:
    """Read it from /proc and /sys under `root`."""
    cpu = _fields(_text(root / "proc/cpuinfo") or "")
    vendor = cpu.get("vendor_id") or ("arm" if "CPU implementer" in cpu else None)
    return Host(
        vendor,
        cpu.get("model name"),
        _text(root / "proc/sys/kernel/random/boot_id"),
        _text(root / "sys/hypervisor/guest_type"),
    )


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def _fields(text: str) -> dict[str, str]:
    """Of the first processor."""
    first = text.partition("\n\n")[0].splitlines()
    pairs = (line.partition(":") for line in first)
    return {name.strip(): value.strip() for name, _, value in pairs}
