# C types for producer.py; a name that has none here is a Python object. What is not
# `cpdef` becomes a C function that Python cannot see.

cimport cython

from tracelib cimport records
from tracelib.ring cimport shared

ctypedef unsigned int uint32
ctypedef unsigned long long uint64
ctypedef unsigned int *mutable_words

cdef Py_ssize_t _CONS, _PROD, _DATA
cdef uint32 _SLOTS, _PROBES, _EXTRA_BYTES, _LOST_BYTES
cdef uint64 _LOW_WORD

cdef class Host:
    cdef public bint enabled
    cdef public uint32 event_mask
    cdef public uint64 raised

cdef class RingProducer:
    cdef readonly Host host
    cdef public bint traced
    cdef readonly long long size
    cdef readonly uint64 lost, lost_first_tsc
    cdef public uint32 current
    cdef readonly uint64 produced, produced_bytes, dropped, dropped_bytes
    cdef readonly uint64 reported, forgotten, lost_marks, wraps, notified
    cdef uint32[::1] _words
    cdef mutable_words _base
    cdef long long _half, _prod, _at
    cdef bint _below
    cdef uint32[::1] _events
    cdef uint64[::1] _produced_of, _dropped_of

    cpdef reset_counts(self)
    cpdef attach(self, uint32[::1] words)
    cpdef forget_lost(self)

    @cython.locals(record=uint32, slot=uint32)
    cpdef bint put(self, uint32 header, uint64 tsc, uint32 a, uint32 b, uint32 c, uint32 d,
                   uint32 e, uint32 f, uint32 g) noexcept

    @cython.locals(at=Py_ssize_t, header=uint32, record=uint32, count=Py_ssize_t,
                   place=Py_ssize_t, word=Py_ssize_t)
    cpdef Py_ssize_t replay(self, const uint32[::1] words, Py_ssize_t start, Py_ssize_t end)

    @cython.locals(both=uint32)
    cdef bint _wanted(self, uint32 header) noexcept

    @cython.locals(event=uint32, slot=uint32, tries=uint32)
    cdef uint32 _count(self, uint32 header, uint32 record) noexcept

    @cython.locals(prod="long long", cons="long long")
    cdef long long _waiting(self) noexcept

    @cython.locals(waiting="long long", to_wrap="long long", needed="long long", fits=bint)
    cdef bint _make_room(self, uint32 record, uint64 tsc) noexcept

    cdef long long _bytes_to_wrap(self) noexcept

    cdef void _write_before(self, uint32 record, uint64 tsc) noexcept

    @cython.locals(space="long long", extra="long long", header=uint32, place=Py_ssize_t)
    cdef void _write_wrap(self, uint64 tsc) noexcept

    @cython.locals(place=Py_ssize_t, extra=uint32, words=mutable_words)
    cdef void _write(self, uint32 header, uint64 tsc, uint32 a, uint32 b, uint32 c, uint32 d,
                     uint32 e, uint32 f, uint32 g) noexcept

    cdef void _publish(self, uint32 record) noexcept

    cdef void _finish(self, uint32 record) noexcept
