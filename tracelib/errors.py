"""Every error the product raises on purpose, split by who is at fault.

    XtraceError
    ├── UsageError          the caller: a bad argument, mask, CPU list, setting
    │   └── ConfigError         several of them at once, each with its place
    ├── DataError           the data: a file or frame that is not what it should be
    │   ├── FormatError         not this format at all, or a version we cannot read
    │   ├── DamageError         the right format, damaged at an offset
    │   └── ProtocolError       a control-socket peer that breaks the protocol
    └── WorldError          the world: disks, sockets, hypervisors
        ├── StoreError          the file system refused
        ├── SourceError         the hypervisor, its libraries or its rings refused
        ├── LockedError         somebody else already does this
        ├── OutputError         standard output does not take what we print
        └── ServiceError        the service cannot be asked, or refused a request
            ├── NotRunningError     nobody listens on the socket
            └── RefusedError        the service answered: no

Anything else that reaches a caller is a bug in xtraced.
"""

from __future__ import annotations

from collections.abc import Sequence


class XtraceError(Exception):
    """Base of all errors raised on purpose. `hint` says what to do, or is None."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class UsageError(XtraceError):
    """The caller asked for something impossible."""


class ConfigError(UsageError):
    """One or more bad settings; `problems` holds a line for each, with its place."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class DataError(XtraceError):
    """Bytes that are not what they should be: which file, at which offset, and why."""

    def __init__(
        self, reason: str, *, file: str | None = None, offset: int | None = None,
        hint: str | None = None,
    ) -> None:
        place = "" if file is None else f"{file}: "
        place += "" if offset is None else f"offset {offset}: "
        super().__init__(place + reason, hint=hint)
        self.reason = reason
        self.file = file
        self.offset = offset


class FormatError(DataError):
    """Not this format at all, or a version of it that this release cannot read."""


class DamageError(DataError):
    """The right format, but damaged at `offset`."""


class ProtocolError(DataError):
    """A peer on the control socket broke the protocol; the connection is over."""


class WorldError(XtraceError):
    """Something outside refused. `errno` is the kernel's or hypervisor's, if there was one."""

    def __init__(self, message: str, *, hint: str | None = None, errno: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.errno = errno


class StoreError(WorldError):
    """The file system refused an operation on the store."""


class SourceError(WorldError):
    """The hypervisor, its libraries or its rings refused."""


class LockedError(WorldError):
    """Somebody else holds what only one may hold; the message names the holder's pid."""


class OutputError(WorldError):
    """Standard output is closed, full or failing. (A reader that left is BrokenPipeError.)"""


class ServiceError(WorldError):
    """The service cannot be asked, or something went wrong while asking."""


class NotRunningError(ServiceError):
    """Nobody listens on the control socket."""


class RefusedError(ServiceError):
    """The service answered a request with an error; `code` is its machine-readable name."""

    def __init__(self, message: str, *, code: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code
