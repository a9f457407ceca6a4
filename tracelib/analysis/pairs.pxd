# C types for pairs.py; a name that has none here is a Python object.

cimport cython

from tracelib.analysis cimport cells, codes
from tracelib.analysis.histograms cimport Histograms
from tracelib.analysis.notes cimport Notes
from tracelib.analysis.tables cimport Table
from tracelib.analysis.vcpus cimport Vcpu

ctypedef unsigned long long uint64
ctypedef unsigned long long *uint64_cells

cdef Py_ssize_t _EXIT_STRIDE, _TALLY_STRIDE

@cython.final
cdef class Pairs:
    cdef readonly Table exits, tallies
    cdef readonly Histograms histograms
    cdef readonly Notes notes
    cdef public uint64 last_gap

    @cython.locals(row=Py_ssize_t)
    cpdef exit(self, Vcpu vcpu, uint64 owner, int kind, uint64 reason, uint64 now)
    @cython.locals(row=Py_ssize_t, off=uint64, whole=uint64, cycles=uint64, place=Py_ssize_t,
                   counters=uint64_cells, number=Py_ssize_t)
    cpdef entry(self, Vcpu vcpu, uint64 now)
    @cython.locals(place=Py_ssize_t, tag=int, row=Py_ssize_t, at=Py_ssize_t)
    cdef _note(self, Vcpu vcpu, uint64 now, uint64 cycles)
    @cython.locals(number=uint64)
    cpdef spread(self, Table table, Py_ssize_t row, Py_ssize_t column, uint64 cycles)
    cpdef cut(self, Vcpu vcpu, int why)
    @cython.locals(row=Py_ssize_t, kind=uint64, reason=uint64)
    cpdef hand_over(self, Vcpu nobody, Vcpu vcpu, uint64 owner)
    @cython.locals(row=Py_ssize_t)
    cpdef Py_ssize_t tally(self, uint64 owner, uint64 kind, uint64 value) except -1
    cpdef void count(self, Py_ssize_t row) noexcept
    @cython.locals(number=Py_ssize_t, known=Py_ssize_t)
    cpdef void belongs(self, Vcpu vcpu, Py_ssize_t row) noexcept
    cpdef lasted(self, Py_ssize_t row, uint64 cycles)
    cpdef handler(self, Vcpu vcpu, uint64 owner, uint64 kind, uint64 value)
