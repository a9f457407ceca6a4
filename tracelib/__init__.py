"""tracelib: formats, decoding and analysis of hypervisor trace records.

No trio, no structlog, no printing. Imports point one way; tests/unit/test_imports.py
holds the order.

`tracelib.open(path)` gives a reader for any trace (tracelib.reading).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracelib.reading import open as open


def __getattr__(name: str) -> Any:
    # On first use only: `import tracelib` stays cheap for those who need one small module.
    if name == "open":
        from tracelib.reading import open as open_trace

        return open_trace
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
