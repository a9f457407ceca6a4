"""The segment format: FORMAT.md says what it is and why; here it is encoded and decoded.

Pure: bytes in, values out. Files are tracelib.store's business.
"""
