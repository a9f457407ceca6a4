"""tracelib: formats, decoding and analysis of hypervisor trace records.

No trio, no structlog, no printing. Imports point one way; tests/unit/test_imports.py
holds the order.
"""
