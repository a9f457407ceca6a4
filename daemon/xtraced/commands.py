"""The commands of the control socket, carried out by the service.

tracelib.control.commands says what each takes and gives; who may use it is decided before.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from typing import Any

import trio

from tracelib.control.commands import DEFAULT_INTERVAL
from tracelib.cpulist import parse_cpu_list
from xtraced.controlsocket import Peer
from xtraced.service import NANO, Service

Args = dict[str, Any]
Answer = dict[str, Any] | AsyncIterator[dict[str, Any]]


class Commands:
    """The control server's handler: a method a command."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._methods: dict[str, Callable[[Args], Awaitable[Answer]]] = {
            "status": self._status,
            "subscribe": self._subscribe,
            "rotate": self._rotate,
            "flush": self._flush,
            "pause": self._pause,
            "resume": self._resume,
            "mask": self._mask,
            "snapshot": self._snapshot,
            "stop": self._stop,
            "reload": self._reload,
        }

    async def command(self, name: str, args: Args, peer: Peer) -> Answer:
        """Carry out a known command. Raises XtraceError."""
        del peer
        return await self._methods[name](args)

    async def _status(self, args: Args) -> Answer:
        del args
        return asdict(self._service.status())

    async def _subscribe(self, args: Args) -> Answer:
        return self._statuses(args.get("interval", DEFAULT_INTERVAL) / NANO)

    async def _statuses(self, interval: float) -> AsyncIterator[dict[str, Any]]:
        while True:
            yield asdict(self._service.status())
            await trio.sleep(interval)

    async def _rotate(self, args: Args) -> Answer:
        del args
        sealed = await self._service.rotate()
        if sealed is None:
            return {"sealed": None, "records": 0, "bytes": 0}
        return {"sealed": sealed.path, "records": sealed.records, "bytes": sealed.bytes}

    async def _flush(self, args: Args) -> Answer:
        del args
        # Before the drain: what was written by then is in the rings, and so taken now.
        anchor = self._service.anchor()
        records, size = await self._service.flush()
        return {
            "records": records, "bytes": size, "tsc": None if anchor is None else anchor.tsc,
            "state": self._service.status().state,
        }

    async def _pause(self, args: Args) -> Answer:
        del args
        self._service.pause()
        return {"state": self._service.status().state}

    async def _resume(self, args: Args) -> Answer:
        del args
        self._service.resume()
        return {"state": self._service.status().state}

    async def _mask(self, args: Args) -> Answer:
        cpus = parse_cpu_list(args["cpus"]) if "cpus" in args else "same"
        if not args:
            return asdict(self._service.mask_status())
        return asdict(self._service.set_masks(args.get("events"), cpus))

    async def _snapshot(self, args: Args) -> Answer:
        return asdict(await self._service.snapshot(args.get("last")))

    async def _stop(self, args: Args) -> Answer:
        del args
        self._service.stop("command")
        return {"pid": os.getpid()}

    async def _reload(self, args: Args) -> Answer:
        del args
        reloaded = self._service.reload()
        return {"changed": list(reloaded.changed), "restart": list(reloaded.need_restart)}
