"""Where the service listens and where it keeps its segments: given, configured or default."""

from __future__ import annotations

import argparse
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any

from tracelib.errors import UsageError

DEFAULT_STORE = Path("/var/lib/xtraced")
DEFAULT_SOCKET = Path("/run/xtraced/control.sock")
DEFAULT_CONFIG = Path("/etc/xtraced/xtraced.toml")


class Options(argparse.Namespace):
    """The arguments of one run. A command has those that it added itself, and these."""

    command: str
    given_store: Path | None
    given_socket: Path | None
    given_config: Path | None

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
        path = self.given_config or DEFAULT_CONFIG
        try:
            with path.open("rb") as file:
                return _checked(path, tomllib.load(file))
        except OSError as exc:
            # Without a configuration the service has its defaults, and so have we; one
            # that we may not read belongs to a service that we may not ask either.
            if self.given_config is None:
                return {}
            raise UsageError(f"cannot read {path}: {exc.strerror}") from exc
        except ValueError as exc:
            raise UsageError(
                f"{path}: {exc}", hint="xtraced --check-config says more; "
                "--store and --socket do without it",
            ) from exc


def _checked(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The configuration, if the two places in it are texts; the rest is the service's."""
    for section, key in (("store", "directory"), ("control", "socket")):
        table = config.get(section, {})
        if not isinstance(table, dict) or not isinstance(table.get(key, ""), str):
            raise UsageError(f"{path}: {section}.{key} is not a path")
    return config
