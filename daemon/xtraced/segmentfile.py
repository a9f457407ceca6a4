"""One segment file while it is written: a descriptor, an offset, an encoder."""

from __future__ import annotations

import errno
import mmap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog

from tracelib.chunks import ClockAnchor
from tracelib.errors import StoreError
from tracelib.segment.block import PAGE
from tracelib.segment.encoder import Mark, SegmentEncoder
from tracelib.segment.metadata import Metadata
from tracelib.status import Latency
from tracelib.store import fsops, names
from tracelib.store.directory import SegmentEntry
from tracelib.units import Nanoseconds
from xtraced.clock import Clock
from xtraced.staging import StagingBuffer

SMALL_BLOCKS = 64 << 10
"""Room kept for the blocks that are not records: head, anchors, losses, seal."""

log = structlog.get_logger("store")


class WriteMeter:
    """Counts and times of writes; filled by the writer's thread, read by any."""

    KEPT = 1024

    def __init__(self) -> None:
        self.writes = 0
        self.bytes = 0
        self.sizes: dict[int, int] = {}
        self.busy_since: Nanoseconds | None = None
        self._latencies: list[int] = []

    def add(self, size: int, took: int) -> None:
        bucket = 1 << (size.bit_length() - 1)
        self.sizes[bucket] = self.sizes.get(bucket, 0) + 1
        if len(self._latencies) < self.KEPT:
            self._latencies.append(took)
        else:
            self._latencies[self.writes % self.KEPT] = took
        self.writes += 1
        self.bytes += size

    def latency(self) -> Latency | None:
        times = sorted(self._latencies.copy())
        if not times:
            return None
        return Latency(times[len(times) // 2], times[len(times) * 99 // 100], times[-1])


class SegmentFile:
    """Appends blocks; what a failed append left behind does not count as written."""

    def __init__(
        self, directory: Path, metadata: Metadata, *, group: int | None, direct: bool,
        meter: WriteMeter, clock: Clock,
    ) -> None:
        self.sequence = metadata.sequence
        self.created_at = metadata.created_at
        self.name = names.new_name(metadata.sequence, metadata.created_at)
        self.path = directory / self.name.text
        self.sealed_name = self.name.as_sealed()
        self.renamed = False
        self.sealed_path = directory / self.sealed_name.text
        self.encoder = SegmentEncoder(metadata)
        self.direct = direct
        self.direct_reason = "" if direct else "switched off by writer.direct"
        self.synced_bytes = 0
        self._group = group
        self._meter = meter
        self._clock = clock
        self._scratch = mmap.mmap(-1, SMALL_BLOCKS)
        self._fd = self._create()

    def _create(self) -> int:
        try:
            return fsops.create_exclusive(self.path, group=self._group, direct=self.direct)
        except StoreError as exc:
            if not self.direct or exc.errno != errno.EINVAL:
                raise
            self._fall_back(exc)
            return fsops.create_exclusive(self.path, group=self._group)

    def _fall_back(self, why: StoreError) -> None:
        """R08: some file systems refuse direct I/O at open, some only at the first write."""
        self.direct = False
        name = errno.errorcode.get(why.errno or 0, str(why.errno))
        self.direct_reason = f"refused by the file system ({name})"
        log.warning("direct_io_refused", path=str(self.path), errno=name)

    @property
    def size(self) -> int:
        return self.encoder.size

    def append_buffer(self, buffer: StagingBuffer) -> None:
        """Write a staging buffer; on StoreError nothing of it counts as written."""
        mark = self.encoder.mark()
        at = self.encoder.size
        try:
            for offset, header in buffer.blocks:
                self.encoder.finish(buffer.view[offset : offset + header.block_bytes], header)
            if buffer.used:
                self._write(buffer.view[: buffer.used], at)
        except StoreError:
            self._take_back(mark)
            raise

    def append_small(self, encode: Callable[[], bytes]) -> None:
        """Write blocks that `encode` makes; on StoreError nothing counts as written."""
        mark = self.encoder.mark()
        at = self.encoder.size
        try:
            data = memoryview(encode())
            scratch = memoryview(self._scratch)
            # Direct I/O wants aligned memory, which a bytes object is not.
            for start in range(0, len(data), len(scratch)):
                piece = data[start : start + len(scratch)]
                scratch[: len(piece)] = piece
                self._write(scratch[: len(piece)], at + start)
        except StoreError:
            self._take_back(mark)
            raise

    def _take_back(self, mark: Mark) -> None:
        """Forget blocks that were not written whole, and cut off what came of them: a later,
        shorter write would leave whole ones behind its end, for a crash to bring back."""
        self.encoder.rewind(mark)
        with suppress(StoreError):
            self.cut()

    def _write(self, view: memoryview, at: int) -> None:
        self._meter.busy_since = self._clock.realtime()
        begin = self._clock.monotonic()
        align = PAGE if self.direct else 1
        try:
            fsops.write_all(self._fd, view, at, path=self.path, align=align)
        except StoreError as exc:
            if not self.direct or exc.errno != errno.EINVAL:
                raise
            self._fall_back(exc)
            fsops.set_direct(self._fd, self.path, on=False)
            fsops.write_all(self._fd, view, at, path=self.path)
        finally:
            self._meter.busy_since = None
        self._meter.add(len(view), self._clock.monotonic() - begin)

    def sync(self) -> None:
        """Make what was written durable; without direct I/O, also free the page cache of it."""
        size = self.size
        if size == self.synced_bytes:
            return
        fsops.fdatasync(self._fd, path=self.path)
        if not self.direct:
            fsops.drop_cache(self._fd, path=self.path)
        self.synced_bytes = size

    def seal(self, reason: str, anchor: ClockAnchor | None) -> None:
        """Write the seal, make everything durable, give the file its final name."""
        ended_at = self._clock.realtime()
        self.append_small(lambda: self.encoder.seal(reason, anchor, ended_at))
        self.cut()
        fsops.fdatasync(self._fd, path=self.path)
        self.close()
        self.rename()

    def cut(self) -> None:
        """Take back what failed writes left behind the end: whole blocks may be among it,
        and they are counted as lost. Nothing, if it is closed already: then it was sealed."""
        if self._fd < 0:
            return
        fsops.truncate(self._fd, self.size, path=self.path)

    def entry(self) -> SegmentEntry:
        """As a directory lists it: under its final name, if it has that."""
        if self.renamed:
            return SegmentEntry(self.sealed_path, self.sealed_name, self.size)
        return SegmentEntry(self.path, self.name, self.size)

    def rename(self) -> None:
        """To the final name; durably, unless the disk refuses that. Under either name, a crash
        leaves a segment that the next start puts in order."""
        fsops.rename_noreplace(self.path, self.sealed_path)
        self.renamed = True
        try:
            fsops.sync_directory(self.path.parent)
        except StoreError as exc:
            log.warning("name_not_durable", segment=str(self.sealed_path), error=str(exc))

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            fsops.close(fd, path=self.path)
