"""xentrace's file format: windows of one CPU's records, each behind a cpu_change record.

    format    the cpu_change record, and the file that ended in 2007
    walk      where a row of records ends (compiled)
    buffer    the bytes at hand, and ways to look into them
    decoder   bytes in, windows and damage out; no I/O
    encoder   windows back out
    reader    a file as a tracelib.chunks.TraceReader
    spool     pipes and standard input
    verify    what is wrong in a file (numpy)
"""
