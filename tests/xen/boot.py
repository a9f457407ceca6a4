"""One boot: Xen and dom0 under QEMU, one scenario, a hard end."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.xen.image import Image
from tests.xen.report import Report

_HERE = Path(__file__).parent
_SILENCE = 120
"""Seconds without a sign of life after which a machine hangs. Its pulse comes every second,
whatever the scenario waits for; before that there is the console."""
SILENCE = f"nothing was heard of it for {_SILENCE} s"
_TAIL = 40
_WHERE = ("CPU#", "RIP=", "CS =", "CR0=")
"""Lines of QEMU's monitor that tell what each CPU does."""

# qemu64 with SVM and nested pages is what Xen needs for guests with VM exits; the rest is what
# numpy needs. Richer models trip over what the emulation lacks.
_CPU = "qemu64,+svm,+npt,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16"
_CPUS = 2
_MEMORY, _DOM0_MEMORY = 4096, 2048


class Boot:
    """One scenario in one directory, which dom0 sees as /mnt/share."""

    def __init__(self, image: Image, root: Path, share: Path, scenario: str) -> None:
        """`root` is an ext4 file system; it is never written to."""
        self._image = image
        self._root = root
        self.share = share
        self._console = share / "console"
        self._output = share / "output"
        self._pulse = share / "pulse"
        shutil.copytree(_HERE / "dom0", share / "dom0")
        shutil.copy(_HERE / "report.py", share / "dom0")
        (share / "scenario").write_text(scenario)

    def run(self, report: Report, *, xen: str = "", limit: int) -> str | None:
        """Boot with more arguments for Xen, report each line of the scenario as it comes.

        `limit` is in seconds. None if the scenario came to its end; otherwise what kept it
        from that, and the end of the console's log is shown.
        """
        started = time.monotonic()
        with subprocess.Popen(
            self._command(xen), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as qemu:
            try:
                trouble = self._watch(qemu, report, started + limit)
                if trouble == SILENCE:
                    _show_registers(qemu, report)
            finally:
                qemu.kill()
        code = self.share / "code"
        if trouble is None and not code.exists():
            trouble = "Xen or dom0 ended before the scenario did"
        if trouble is not None:
            self._show_console(report)
            return trouble
        report.say(f"     boot, scenario and power-off: {time.monotonic() - started:.0f} s")
        return None

    def _watch(self, qemu: subprocess.Popen[str], report: Report, deadline: float) -> str | None:
        """Pass on lines until QEMU ends; what went wrong, if something did."""
        lines = self._lines()
        heard, signs = time.monotonic(), self._signs()
        while True:
            ended = qemu.poll() is not None
            for line in iter(lines.__next__, None):
                report.line(line)
            if ended:
                return None
            now = time.monotonic()
            if (newer := self._signs()) != signs:
                heard, signs = now, newer
            if now > deadline:
                return "it took too long"
            if now > heard + _SILENCE:
                return SILENCE
            time.sleep(0.5)

    def _lines(self) -> Iterator[str | None]:
        """Whole lines of the scenario's output; None when there are no more for now."""
        while not self._output.exists():
            yield None
        with self._output.open(errors="replace") as output:
            line = ""
            while True:
                line += output.readline()
                if line.endswith("\n"):
                    yield line[:-1]
                    line = ""
                else:
                    yield None

    def _signs(self) -> list[int]:
        """Signs of life: they change."""
        paths = (self._console, self._output, self._pulse)
        return [path.stat().st_mtime_ns if path.exists() else 0 for path in paths]

    def _show_console(self, report: Report) -> None:
        text = self._console.read_text(errors="replace") if self._console.exists() else "(empty)"
        report.say(f"---- end of the console's log ({self._console}):")
        for line in text.splitlines()[-_TAIL:]:
            report.say(f"  {line}")
        report.say("----")

    def _command(self, xen: str) -> list[str]:
        memory = f"dom0_mem={_DOM0_MEMORY}M,max:{_DOM0_MEMORY}M dom0_max_vcpus={_CPUS}"
        console = "console=com1 com1=115200,8n1 loglvl=all guest_loglvl=all conring_size=1M"
        # Between the modules of QEMU's -initrd stands a comma; there is none within them.
        kernel = (
            f"{self._image.kernel} root=/dev/vda rw console=hvc0 net.ifnames=0 "
            "systemd.show_status=no"
        )
        return [
            # Whatever happens to us, it does not stay behind.
            "setpriv", "--pdeathsig=KILL",
            "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi",
            "-cpu", _CPU, "-smp", str(_CPUS), "-m", str(_MEMORY),
            "-nodefaults", "-nic", "none", "-display", "none", "-monitor", "stdio",
            "-no-reboot",
            "-serial", f"file:{self._console}",
            "-kernel", str(self._image.xen), "-append", f"{console} {memory} {xen}",
            "-initrd", f"{kernel},{self._image.initrd}",
            "-drive", f"file={self._root},format=raw,if=none,id=root,snapshot=on,cache=unsafe",
            "-device", "virtio-blk-pci,drive=root",
            "-virtfs", f"local,path={self.share},mount_tag=share,security_model=none,id=share",
        ]


def _show_registers(qemu: subprocess.Popen[str], report: Report) -> None:
    """Where a machine is that is not heard of any more; ends it."""
    try:
        said, _ = qemu.communicate("info registers -a\nquit\n", timeout=10)
    except subprocess.TimeoutExpired:
        report.say("     QEMU itself does not answer")
        return
    for line in said.splitlines():
        if line.startswith(_WHERE):
            report.say(f"     {line}")
