"""The small blocks beside the records: clock anchors, the state preamble, stated losses.

FORMAT.md has a table for each.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracelib import packing
from tracelib.chunks import ClockAnchor
from tracelib.errors import DamageError
from tracelib.losses import Cause, Loss
from tracelib.ring.runstates import RunstateSnapshot, VcpuState
from tracelib.segment.block import NO_CPU
from tracelib.segment.fields import Fields
from tracelib.units import CpuId, DomId, Nanoseconds, Tsc, VcpuId


def encode_anchor(anchor: ClockAnchor, why: str) -> bytes:
    """The payload of an anchor block; `why` is "start", "periodic", "end" or the like."""
    return packing.pack(
        {
            "tsc": anchor.tsc, "realtime": anchor.realtime, "monotonic": anchor.monotonic,
            "why": why,
        }
    )


def decode_anchor(payload: bytes | memoryview) -> tuple[ClockAnchor, str]:
    """Raises DamageError."""
    found = Fields.unpack(payload, "clock anchor")
    anchor = ClockAnchor(
        Tsc(found.integer("tsc")),
        Nanoseconds(found.integer("realtime")),
        Nanoseconds(found.integer("monotonic")),
    )
    return anchor, found.optional("why", found.text) or ""


def encode_state(state: RunstateSnapshot) -> bytes:
    """The payload of a state block: who runs where, and every known vCPU's runstate."""
    return packing.pack(
        {
            "cpus": [(cpu, dom, vcpu) for cpu, (dom, vcpu) in sorted(state.cpus.items())],
            "vcpus": [
                (v.dom, v.vcpu, v.state, NO_CPU if v.cpu is None else v.cpu, v.tsc)
                for v in state.vcpus
            ],
            "overflow": state.overflow,
        }
    )


def decode_state(payload: bytes | memoryview) -> RunstateSnapshot:
    """Raises DamageError."""
    found = Fields.unpack(payload, "state preamble")
    return RunstateSnapshot(
        cpus={
            CpuId(cpu): (DomId(dom), VcpuId(vcpu)) for cpu, dom, vcpu in found.rows("cpus", 3)
        },
        vcpus=tuple(
            VcpuState(
                DomId(dom), VcpuId(vcpu), state, None if cpu == NO_CPU else CpuId(cpu), Tsc(tsc)
            )
            for dom, vcpu, state, cpu, tsc in found.rows("vcpus", 5)
        ),
        overflow=found.integer("overflow"),
    )


def encode_losses(losses: Sequence[Loss]) -> bytes:
    """The payload of a loss block. What is not known is null, never 0."""
    return packing.pack({"losses": [_loss_map(loss) for loss in losses]})


def _loss_map(loss: Loss) -> dict[str, object]:
    return {
        "cause": loss.cause.value, "cpu": loss.cpu, "records": loss.records, "bytes": loss.bytes,
        "first_tsc": loss.first_tsc, "last_tsc": loss.last_tsc, "at": loss.at,
        "detail": loss.detail,
    }


def decode_losses(payload: bytes | memoryview) -> list[Loss]:
    """Raises DamageError."""
    return [_loss(item) for item in Fields.unpack(payload, "loss block").maps("losses")]


def _loss(item: Fields) -> Loss:
    first, last = item.optional("first_tsc", item.integer), item.optional("last_tsc", item.integer)
    at = item.optional("at", item.integer)
    return Loss(
        cause=_cause(item.text("cause")),
        cpu=CpuId(item.integer("cpu")),
        records=item.optional("records", item.integer),
        bytes=item.optional("bytes", item.integer),
        first_tsc=None if first is None else Tsc(first),
        last_tsc=None if last is None else Tsc(last),
        at=None if at is None else Nanoseconds(at),
        detail=item.optional("detail", item.text) or "",
    )


def _cause(name: str) -> Cause:
    try:
        return Cause(name)
    except ValueError as exc:
        raise DamageError(f"loss block: unknown cause {name!r}") from exc
