# What cycles.py is when it is compiled.

cimport cython

from tracelib.ring cimport counter

@cython.locals(now=cython.ulonglong)
cpdef read_tsc()
