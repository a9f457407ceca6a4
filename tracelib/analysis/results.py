"""What the sections of a summary have in common: owners, and spreads of durations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tracelib.analysis import codes
from tracelib.analysis.analyze import NOBODY, Analysis
from tracelib.analysis.histograms import bucket_middle
from tracelib.analysis.vcpus import Vcpu
from tracelib.events.values import domain_name, vcpu_name
from tracelib.units import IDLE_DOMAIN, CpuId, DomId, VcpuId

By = Literal["domain", "vcpu", "cpu"]

PERCENTILE_ERROR = 1 / 64
"""Percentiles are the middle of a histogram bucket: so far, at most, are they from a value
that occurred, as a share of it."""

@dataclass(slots=True)
class Spread:
    """How durations are spread, in cycles. Number, sum and maximum are exact."""

    number: int = 0
    sum: int = 0
    most: int = 0
    buckets: Counter[int] = field(default_factory=Counter)

    @property
    def mean(self) -> int:
        """Rounded to the nearest cycle."""
        return (self.sum + self.number // 2) // self.number if self.number else 0

    def percentile(self, percent: int) -> int:
        """The least duration that is not exceeded by so many percent of them, within
        PERCENTILE_ERROR; 0 if there are none."""
        wanted = -(-self.buckets.total() * percent // 100)
        for bucket in sorted(self.buckets):
            wanted -= self.buckets[bucket]
            if wanted <= 0:
                return min(bucket_middle(bucket), self.most)
        return 0

    def add(self, other: Spread) -> None:
        self.number += other.number
        self.sum += other.sum
        self.most = max(self.most, other.most)
        self.buckets.update(other.buckets)


class Owner(NamedTuple):
    """Whose numbers a row has. None is all of them, or unknown."""

    domain: DomId | None = None
    vcpu: VcpuId | None = None
    cpu: CpuId | None = None
    """Set where the rows are by CPU, and for whoever ran there unknown."""

    @property
    def name(self) -> str:
        if self.domain is None:
            return "d?v?" if self.cpu is None else f"cpu{self.cpu}"
        if self.vcpu is None:
            return domain_name(self.domain)
        return vcpu_name(self.domain, self.vcpu)

    @property
    def order(self) -> tuple[int, int, int]:
        """To sort by; what is unknown comes last."""
        domain, vcpu, cpu = self
        return (
            1 << 16 if domain is None else domain, vcpu or 0, -1 if cpu is None else cpu
        )


@dataclass(frozen=True, slots=True)
class Absent:
    """A section that this kind of trace cannot have."""

    title: str
    reason: str


def split(who: int) -> tuple[DomId, VcpuId]:
    """domain << 16 | number."""
    return DomId(who >> 16), VcpuId(who & 0xFFFF)


def owner_of(vcpu: Vcpu, by: By) -> Owner:
    """Under whose name a vCPU's numbers go, by vCPU or by domain."""
    if vcpu.who == NOBODY:
        return Owner(cpu=None if vcpu.cpu == codes.NOWHERE else CpuId(vcpu.cpu))
    domain, number = split(vcpu.who)
    return Owner(domain) if by == "domain" else Owner(domain, number)


def owner_at(analysis: Analysis, index: int, by: By) -> Owner:
    """The owner that a table's key names."""
    if by == "cpu":
        return Owner(cpu=CpuId(index))
    return owner_of(analysis.engine.states.vcpus[index], by)


def wanted(owner: Owner, domain: DomId | None) -> bool:
    """Whether a row is to be shown when only one domain is asked for."""
    return domain is None or owner.domain == domain


def known_vcpus(analysis: Analysis) -> list[Vcpu]:
    """All that have a name, the idle domain's among them."""
    return [vcpu for vcpu in analysis.engine.states.vcpus if vcpu.who != NOBODY]


def guests(analysis: Analysis, domain: DomId | None) -> list[Vcpu]:
    """The vCPUs that are no idle ones; of one domain, if it is given."""
    return [
        vcpu for vcpu in known_vcpus(analysis)
        if vcpu.who >> 16 != IDLE_DOMAIN and domain in (None, vcpu.who >> 16)
    ]


def unseen_share(vcpus: Iterable[Vcpu]) -> float | None:
    """Which part of these vCPUs' time was lost or unknown; None if there is no time."""
    times = [memoryview(vcpu.times).tolist() for vcpu in vcpus]
    total = sum(map(sum, times))
    unseen = sum(row[codes.LOST] + row[codes.UNKNOWN] for row in times)
    return unseen / total if total else None


def spread_of(
    analysis: Analysis, number: int, total: int, most: int, histogram: int
) -> Spread:
    """Out of a row's counters."""
    buckets = analysis.engine.pairs.histograms.buckets(histogram) if histogram else {}
    return Spread(number, total, most, Counter(buckets))
