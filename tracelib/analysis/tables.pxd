# C types for tables.py; a name that has none here is a Python object.

cimport cython

from tracelib.analysis cimport codes

ctypedef unsigned int uint32
ctypedef unsigned long long uint64

cdef uint64 _FACTOR, _ALL_BITS
cdef int _FIRST_BITS

@cython.final
cdef class Table:
    cdef readonly Py_ssize_t columns, limit, rows, stride
    cdef readonly uint64[::1] cells
    cdef int _bits
    cdef Py_ssize_t _mask, _room
    cdef uint32[::1] _slots

    @cython.locals(at=Py_ssize_t, row=Py_ssize_t, place=Py_ssize_t)
    cpdef Py_ssize_t row(self, uint64 high, uint64 low) except -1
    cpdef void add(self, Py_ssize_t row, Py_ssize_t column, uint64 amount) noexcept
    @cython.locals(at=Py_ssize_t)
    cpdef void raise_to(self, Py_ssize_t row, Py_ssize_t column, uint64 amount) noexcept
    @cython.locals(row=Py_ssize_t)
    cpdef zero(self, Py_ssize_t column)
    @cython.locals(place=Py_ssize_t)
    cpdef tuple keys(self, Py_ssize_t row)

    @cython.locals(mixed=uint64)
    cdef Py_ssize_t _start(self, uint64 high, uint64 low) noexcept
    @cython.locals(row=Py_ssize_t)
    cdef Py_ssize_t _add(self, uint64 high, uint64 low, Py_ssize_t at) except -1
    @cython.locals(at=Py_ssize_t)
    cdef Py_ssize_t _free(self, uint64 high, uint64 low) noexcept
    @cython.locals(row=Py_ssize_t, place=Py_ssize_t)
    cdef _grow(self)
