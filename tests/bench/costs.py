"""A row of the capture table, and two rows compared."""

from __future__ import annotations

from dataclasses import dataclass

from tracelib.units import format_size

GB = 1e9
HEADER = (
    "who          MB/s   stored  records M      lost  CPU s/GB   CPU%  RSS MB  cache MB/GB"
    "  mean write  wakes/s"
)


@dataclass(frozen=True)
class Cost:
    """What one program needed for so many seconds of records."""

    who: str
    rate: int
    """Bytes a second that the guests were to make."""
    seconds: float
    bytes: int
    records: int
    lost: int
    cpu: float
    """Seconds, user and system, of its own threads."""
    rss: int
    cached: float
    """Part of what it wrote that is in the page cache."""
    writes: int
    wakes: int

    @property
    def cpu_per_gb(self) -> float:
        return self.cpu / (self.bytes / GB)

    def row(self) -> str:
        return (
            f"{self.who:9}{self.rate / 1e6:8.0f} {self.bytes / self.seconds / 1e6:8.1f} "
            f"{self.records / 1e6:10.2f} {self.lost:9d} {self.cpu_per_gb:9.2f} "
            f"{100 * self.cpu / self.seconds:6.1f} {self.rss / 1e6:7.1f} "
            f"{1000 * self.cached:12.2f} {format_size(self.bytes // max(1, self.writes)):>11} "
            f"{self.wakes / self.seconds:8.0f}"
        )


def ratios(ours: Cost, theirs: Cost) -> str:
    """How much of what the other needs we need."""
    cached = "none" if not theirs.cached else f"{ours.cached / theirs.cached:.4f}"
    return (
        f"  {ours.who} / {theirs.who}: CPU a GB {ours.cpu_per_gb / theirs.cpu_per_gb:.2f}, "
        f"page cache {cached}, lost {ours.lost} / {theirs.lost}, "
        f"stored {ours.bytes / theirs.bytes:.3f}"
    )
