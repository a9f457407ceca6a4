"""Puts the service together from its settings, runs it, and takes it apart again.

The order is that of what each needs: the store and its lock before the hypervisor, so that a
second service touches nothing; the hypervisor before the socket, so that whoever finds the
socket finds a service that collects.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import structlog
import trio

from tracelib.errors import SourceError, XtraceError
from tracelib.store import fsops, recover
from xtraced import handover, logs
from xtraced.checks import warnings
from xtraced.clock import SystemClock
from xtraced.commands import Commands
from xtraced.config import Reloaded
from xtraced.control import Policy, serve
from xtraced.controlsocket import bind_control_socket
from xtraced.handover import StagingMemory
from xtraced.incidents import Predecessor
from xtraced.lock import hold_lock
from xtraced.notify import Notifier, watchdog_interval
from xtraced.segments import GROUP
from xtraced.service import Reload, Service
from xtraced.settings import Settings
from xtraced.sources import Source
from xtraced.sources.select import make_source

log = structlog.get_logger("app")


def run(settings: Settings, reload: Reload | None = None) -> int:
    """Run the service in the foreground until it is told to stop.

    0 if all that was drained is stored, 1 if not. Raises XtraceError if it cannot start, or
    cannot go on; whatever it held is released by then.
    """
    _favour_the_drain()
    output = logs.configure(settings.log.level, settings.log.format)
    for warning in warnings(settings):
        log.warning("setting", warning=warning)
    store = settings.store.directory
    with ExitStack() as held:
        held.callback(output.flush)
        fsops.make_directory(store, group=fsops.find_group(GROUP))
        held.enter_context(hold_lock(store / ".lock", what=f"the store {store}"))
        notifier = Notifier.from_environment()
        held.callback(notifier.close)
        kept = handover.inherited()
        predecessor = _recover(store, handover.Legacy.read(kept))
        source = make_source(settings)
        held.enter_context(_opened(source, leave_enabled=settings.collect.leave_enabled))
        memory = StagingMemory.of(settings, handover.keep(kept, notifier))
        reload_all = reload and _with_log_level(reload, output)
        complete = _run_trio(settings, source, notifier, memory, reload_all, predecessor)
    return 0 if complete else 1


def _recover(store: Path, legacy: handover.Legacy) -> Predecessor:
    """Bring what a service that died left into order, and into the store."""
    left_over = recover.recover(
        store, legacy.staged, legacy.metadata, group=fsops.find_group(GROUP)
    )
    for recovered in left_over:
        log.warning("segment_recovered", **recovered._asdict())
    return Predecessor(bool(left_over), legacy.damaged)


def _with_log_level(reload: Reload, output: logs.Logs) -> Reload:
    """A reload that brings the log's level into force too."""

    def reload_all(current: Settings) -> Reloaded:
        reloaded = reload(current)
        output.level = reloaded.settings.log.level
        return reloaded

    return reload_all


def _favour_the_drain() -> None:
    """Shorten what can keep the drain loop from running: half a ring may fill in 2 ms."""
    # A writer's thread that runs Python keeps the interpreter for 5 ms by default.
    sys.setswitchinterval(0.0002)
    # A full collection walks everything that was imported, and takes longer than that.
    gc.collect()
    gc.freeze()


@contextmanager
def _opened(source: Source, *, leave_enabled: bool) -> Iterator[None]:
    """A source that is closed in the end, and not left tracing by a service that failed."""
    source.open()
    try:
        yield
    except BaseException:
        if not leave_enabled:
            _disable_quietly(source)
        raise
    finally:
        source.close()


def _disable_quietly(source: Source) -> None:
    """On the way out with an error; a refusal now must not hide it."""
    try:
        source.disable()
    except SourceError as exc:
        log.error("tracing_left_on", error=str(exc))


def _run_trio(
    settings: Settings, source: Source, notifier: Notifier, memory: StagingMemory,
    reload: Reload | None, predecessor: Predecessor,
) -> bool:
    """Raises the first XtraceError out of the exception groups that nurseries make."""
    try:
        return trio.run(_main, settings, source, notifier, memory, reload, predecessor)
    except BaseExceptionGroup as group:
        expected, rest = group.split(XtraceError)
        if rest is not None or expected is None:
            raise
        raise _first(expected) from group


def _first(group: BaseExceptionGroup[XtraceError]) -> XtraceError:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


async def _main(
    settings: Settings, source: Source, notifier: Notifier, memory: StagingMemory,
    reload: Reload | None, predecessor: Predecessor,
) -> bool:
    with ExitStack() as held:
        group = fsops.find_group(GROUP)
        for_all = settings.control.status_for == "all"
        listener = bind_control_socket(settings.control.socket, group=group, for_all=for_all)
        held.callback(listener.close)
        service = Service(
            settings, source, clock=SystemClock(), notifier=notifier,
            watchdog=watchdog_interval(), reload=reload, predecessor=predecessor,
            memory=memory,
        )
        policy = Policy(uid=os.geteuid(), group=group, status_for_all=for_all)

        def tasks(service: Service) -> Sequence[Callable[[], Awaitable[None]]]:
            commands = Commands(service)
            return [lambda: serve(listener, commands, policy)]

        return await service.run(tasks)
