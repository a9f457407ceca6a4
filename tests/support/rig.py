"""One system under test: a simulated hypervisor, services on it, a store, and its account."""

from __future__ import annotations

import os
import re
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.account import Account, assert_in_order, stored, truths
from tests.support.disks import TestDisk
from tests.support.service import PATIENCE, ServiceProcess
from tests.support.sim import Hypervisor
from tracelib.losses import Cause
from tracelib.segment.findings import Finding
from tracelib.store.verify import verify_store
from xtraced.sources.sim.options import SimOptions

DEFAULTS = {"store.keep_free": "0", "collect.flush_interval": "200ms"}


class Rig:
    """Starts processes and ends them; the store is `directory`/store unless told otherwise."""

    def __init__(self, directory: Path, store: Path | None = None) -> None:
        self.directory = directory
        self.store = store or directory / "store"
        self._held = ExitStack()
        self._disk: TestDisk | None = None
        self._hypervisor: Hypervisor | None = None
        self._keeper: int | None = None

    @property
    def keeper(self) -> int:
        """An empty memfd: what a service manager keeps for a service over its crashes."""
        if self._keeper is None:
            self._keeper = os.memfd_create("keeper")
            self._held.callback(os.close, self._keeper)
        return self._keeper

    @property
    def disk(self) -> TestDisk:
        """The disk of services started from now on; only if asked for."""
        if self._disk is None:
            self._disk = TestDisk(self.directory, self.store)
            # Before the services are stopped: a stop waits for the disk.
            self._held.callback(self._disk.heal)
        return self._disk

    def boot(self, **options: Any) -> Hypervisor:
        """The hypervisor that services attach to."""
        self._hypervisor = self._held.enter_context(
            Hypervisor(self.directory / "hypervisor", **options)
        )
        return self._hypervisor

    @property
    def hypervisor(self) -> Hypervisor:
        return self._hypervisor or self.boot(rate=2_000_000)

    def spawn(
        self, settings: Mapping[str, str] | None = None, *, name: str = "control",
        environ: Mapping[str, str] | None = None, store: Path | None = None, **more: Any,
    ) -> ServiceProcess:
        """A service that is only just starting."""
        fault = {} if self._disk is None else self._disk.environ
        return self._held.enter_context(
            ServiceProcess(
                store or self.store, self.directory / f"{name}.sock",
                settings={**DEFAULTS, **self.hypervisor.settings, **(settings or {})},
                environ={**fault, **(environ or {})}, **more,
            )
        )

    def start(
        self, settings: Mapping[str, str] | None = None, **more: Any
    ) -> ServiceProcess:
        """A service that collects."""
        service = self.spawn(settings, **more)
        return service.wait_ready()

    def balance(self) -> Account:
        """After a stop: everything that was produced is stored, or lost by a stated cause;
        exactly, on every CPU. The whole store is verified."""
        account = stored(self.store)
        truth = self.hypervisor.truth()
        failed = _by_cpu(account, Cause.WRITE_FAILED)
        inserted, kept = truths(truth, "inserted"), account.events + failed
        assert inserted == kept, f"inserted {inserted}, stored or failed {kept}"
        told_beside = _by_cpu(account, Cause.RING_FULL) + _by_cpu(account, Cause.QUEUE_FULL)
        reported, said = truths(truth, "reported"), account.lost + told_beside
        assert reported == said, f"Xen reported {reported} lost, the store {said}"
        unknown = {loss.cpu for loss in account.stated if loss.cause == Cause.TAIL_UNKNOWN}
        forgotten = +truths(truth, "forgotten")
        assert set(forgotten) <= unknown, f"forgotten {forgotten}, unknown {unknown}"
        self.verify()
        return account

    def verify(self) -> None:
        """What `xtracectl verify` would say: nothing; and no record twice."""
        found = verify_store(self.store)
        findings = [str(finding) for finding in found if not _by_the_engine(finding)]
        assert not findings, "\n".join(findings)
        assert_in_order(self.store)

    def segments(self) -> list[Path]:
        """Sealed ones, oldest first."""
        return sorted(self.store.glob("*.xtr"))

    def open_segments(self) -> list[Path]:
        return sorted(self.store.glob("*.open"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.close()


def _by_the_engine(finding: Finding) -> bool:
    """The engine runs one CPU after another through rounds of 1/4000 s, each to the end of the
    step that it is in: whoever drains in the middle of a round sees CPUs so far apart, and
    some microseconds more."""
    found = re.search(r"is behind that of CPU \d+ by at least (\d+) cycles", finding.reason)
    hz = SimOptions().tsc_hz
    return found is not None and int(found[1]) < hz // 4000 + hz // 20_000


def _by_cpu(account: Account, cause: Cause) -> Counter[int]:
    counts: Counter[int] = Counter()
    for loss in account.stated:
        if loss.cause == cause:
            counts[loss.cpu] += loss.records or 0
    return counts


def memory(pid: int, what: str = "VmRSS") -> int:
    """A line of /proc/PID/status, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{what}:"))


class Manager:
    """The service manager's end of sd_notify(3)."""

    def __init__(self, address: str) -> None:
        """`address` as NOTIFY_SOCKET has it: a path, or "@name"."""
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)

    @property
    def environ(self) -> dict[str, str]:
        return {"NOTIFY_SOCKET": self.address}

    def hear(self, wanted: str, within: float = PATIENCE) -> Sequence[str]:
        """Until a message has this line; all lines of that message. Raises TimeoutError."""
        self._socket.settimeout(within)
        while True:
            lines = self._socket.recv(1 << 16).decode().split("\n")
            if wanted in lines:
                return lines

    def heard(self) -> list[str]:
        """The first lines of the messages that wait."""
        self._socket.setblocking(False)
        lines: list[str] = []
        with suppress(BlockingIOError):
            while True:
                lines.append(self._socket.recv(1 << 16).decode().split("\n")[0])
        return lines

    def close(self) -> None:
        self._socket.close()
        if not self.address.startswith("@"):
            with suppress(FileNotFoundError):
                Path(self.address).unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def descriptors(pid: int) -> list[str]:
    """What the descriptors of a process lead to."""
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(os.readlink(entry))  # noqa: PTH115  # not of the file system
    return found
