"""The control socket under attack, and the collection beside it."""

from __future__ import annotations

import os
import random
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.support.account import truths
from tests.support.rig import Rig, descriptors, memory
from tests.support.service import ServiceProcess
from tracelib import packing
from tracelib.control.connection import Connection, Role
from tracelib.store.directory import list_segments

FRAMES = int(os.environ.get("XTRACED_FRAMES", "100000"))
IDLE = 1000
MIB = 1 << 20


def hello() -> bytes:
    connection = Connection(Role.CLIENT, "attacker")
    return connection.send(connection.hello())


def frame(value: object) -> bytes:
    data = packing.pack(value)
    return struct.pack("<I", len(data)) + data


class Attacker:
    """Sends what no client should; whatever the service answers, or closes, is fine."""

    def __init__(self, path: Path) -> None:
        self.random = random.Random(7)
        self.frames = 0
        self._path = path
        self._kinds: list[Callable[[socket.socket], None]] = [
            self.rubbish, self.giants, self.halves, self.wrong_values, self.bad_requests,
        ]  # fmt: skip

    def connect(self) -> socket.socket:
        for _ in range(1000):
            peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            peer.settimeout(5.0)
            try:
                peer.connect(str(self._path))
            except BlockingIOError:
                peer.close()
                time.sleep(0.001)
            else:
                return peer
        raise AssertionError("the service lets nobody in any more")

    def attack(self) -> None:
        """One connection, of some kind, with some frames."""
        with self.connect() as peer, suppress(OSError):
            self.random.choice(self._kinds)(peer)

    def _send(self, peer: socket.socket, data: bytes) -> None:
        self.frames += 1
        peer.sendall(data)

    def rubbish(self, peer: socket.socket) -> None:
        if self.random.random() < 0.5:
            peer.sendall(hello())
        self._send(peer, self.random.randbytes(self.random.randrange(1, 300)))

    def giants(self, peer: socket.socket) -> None:
        self._send(peer, struct.pack("<I", self.random.randrange(1 << 13, 1 << 32)) + bytes(4096))

    def halves(self, peer: socket.socket) -> None:
        whole = frame({"id": 1, "command": "status", "args": {}})
        peer.sendall(hello())
        self._send(peer, whole[: self.random.randrange(1, len(whole))])

    def wrong_values(self, peer: socket.socket) -> None:
        values = (None, 0, [], {}, "x", {"id": -1}, {"id": 1, "command": 5, "args": {}})
        # The first one ends the connection: more would be sent to nobody.
        peer.sendall(hello())
        self._send(peer, frame(self.random.choice(values)))
        peer.recv(4096)

    def bad_requests(self, peer: socket.socket) -> None:
        peer.sendall(hello())
        for number in range(20):
            args = {"interval": self.random.choice([0, -1, "x", 1 << 62])}
            command = self.random.choice(["subscribe", "x" * 200, "mask", "\\0"])
            self._send(peer, frame({"id": number, "command": command, "args": args}))
            peer.recv(4096)


def under_attack(service: ServiceProcess) -> int:
    """All of it at once; the frames that were sent."""
    attacker = Attacker(service.socket)
    with ExitStack() as held:
        # Those that only sit there; those that ask for a stream and never read; slow ones.
        idle = [held.enter_context(attacker.connect()) for _ in range(IDLE)]
        deaf = [held.enter_context(attacker.connect()) for _ in range(20)]
        subscribe = frame({"id": 1, "command": "subscribe", "args": {"interval": 100_000_000}})
        for peer in deaf:
            with suppress(OSError):
                peer.sendall(hello() + subscribe)
        slow = [(held.enter_context(attacker.connect()), iter(hello() * 9)) for _ in range(20)]
        while attacker.frames < FRAMES:
            attacker.attack()
            for peer, rest in slow:
                with suppress(OSError, StopIteration):
                    peer.sendall(bytes([next(rest)]))
        assert len(idle) == IDLE
    return attacker.frames


@pytest.mark.slow
def test_the_socket_under_attack(tmp_path):
    """100,000 bad frames, 1,000 idle connections, streams that nobody reads, bytes one by one:
    it stays up, answers who asks properly, grows nothing, and not one record more is lost."""
    with Rig(tmp_path) as rig:
        rig.boot(rate=2_000_000, cpus=2)
        service = rig.start()
        service.wait_status(lambda status: status["records"] > 50_000)
        before, files = memory(service.pid), len(descriptors(service.pid))
        started = time.monotonic()
        frames = under_attack(service)
        took = time.monotonic() - started
        status = service.wait_status(lambda status: status["healthy"])
        after = memory(service.pid)
        service.wait_status(lambda _: len(descriptors(service.pid)) <= files + 1)
        service.ask("pause")
        assert service.stop() == 0
        account = rig.balance()
        lost = truths(rig.hypervisor.truth(), "dropped").total()
        print(
            f"\n  {frames:,} frames and {IDLE:,} idle connections in {took:.0f} s; "
            f"{account.events.total():,} records, {lost} lost; RSS {before / MIB:.1f} to "
            f"{after / MIB:.1f} MiB"
        )
        assert frames >= FRAMES
        assert lost == 0
        assert status["lost"] == {}
        assert after - before < 8 * MIB


TRICKS = {
    "store is a file": lambda store: store.write_text("mine"),
    "lock is a symlink": lambda store: (store.mkdir(), (store / ".lock").symlink_to("/etc/passwd")),
    "ledger is a symlink": lambda store: (
        store.mkdir(), (store / ".ledger.new").symlink_to(store.parent / "victim"),
    ),
    "next segment is a directory": lambda store: (
        store.mkdir(), (store / "00000007-20261130T220000Z.xtr").mkdir(),
    ),
    "segment is a symlink": lambda store: (
        store.mkdir(),
        (store / "00000001-20261130T220000Z.xtr.open").symlink_to(store.parent / "victim"),
    ),
    "segment is a fifo": lambda store: (
        store.mkdir(), os.mkfifo(store / "00000001-20261130T220000Z.xtr.open"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("trick", TRICKS)
def test_tricks_in_the_store(tmp_path, trick):
    """Nothing outside is touched; the service starts beside the trick, or says why not."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    with Rig(tmp_path) as rig:
        TRICKS[trick](rig.store)
        rig.boot(rate=1_000_000, cpus=1)
        service = rig.spawn()
        if trick in ("store is a file", "lock is a symlink"):
            assert service.process.wait(60) not in (0, None)
            assert "Traceback" not in service.log()
        else:
            service.wait_ready()
            service.wait_status(lambda status: status["store"]["open_bytes"] > 4096)
            assert service.stop() == 0
            assert [entry for entry in list_segments(rig.store) if entry.sealed]
    assert victim.read_text() == "precious"
