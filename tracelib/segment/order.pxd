# C types for order.py, in the manner of ring/fastpath.pxd.

cimport cython

from tracelib cimport records
from tracelib.ring cimport shared

ctypedef unsigned int uint32
ctypedef unsigned long long uint64
ctypedef const unsigned int *const_words

@cython.locals(words=const_words, at=Py_ssize_t, first=Py_ssize_t, steps=Py_ssize_t,
               header=uint32, extra=uint32, high=uint64, now=uint64, cycles=uint64)
cpdef steps_back(const uint32[::1] data, Py_ssize_t start, Py_ssize_t end, uint64 tsc)
