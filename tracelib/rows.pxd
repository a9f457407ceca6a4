# C types for rows.py, in the manner of ring/fastpath.pxd.

cimport cython

from tracelib cimport records

ctypedef unsigned char uint8
ctypedef unsigned int uint32
ctypedef unsigned long long uint64
ctypedef long long int64

@cython.locals(last=uint64, key=uint64, now=uint64, high=uint64, dated=uint32, running=uint32,
               shown=uint32, header=uint32, event=uint32, extra=uint32, timed=uint32,
               rows=Py_ssize_t, at=Py_ssize_t, words=Py_ssize_t)
cpdef Py_ssize_t fill(
    const uint32[::1] data, Py_ssize_t count, uint32 flags, uint64[::1] state,
    uint32[::1] events, uint8[::1] extras, uint8[::1] all_flags, int64[::1] ats,
    uint64[::1] tscs, uint64[::1] keys, uint32[::1] runnings,
)
