# C types for histograms.py; a name that has none here is a Python object.

cimport cython

from tracelib.analysis cimport bits, codes

ctypedef unsigned int uint32
ctypedef unsigned long long uint64

cdef int _EXACT_BITS, _STEP_BITS
cdef Py_ssize_t _BUCKETS, _FIRST_ROOM
cdef uint32 _FULL

@cython.final
cdef class Histograms:
    cdef readonly Py_ssize_t limit, number
    cdef Py_ssize_t _room
    cdef uint32[::1] _counts

    cpdef Py_ssize_t new(self) except -1
    @cython.locals(at=Py_ssize_t)
    cpdef void note(self, Py_ssize_t number, uint64 value) noexcept
    @cython.locals(at=Py_ssize_t)
    cpdef zero(self)

@cython.locals(shift=int)
cpdef Py_ssize_t bucket(uint64 value) noexcept

@cython.locals(shift=int, low=uint64, half=uint64)
cpdef uint64 bucket_middle(uint64 bucket) noexcept
