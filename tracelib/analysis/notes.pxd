# C types for notes.py; a name that has none here is a Python object.

cimport cython

from tracelib.analysis cimport codes

ctypedef unsigned long long uint64

cdef Py_ssize_t _FIRST_ROWS

@cython.final
cdef class Notes:
    cdef readonly int wanted
    cdef readonly Py_ssize_t rows
    cdef readonly uint64[::1] cells
    cdef Py_ssize_t _room

    @cython.locals(at=Py_ssize_t)
    cpdef Py_ssize_t add(self, int tag, uint64 vcpu, uint64 cpu, uint64 what, uint64 since) except -1
    cpdef bytes take(self)
    cdef _grow(self)
