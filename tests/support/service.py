"""The service as a process of its own, with a socket to ask it through and a log to wait on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from xtracectl.client import Client
from xtraced import handover

PATIENCE = 60.0
"""Seconds until something that should happen counts as not happening: for tests that fail."""


# Only the process itself knows its number.
_HAND_OVER = """
import os, sys
kept = int(sys.argv[1])
os.dup2(kept, 3)
if kept != 3:
    os.close(kept)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execvp(sys.argv[2], sys.argv[2:])
"""


class Tail:
    """The log of one run as it comes, copied to a file."""

    def __init__(self, pipe: IO[bytes] | None, copy: Path) -> None:
        self._lines: list[str] = []
        self._ended = pipe is None
        self._news = threading.Condition()
        if pipe is not None:
            # A daemon: children that a killed service leaves hold the pipe open.
            threading.Thread(target=self._read, args=(pipe, copy), daemon=True).start()

    def _read(self, pipe: IO[bytes], path: Path) -> None:
        with pipe, path.open("ab") as copy:
            for line in pipe:
                copy.write(line)
                copy.flush()
                with self._news:
                    self._lines.append(line.decode(errors="replace"))
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def events(self, name: str) -> list[dict[str, Any]]:
        with self._news:
            return self._events(name)

    def wait(self, name: str, count: int) -> list[dict[str, Any]]:
        """Until there are so many, or never will be."""
        with self._news:
            self._news.wait_for(lambda: self._ended or len(self._events(name)) >= count, PATIENCE)
            return self._events(name)

    def wait_end(self) -> None:
        """Until everything is there; not for ever, since a child may hold the pipe."""
        with self._news:
            self._news.wait_for(lambda: self._ended, PATIENCE)

    def _events(self, name: str) -> list[dict[str, Any]]:
        mark = f'"event": "{name}"'
        return [json.loads(line) for line in self._lines if mark in line]


class ServiceProcess:
    """`xtraced` in the foreground; a context manager that stops it and keeps its log.

    The log is read from a pipe as it comes, so that a test can wait for a line of it; with
    `log_to`, the service writes it to that file itself, and nobody can wait.
    """

    def __init__(
        self, store: Path, socket: Path, *, source: str = "sim",
        settings: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None,
        rights: Sequence[str] = (), umask: int = -1, log_to: Path | None = None,
        keeps: int | None = None,
    ) -> None:
        """`rights`: a command to run it under, e.g. setpriv. `keeps`: a descriptor that every
        start gets as staging memory, as systemd would hand it over."""
        self.store = store
        self.socket = socket
        self.log_path = log_to or socket.with_suffix(".log")
        self._log_to = log_to
        self._arguments = [
            *rights, sys.executable, "-m", "xtraced", "--source", source, "--store", str(store),
            "--socket", str(socket), "--set", "log.format=json",
        ]  # fmt: skip
        for key, value in (settings or {}).items():
            self._arguments += ["--set", f"{key}={value}"]
        self._environ = {**os.environ, **(environ or {})}
        self._keeps = () if keeps is None else (keeps,)
        if keeps is not None:
            self._environ |= {"LISTEN_FDS": "1", "LISTEN_FDNAMES": handover.NAME}
            self._arguments = [sys.executable, "-c", _HAND_OVER, str(keeps), *self._arguments]
        self._umask = umask
        self.process = self._spawn()

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self.log_path.open("ab") as file:
            output = subprocess.PIPE if self._log_to is None else file
            process = subprocess.Popen(
                self._arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=output, env=self._environ, umask=self._umask, pass_fds=self._keeps,
            )
        self._tail = Tail(process.stderr, self.log_path)
        return process

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        return self.log_path.read_text()

    def events(self, name: str) -> list[dict[str, Any]]:
        """The messages of one event since the last start."""
        return self._tail.events(name)

    def wait_log(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        """Until the log has so many messages of an event since the last start; all of them.

        Raises AssertionError with the log if the service ends first, or takes for ever.
        """
        events = self._tail.wait(name, count)
        assert len(events) >= count, f"{len(events)} {name!r}, not {count}:\n{self.log()}"
        return events

    def wait_ready(self) -> Self:
        """Until the service collects. Raises AssertionError with its log."""
        if self._log_to is None:
            self.wait_log("collecting")
        else:
            self.wait_status(lambda status: status["state"] != "starting")
        return self

    def wait_status(
        self, wanted: Callable[[dict[str, Any]], object]
    ) -> dict[str, Any]:
        """Until the service's status is as wanted; that status. Raises AssertionError."""
        deadline = time.monotonic() + PATIENCE
        status: dict[str, Any] = {}
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.socket.exists():
                status = self.status()
                if wanted(status):
                    return status
            # Only so as not to ask as fast as it can answer.
            time.sleep(0.005)
        raise AssertionError(f"it did not come to that: {status}\n{self.log()}")

    def ask(self, command: str, **args: Any) -> dict[str, Any]:
        """One request over the control socket."""
        with Client(self.socket) as client:
            return client.ask(command, args, timeout=PATIENCE)

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
        return self.wait()

    def wait(self) -> int:
        """Until it has ended by itself; the exit code. Its log is complete then."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the service did not stop:\n{self.log()}") from None
        self._tail.wait_end()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.stop()


