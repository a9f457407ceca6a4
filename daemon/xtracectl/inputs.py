"""The INPUT arguments of the reading commands."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tracelib.errors import UsageError, XtraceError
from tracelib.kvmtrace.layout import OPTION, Kind
from tracelib.kvmtrace.names import members
from tracelib.units import PROCESSES, DomId, parse_hz
from xtracectl import output
from xtracectl.exits import Exit, exit_code
from xtracectl.places import Options
from xtracectl.stopping import Stopped

if TYPE_CHECKING:
    from tracelib.chunks import TraceInfo

# Before anything imports numpy: threads for linear algebra, which nobody here does, would
# cost some hundred megabytes of address space and a tenth of a second.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def add_inputs(parser: argparse.ArgumentParser, *, kvmtrace: bool = False) -> None:
    """INPUT...; with `kvmtrace` they may be kvmtrace sets, and there is --kvmtrace-layout."""
    more = "a kvmtrace set (NAME.kvmtrace for all its files, or one of them), " if kvmtrace else ""
    parser.add_argument(
        "inputs", nargs="*", metavar="INPUT",
        help=f"a store's directory, a segment, an xentrace file, {more}or - for standard input "
        "(default: the service's store)",
    )
    if kvmtrace:
        parser.add_argument(
            OPTION, metavar="LAYOUT", type=_layout,
            help="how records lie in a kvmtrace set, where its files do not tell: halves (Linux "
            "2.6.26) or packed (2.6.27), with times in cycles; timestamp (2.6.28 to 2.6.30), in "
            "nanoseconds",
        )


def add_clock(parser: argparse.ArgumentParser) -> None:
    """--cpu-hz."""
    parser.add_argument(
        "--cpu-hz", metavar="RATE", type=_rate,
        help="cycles per second, such as 2.4G or 2100M: for xentrace files, which do not say",
    )


def _layout(text: str) -> Kind:
    try:
        return Kind(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is no layout of kvmtrace", hint=f"one of {', '.join(Kind)}"
        ) from None


def refuse_kvmtrace(path: str, what: str) -> None:
    """Raises UsageError for a kvmtrace set; `what` it cannot be used for."""
    if members(path):
        raise UsageError(
            f"{path}: {what} takes Xen's traces, not KVM's",
            hint="a kvmtrace set is for info, dump, summary and verify",
        )


def check_domain(info: TraceInfo, domain: DomId | None) -> None:
    """Raises UsageError if what --domain names cannot be in such a trace."""
    if domain is None:
        return
    if info.kind == "kvmtrace" and domain < PROCESSES:
        raise UsageError(
            f"{info.name}: KVM's guests are processes, not domains",
            hint="write --domain pid4711, with the number of the process",
        )
    if info.kind != "kvmtrace" and domain >= PROCESSES:
        raise UsageError(
            f"{info.name}: Xen's guests are domains, not processes", hint="write --domain 3"
        )


def add_vendor(parser: argparse.ArgumentParser) -> None:
    """--vendor: `vendor` is "vmx", "svm", "ppc" or None."""
    parser.add_argument(
        "--vendor", metavar="NAME", type=_vendor,
        help="whose exit reasons those are, for traces that do not say: intel (vmx) or amd (svm); "
        "powerpc (ppc) for kvmtrace",
    )


def add_xen_version(parser: argparse.ArgumentParser) -> None:
    """--xen-version: `xen_version` is a pair of numbers, or None."""
    parser.add_argument(
        "--xen-version", metavar="X.Y", type=_xen_version,
        help="which Xen wrote the records, such as 4.17, for traces that do not say: some "
        "layouts have changed",
    )


def _xen_version(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})(\..*)?", text)
    if match is None:
        raise UsageError(f"{text!r} is no version of Xen", hint="write it like 4.17")
    return int(match[1]), int(match[2])


def _vendor(text: str) -> str:
    from tracelib.analysis.families import FAMILIES

    family = FAMILIES.get(text.lower())
    if family is None:
        raise UsageError(f"{text!r} is no vendor", hint="intel (vmx), amd (svm) or powerpc (ppc)")
    return family


_RATES = 10**6, 10**12
"""Hertz; those that the service takes. Times in nanoseconds stay within 64 bits."""


def _rate(text: str) -> int:
    rate = parse_hz(text)
    if not _RATES[0] <= rate <= _RATES[1]:
        raise UsageError(
            f"{text!r} is no clock rate: one is from 1M to 1000G", hint="write it like 2.4G"
        )
    return rate


def paths(options: Options) -> list[str]:
    """What to read."""
    given: list[str] = options.inputs
    return given or [str(options.store)]


def warn(message: str) -> None:
    """Something the user should know, beside the data."""
    output.complain(message)


class Tally:
    """The exit code of a command over several inputs: one that cannot be read at all is
    reported and the others still are."""

    def __init__(self, several: bool) -> None:
        self._several = several
        self.code: int = Exit.OK

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Run one input's part; an error ends only that, if there are others."""
        try:
            yield
        except XtraceError as error:
            if not self._several:
                raise
            output.complain(error.message, error.hint)
            self.note(exit_code(error))

    def note(self, code: int) -> None:
        """Remember the first code that is not 0."""
        self.code = self.code or code

    def stop(self, stopped: Stopped) -> None:
        """A signal ended the run early, which says more than what was found until then."""
        self.code = 128 + stopped.signal
