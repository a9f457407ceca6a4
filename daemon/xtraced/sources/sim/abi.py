"""What a simulated hypervisor and its tools say to each other.

A Unix socket of type SOCK_SEQPACKET; one packet a message; a reply to each request, in
order. All numbers are little-endian and naturally aligned, so that a C program can use
plain structs.

    request   u32 op, u32 zero, u64 value, then for SET_CPU_MASK the bitmap: bit n of byte
              n / 8 is CPU n; no bytes at all mean every CPU
    reply     u32 op, u32 error (an errno of Linux; 0 is success), u64 value, then what the
              table says; after an error, perhaps a sentence for people instead. A
              descriptor travels as SCM_RIGHTS

    op             request's value      reply
    PHYSINFO       -                    struct physinfo
    BIND_VIRQ      -                    an eventfd: readable when VIRQ_TBUF was raised.
                                        EEXIST if somebody else has it. It is free again
                                        when this connection closes
    MAP            -                    a memfd; value: its length in bytes. Page 0 is
                                        struct shared; the mfns of t_info and the rings
                                        are page numbers in it. It grows at SET_SIZE only
    GET_INFO       -                    struct tbuf_info, the CPU mask's bitmap after it
    SET_CPU_MASK   -                    -
    SET_EVT_MASK   the mask             -
    SET_SIZE       pages per ring       -; once per boot: EBUSY (same size) or EINVAL after.
                                        Switches tracing on, as Xen does
    ENABLE         -                    -; EINVAL before SET_SIZE
    DISABLE        -                    -; Xen forgets losses not reported yet
    READ_CLOCK     -                    struct clock; value: the TSC
    TRUTH          1: start counting    value: bytes of the truth, the JSON after it unless
                   anew afterwards      it is longer than a packet; also in the truth file
    FAULT          fault << 32 | cpu    -; faults are FAULT_* below, from now on
    SHUTDOWN       -                    -; then the hypervisor ends
    WRONG          -                    JSON: what is wrong with a replayed file, as far as
                                        it was read (struct Wrong below)
"""

from __future__ import annotations

import enum
import json
import struct
from typing import Any, NamedTuple, Self

ABI_VERSION = 1
PACKET_BYTES = 65536
SHARED_MAGIC = 0x4D495358  # "XSIM"
VIRQ_TBUF = 4


class Op(enum.IntEnum):
    PHYSINFO = 1
    BIND_VIRQ = 2
    MAP = 3
    GET_INFO = 4
    SET_CPU_MASK = 5
    SET_EVT_MASK = 6
    SET_SIZE = 7
    ENABLE = 8
    DISABLE = 9
    READ_CLOCK = 10
    TRUTH = 11
    FAULT = 12
    SHUTDOWN = 13
    WRONG = 14


class Fault(enum.IntEnum):
    """What FAULT does. The first is done once, the others last."""

    BOGUS_PROD = 1
    """Write 0xfffffffc into the CPU's producer index."""
    NO_NOTIFY = 2
    """Never raise an event again, on any CPU."""
    STUCK = 3
    """Trace nothing more, on any CPU, without a word."""


HEADER = struct.Struct("<IIQ")

_PHYSINFO = struct.Struct("<IIIIQ16s16s64s16s64s8s40s16s")


