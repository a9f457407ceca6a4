"""Windows back out: what xenalyze and xentrace_format read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tracelib.chunks import Chunk
from tracelib.xentrace.format import make_window


def encode_chunks(chunks: Iterable[Chunk]) -> Iterator[bytes]:
    """One window a chunk, its payload as it is, in the chunks' order.

    The chunks of an intact xentrace file give that file again, byte for byte, as long as no
    window of it was longer than decoder.PIECE_BYTES.
    """
    for chunk in chunks:
        if len(chunk.payload):
            yield make_window(chunk.cpu, chunk.payload)
