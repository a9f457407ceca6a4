"""Programs that write kvmtrace sets: in all three layouts, in both byte orders.

Written from the kernel's struct and its writer (include/linux/kvm.h and virt/kvm/kvm_trace.c
of Linux 2.6.26, 2.6.27 and 2.6.28), not from tracelib.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

MAGIC = 0x12345678

VMENTRY = 0x10001
VMEXIT = 0x10002
HANDLER = 0x20000
INTR = HANDLER + 0x0E
IO_READ = HANDLER + 0x05
CR_WRITE = HANDLER + 0x08
PPC_INSTR = HANDLER + 0x19

KINDS = ("halves", "packed", "timestamp")
ORDERS = ("<", ">")


@dataclass(frozen=True)
class Rec:
    """What the kernel has in hand when it writes a record; `time` only where the marker is
    kvm_trace_entryexit."""

    event: int
    words: tuple[int, ...] = ()
    time: int | None = None
    pid: int = 4711
    vcpu: int = 0


@dataclass(frozen=True)
class Style:
    """A kernel of that time on a machine of a byte order ("<" or ">")."""

    kind: str
    order: str = "<"

    def head(self, rec: Rec) -> int:
        """Up to 2.6.27 bit fields: event:28, extra_u32:3, cycle_in:1, in the compiler's order;
        from 2.6.28 on bits 0-27, 28-30 and 31 of a number."""
        timed = rec.time is not None
        if self.kind != "timestamp" and self.order == ">":
            return rec.event << 4 | len(rec.words) << 1 | timed
        return rec.event | len(rec.words) << 28 | timed << 31

    def record(self, rec: Rec) -> bytes:
        """One record's bytes: cycle_lo and cycle_hi in 2.6.26, later a u64."""
        data = struct.pack(f"{self.order}3I", self.head(rec), rec.pid, rec.vcpu)
        if rec.time is not None and self.kind == "halves":
            data += struct.pack(f"{self.order}2I", rec.time & 0xFFFFFFFF, rec.time >> 32)
        elif rec.time is not None:
            data += struct.pack(f"{self.order}Q", rec.time)
        return data + struct.pack(f"{self.order}{len(rec.words)}I", *rec.words)

    def file(self, recs: Iterable[Rec]) -> bytes:
        """A CPU's file: the magic in front since 2.6.27."""
        magic = b"" if self.kind == "halves" else struct.pack(f"{self.order}I", MAGIC)
        return magic + b"".join(self.record(rec) for rec in recs)


def write_set(
    folder: Path, style: Style, cpus: Mapping[int, Iterable[Rec]], name: str = "guest"
) -> Path:
    """A set; returns what to call it by: FOLDER/NAME.kvmtrace, which is no file."""
    for cpu, recs in cpus.items():
        (folder / f"{name}.kvmtrace.{cpu}").write_bytes(style.file(recs))
    return folder / f"{name}.kvmtrace"


def entry(time: int, *, pid: int = 4711, vcpu: int = 0) -> Rec:
    """kvm_x86_ops->run is about to be called."""
    return Rec(VMENTRY, (), time, pid, vcpu)


def leave(time: int, reason: int, rip: int = 0xFFFFFFFF80201234, *, pid: int = 4711,
          vcpu: int = 0) -> Rec:  # fmt: skip
    """A VM exit: reason and, the low word first on every machine, the guest's rip."""
    return Rec(VMEXIT, (reason, rip & 0xFFFFFFFF, rip >> 32), time, pid, vcpu)


def handler(number: int, *words: int, pid: int = 4711, vcpu: int = 0) -> Rec:
    """What a handler logs: without a time."""
    return Rec(HANDLER + number, words, None, pid, vcpu)


def guest(first: int, count: int, *, pid: int = 4711, vcpu: int = 0, reason: int = 30,
          cost: int = 1000, ran: int = 9000) -> list[Rec]:  # fmt: skip
    """`count` exits of one vCPU, each with what it was about (a read of port 0x60) and the
    entry that ends it `cost` later; before each the guest ran for `ran`."""
    recs = []
    for turn in range(count):
        now = first + turn * (cost + ran)
        recs += [
            leave(now, reason, pid=pid, vcpu=vcpu),
            handler(0x05, 0x60, 1, pid=pid, vcpu=vcpu),
            entry(now + cost, pid=pid, vcpu=vcpu),
        ]
    return recs
