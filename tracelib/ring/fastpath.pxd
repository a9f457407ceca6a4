# C types for fastpath.py; a name that has none here is a Python object. Words are uint32,
# sums and time stamps uint64, positions Py_ssize_t. What is not `cpdef` becomes a C function
# that Python cannot see.

cimport cython

from tracelib cimport records
from tracelib.ring cimport runstate_words, shared

ctypedef unsigned int uint32
ctypedef unsigned long long uint64
ctypedef const unsigned int *const_words
ctypedef unsigned int *mutable_words

cdef class Tally:
    cdef Py_ssize_t stop
    cdef bint broken
    cdef uint64 records, wraps, lost_marks, malformed_lost
    cdef uint64 lost, lost_first_tsc, lost_last_tsc, first_tsc, last_tsc

cpdef drain(uint32[::1] ring, Py_ssize_t size, uint32[::1] into, Py_ssize_t at,
            Py_ssize_t room, uint32 cpu, runstates)

cpdef publish(uint32[::1] ring, uint32 cons)

@cython.locals(source=mutable_words, target=mutable_words, table=mutable_words, cons=uint32,
               prod=uint32, taken=Py_ssize_t, payload=Py_ssize_t, tally=Tally)
cpdef take(uint32[::1] ring, Py_ssize_t size, uint32[::1] into, Py_ssize_t at,
           Py_ssize_t room, uint32 cpu, runstates)

@cython.locals(tally=Tally)
cpdef scan(const uint32[::1] data, Py_ssize_t start, Py_ssize_t end, uint32 cpu, runstates)

@cython.locals(source=const_words, offsets=mutable_words, room=Py_ssize_t, at=Py_ssize_t,
               count=Py_ssize_t, header=uint32, after=Py_ssize_t)
cpdef record_offsets(const uint32[::1] data, Py_ssize_t start, Py_ssize_t end, uint32[::1] out)

cpdef vcpu_entry(uint32[::1] table, uint32 vcpu)

@cython.locals(data=Py_ssize_t, before_end=Py_ssize_t)
cdef void _copy_span(mutable_words target, Py_ssize_t at, const_words source,
                     Py_ssize_t ring_words, Py_ssize_t start, Py_ssize_t count) noexcept

@cython.locals(extra=uint32)
cdef Py_ssize_t _record_words(uint32 header) noexcept

@cython.locals(high=uint64)
cdef uint64 _tsc_at(const_words data, Py_ssize_t at) noexcept

@cython.locals(tally=Tally, tracked=bint, count=Py_ssize_t, first=Py_ssize_t, last=Py_ssize_t,
               header=uint32, event=uint32, after=Py_ssize_t)
cdef Tally _walk(const_words data, Py_ssize_t at, Py_ssize_t end, uint32 cpu, mutable_words table)

@cython.locals(header=uint32, extra=uint32, timed=bint, tsc=uint64, body=Py_ssize_t,
               current=uint32)
cdef void _note_lost(Tally tally, const_words data, Py_ssize_t at, uint32 cpu,
                     mutable_words table) noexcept

@cython.locals(header=uint32, event=uint32, extra=uint32, vcpu=uint32, current=uint32,
               state=uint32, place=uint32)
cdef void _note_runstate(const_words data, Py_ssize_t at, uint64 tsc, uint32 cpu,
                         mutable_words table) noexcept

@cython.locals(header=uint32, domain=uint32, vcpu=uint32, slot=Py_ssize_t, end=Py_ssize_t)
cdef void _note_removal(const_words data, Py_ssize_t at, uint64 tsc, mutable_words table) noexcept

cdef void _start(mutable_words table, uint32 cpu, uint32 vcpu, uint64 tsc) noexcept

@cython.locals(vcpu=uint32, slot=Py_ssize_t)
cdef void _displace(mutable_words table, uint32 cpu) noexcept

@cython.locals(slot=Py_ssize_t)
cdef void _set_state(mutable_words table, uint32 vcpu, uint32 state, uint32 place,
                     uint64 tsc) noexcept

@cython.locals(slots=uint32, hashed=uint32, index=uint32, slot=Py_ssize_t)
cdef Py_ssize_t _entry(mutable_words table, uint32 vcpu) noexcept
