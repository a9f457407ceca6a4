# C types for vcpus.py; a name that has none here is a Python object.

cimport cython

from tracelib.analysis cimport codes
from tracelib.ring cimport shared

ctypedef unsigned int uint32
ctypedef unsigned long long uint64
ctypedef const unsigned int *const_words

cdef uint64 _NEVER

@cython.final
cdef class Vcpu:
    cdef readonly uint64 who
    cdef readonly Py_ssize_t index
    cdef public int state, before, cpu
    cdef public uint64 since, moves, contradictions
    cdef public bint clean, newborn
    cdef readonly uint64[::1] times
    cdef public Py_ssize_t exit_row
    cdef public uint64 exit_at, exit_address, exit_runnable, exit_blocked, lone_entries
    cdef uint64[::1] pending
    cdef public Py_ssize_t pending_count
    cdef public bint doubt
    cdef public int doubt_from, doubt_to, doubt_cpu
    cdef public uint64 doubt_cycles, doubt_at

    @cython.locals(state=int)
    cpdef reset_counts(self)

@cython.final
cdef class Cpu:
    cdef readonly int number
    cdef public Vcpu current, nobody, gone
    cdef public bint unknown, dated
    cdef public uint64 since, lost_since, key, next_key, tsc, steps_back, wraps
    cdef public Py_ssize_t time_row
    cdef const_words data
    cdef const uint32[::1] held
    cdef uint32[::1] recent
    cdef Py_ssize_t bin
    cdef uint64 bin_end
    cdef public Py_ssize_t at, end
