"""The service as a process of its own, with a socket to ask it through."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tracelib.errors import NotRunningError
from xtracectl.client import Client

START_TIMEOUT = 60.0
STOP_TIMEOUT = 60.0


class ServiceProcess:
    """`xtraced` in the foreground; a context manager that stops it and keeps its log."""

    def __init__(
        self, store: Path, socket: Path, *, source: str = "sim",
        settings: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None,
    ) -> None:
        self.store = store
        self.socket = socket
        self.log_path = socket.with_suffix(".log")
        self._arguments = [
            sys.executable, "-m", "xtraced", "--source", source, "--store", str(store),
            "--socket", str(socket), "--set", "log.format=json",
        ]  # fmt: skip
        for key, value in (settings or {}).items():
            self._arguments += ["--set", f"{key}={value}"]
        self._environ = {**os.environ, **(environ or {})}
        self.process = self._spawn()

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self.log_path.open("ab") as log:
            return subprocess.Popen(
                self._arguments, stdin=subprocess.DEVNULL, stderr=log, stdout=log,
                env=self._environ,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        return self.log_path.read_text()

    def wait_ready(self) -> None:
        """Until the service answers and collects. Raises AssertionError with its log."""
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                if self.status()["state"] != "starting":
                    return
            except NotRunningError:
                time.sleep(0.02)
        raise AssertionError(f"the service did not get ready:\n{self.log()}")

    def ask(self, command: str, **args: Any) -> dict[str, Any]:
        """One request over the control socket."""
        with Client(self.socket) as client:
            return client.ask(command, args)

    def status(self) -> dict[str, Any]:
        return self.ask("status")

    def kill(self) -> None:
        """As `kill -9` does; the store and the hypervisor stay as they are."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def restart(self) -> None:
        """Start again after `kill` or `stop`."""
        self.process = self._spawn()
        self.wait_ready()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop with a signal; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the service did not stop:\n{self.log()}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.stop()