class PhysInfo(NamedTuple):
    """struct physinfo: u32 abi, u32 nr_cpus (online), u32 max_cpu_id, u32 zero, u64 tsc_hz
    (0: unknown), then strings filled up with NULs, empty if unknown: name[16],
    version[16], capabilities[64], cpu_vendor[16], cpu_model[64], exit_family[8],
    boot_id[40], tsc_source[16]."""

    nr_cpus: int
    max_cpu_id: int
    tsc_hz: int
    name: str
    version: str
    capabilities: str
    cpu_vendor: str
    cpu_model: str
    exit_family: str
    boot_id: str
    tsc_source: str

    def encode(self) -> bytes:
        numbers, strings = self[:3], self[3:]
        return _PHYSINFO.pack(
            ABI_VERSION, numbers[0], numbers[1], 0, numbers[2],
            *(str(text).encode() for text in strings),
        )  # fmt: skip

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises struct.error if it is cut, ValueError for another version of this ABI."""
        abi, nr_cpus, max_cpu_id, _, tsc_hz, *strings = _PHYSINFO.unpack_from(data)
        if abi != ABI_VERSION:
            raise ValueError(f"speaks version {abi} of the protocol, not {ABI_VERSION}")
        return cls(
            nr_cpus, max_cpu_id, tsc_hz, *(text.rstrip(b"\0").decode() for text in strings)
        )


_TBUF_INFO = struct.Struct("<IIQIIII")


class TbufInfo(NamedTuple):
    """struct tbuf_info: u32 evt_mask, u32 size (bytes of t_info), u64 buffer_mfn (its first
    page; 0 before SET_SIZE), u32 enabled, u32 pages (per ring), u32 all_cpus (the CPU mask
    is every CPU), u32 zero. Xen's own get_info tells the first three."""

    evt_mask: int
    size: int
    buffer_mfn: int
    enabled: bool
    pages: int
    cpus: frozenset[int] | None
    """None for every CPU."""

    def encode(self) -> bytes:
        everyone = self.cpus is None
        return _TBUF_INFO.pack(
            self.evt_mask, self.size, self.buffer_mfn, self.enabled, self.pages, everyone, 0
        ) + encode_bitmap(self.cpus)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises struct.error if it is cut."""
        mask, size, mfn, enabled, pages, everyone, _ = _TBUF_INFO.unpack_from(data)
        cpus = None if everyone else decode_bitmap(data[_TBUF_INFO.size :])
        return cls(mask, size, mfn, bool(enabled), pages, cpus)


def encode_bitmap(cpus: frozenset[int] | None) -> bytes:
    """A CPU mask; no bytes for None, every CPU. No CPU at all is one zero byte."""
    if cpus is None:
        return b""
    bits = sum(1 << cpu for cpu in cpus)
    return bits.to_bytes(max(1, (bits.bit_length() + 7) // 8), "little")


def decode_bitmap(data: bytes) -> frozenset[int] | None:
    if not data:
        return None
    bits = int.from_bytes(data, "little")
    return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)


class Wrong(NamedTuple):
    """What a replay cannot show by its records, as JSON with these keys."""

    problems: int
    """How many places of the file are damaged."""
    first: list[dict[str, Any]]
    """Of the first of them `file`, `offset`, `reason` and `missing_bytes` (null: unknown)."""
    lost: dict[str, int | None]
    """Records that the file says were lost before they got into it, by cause, lost records
    in the stream aside; null: some that nobody could count. Empty before its end."""

    def encode(self) -> bytes:
        """Fewer of the first, if they do not fit into a packet."""
        first = list(self.first)
        room = PACKET_BYTES - HEADER.size
        while len(data := json.dumps(self._replace(first=first)._asdict()).encode()) > room:
            first.pop()
        return data

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises ValueError or TypeError for anything else."""
        return cls(**json.loads(data))


CLOCK = struct.Struct("<QQQ")
"""struct clock: u64 tsc, u64 realtime and u64 monotonic in nanoseconds."""

_SHARED = struct.Struct("<IIII QQQ")
SHARED_BYTES = _SHARED.size
_READ_TRIES = 1000


class Shared(NamedTuple):
    """struct shared, at the start of page 0: u32 magic, u32 abi, u32 sequence (odd while it
    is written), u32 finished (1: no record will ever come again), u64 tsc, u64 monotonic
    (one moment on both clocks, in cycles and nanoseconds), u64 tsc_hz (0: this hypervisor's
    TSC does not run with real time)."""

    sequence: int
    finished: bool
    tsc: int
    monotonic: int
    tsc_hz: int

    def tsc_at(self, monotonic: int) -> int:
        """The TSC at a moment of CLOCK_MONOTONIC."""
        return self.tsc + (monotonic - self.monotonic) * self.tsc_hz // 10**9

    def write(self, page: memoryview) -> None:
        """Store it so that no reader takes half of it for the whole."""
        sequence = page[8:12].cast("I")
        sequence[0] = self.sequence | 1
        _SHARED.pack_into(
            page, 0, SHARED_MAGIC, ABI_VERSION, self.sequence | 1, self.finished,
            self.tsc, self.monotonic, self.tsc_hz,
        )  # fmt: skip
        sequence[0] = (self.sequence | 1) + 1 & 0xFFFFFFFF

    @classmethod
    def read(cls, page: memoryview) -> Self:
        """Read it whole; tries again while it is being written, but not for ever, since a
        hypervisor may be killed while it writes."""
        for _ in range(_READ_TRIES):
            _, _, sequence, finished, tsc, monotonic, hz = _SHARED.unpack_from(page)
            if sequence & 1 == 0 and page[8:12].cast("I")[0] == sequence:
                break
        return cls(sequence, bool(finished), tsc, monotonic, hz)
