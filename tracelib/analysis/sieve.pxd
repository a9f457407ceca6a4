# C types for sieve.py; a name that has none here is a Python object.

cimport cython

from tracelib.analysis cimport codes
from tracelib.analysis.histograms cimport Histograms, bucket
from tracelib.analysis.tables cimport Table

ctypedef unsigned long long uint64

cdef Py_ssize_t _SIZE, _HISTOGRAM, _LEAST, _LEFT_OUT, _SUMS
cdef uint64 _NOTHING_PASSES

@cython.final
cdef class Sieve:
    cdef Table _table, _groups
    cdef Py_ssize_t _column, _kept
    cdef Histograms _histograms

    cpdef thin(self, uint64 high)
    cpdef drop(self, uint64 high)
    @cython.locals(table=Table, groups=Table, row=Py_ssize_t, place=Py_ssize_t, at=Py_ssize_t,
                   group=Py_ssize_t, least=uint64)
    cpdef list left(self)
    @cython.locals(place=Py_ssize_t)
    cpdef list rest(self, uint64 high)
    cdef Py_ssize_t _group(self, Py_ssize_t row) except -1
    @cython.locals(table=Table, row=Py_ssize_t)
    cdef _count(self)
    @cython.locals(table=Table, groups=Table, row=Py_ssize_t, place=Py_ssize_t, number=uint64)
    cdef _weigh(self)
    @cython.locals(column=Py_ssize_t, amount=uint64)
    cdef _leave_out(self, Py_ssize_t place, Py_ssize_t group)
