"""Where the service listens and where it keeps its segments: given, configured or default."""

from __future__ import annotations

import argparse
import os
import stat
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracelib.errors import UsageError

if TYPE_CHECKING:
    from tracelib.kvmtrace.layout import Kind

DEFAULT_STORE = Path("/var/lib/xtraced")
DEFAULT_SOCKET = Path("/run/xtraced/control.sock")
DEFAULT_CONFIG = Path("/etc/xtraced/xtraced.toml")


MAX_CONFIG = 1 << 20
"""Bytes; the service takes no larger one."""

_CONFIG_HINT = "--config is the service's configuration; --store and --socket do without it"


class Options(argparse.Namespace):
    """The arguments of one run. A command has those that it added itself, and these."""

    command: str
    given_store: Path | None
    given_socket: Path | None
    given_config: Path | None
    kvmtrace_layout: Kind | None = None
    """Only some commands have the option."""

    @property
    def store(self) -> Path:
        """The store's directory. Raises UsageError if it takes a configuration to tell, and
        that cannot be read."""
        return self.given_store or self._configured("store", "directory") or DEFAULT_STORE

    @property
    def socket(self) -> Path:
        """The control socket; raises like `store`."""
        return self.given_socket or self._configured("control", "socket") or DEFAULT_SOCKET

    def _configured(self, section: str, key: str) -> Path | None:
        value = self._config.get(section, {}).get(key)
        return None if value is None else Path(value)

    @cached_property
    def _config(self) -> dict[str, Any]:
        # Who names all places in arguments need not wait for it to load.
        import tomllib

        path = self.given_config or DEFAULT_CONFIG
        try:
            return _checked(path, tomllib.loads(_read(path).decode()))
        except OSError as exc:
            # Without a configuration the service has its defaults, and so have we; one
            # that we may not read belongs to a service that we may not ask either.
            if self.given_config is None:
                return {}
            raise UsageError(f"cannot read {path}: {exc.strerror}") from exc
        except (ValueError, RecursionError) as exc:
            # tomllib lets RecursionError through: a thousand brackets.
            raise UsageError(
                f"{path}: {exc}", hint="xtraced --check-config says more; "
                "--store and --socket do without it",
            ) from exc


def _checked(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The configuration, if the two places in it are texts; the rest is the service's."""
    for section, key in (("store", "directory"), ("control", "socket")):
        table = config.get(section, {})
        given = table.get(key, "-") if isinstance(table, dict) else None
        if not isinstance(given, str) or not given:
            raise UsageError(f"{path}: {section}.{key} is not a path")
    return config


def parse_path(text: str) -> Path:
    """A path on the command line. Raises UsageError for an empty one, which would be the
    current directory: a shell's variable that is not set."""
    if not text:
        raise UsageError("an empty path", hint="is a variable of the shell not set?")
    return Path(text)


def _read(path: Path) -> bytes:
    """A whole configuration file. Raises OSError; UsageError for what has no end, or a far
    one."""
    # A FIFO's open would wait for a writer, and it is refused anyway.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UsageError(f"{path} is not a regular file", hint=_CONFIG_HINT)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_CONFIG + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_CONFIG:
        raise UsageError(f"{path} is larger than 1 MiB", hint=_CONFIG_HINT)
    return content
