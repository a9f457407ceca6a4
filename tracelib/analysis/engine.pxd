# C types for engine.py; a name that has none here is a Python object.

cimport cython

from tracelib cimport records
from tracelib.analysis cimport cells, codes
from tracelib.analysis.notes cimport Notes
from tracelib.analysis.pairs cimport Pairs
from tracelib.analysis.states cimport States
from tracelib.analysis.tables cimport Table
from tracelib.analysis.vcpus cimport Cpu, Vcpu
from tracelib.ring cimport shared

ctypedef unsigned int uint32
ctypedef unsigned long long uint64
ctypedef const unsigned int *const_words
ctypedef unsigned long long *uint64_cells

cdef uint64 _NEVER, _PROCESSES
cdef uint32 _NOBODY
cdef Py_ssize_t _CLASSES, _MOST_BINS, _BIN_WORDS
cdef uint32 _HASH_FACTOR, _WORD_MASK, _UNTIMED

@cython.final
cdef class Engine:
    cdef readonly Pairs pairs
    cdef readonly States states
    cdef readonly dict cpus
    cdef readonly Table volume
    cdef readonly uint64 bin_cycles
    cdef readonly uint64[::1] bins
    cdef public list gaps
    cdef object _learn
    cdef list _heap
    cdef Py_ssize_t _known
    cdef uint64 _waits
    cdef bint _by_cpu

    @cython.locals(cpu=Cpu)
    cpdef list gaps_ahead(self)
    @cython.locals(cpu=Cpu)
    cpdef load(self, int number, const uint32[::1] words)
    @cython.locals(cpu=Cpu)
    cpdef int run(self, uint64 until) except? -1
    @cython.locals(cpu=Cpu, at=Py_ssize_t)
    cpdef begin(self, uint64 now)
    @cython.locals(cpu=Cpu)
    cpdef finish(self, uint64 now)

    @cython.locals(event=uint32)
    cdef uint64 _peek(self, Cpu cpu) noexcept
    cdef uint64 _stamp(self, Cpu cpu) noexcept
    @cython.locals(whole=bint)
    cdef uint64 _lost_since(self, Cpu cpu) noexcept
    @cython.locals(first=uint64)
    cdef uint64 _lost_turn(self, Cpu cpu, uint64 limit) except? 0
    cdef bint _before(self, Cpu left, Cpu right) noexcept
    @cython.locals(heap=list, cpu=Cpu, above=Cpu)
    cdef _rise(self, Py_ssize_t at)
    @cython.locals(heap=list, size=Py_ssize_t, at=Py_ssize_t, child=Py_ssize_t, cpu=Cpu, below=Cpu)
    cdef _sink(self)

    @cython.locals(data=const_words, at=Py_ssize_t, end=Py_ssize_t, body=Py_ssize_t,
                   after=Py_ssize_t, limit=uint64, header=uint32, event=uint32, before=uint64,
                   key=uint64, tsc=uint64, slot=Py_ssize_t, place=Py_ssize_t, action=uint64,
                   entry=Py_ssize_t, forms=uint64_cells)
    cdef bint _advance(self, Cpu cpu, uint64 until) except? 0
    @cython.locals(limit=uint64, turn=uint64, child=Py_ssize_t, other=Cpu)
    cdef uint64 _turn_ends(self, Cpu cpu, uint64 until) except? 0
    @cython.locals(row=Py_ssize_t)
    cdef Py_ssize_t _row(self, Cpu cpu, uint32 header) except -1
    cdef _plan(self, Py_ssize_t row, uint32 header)
    @cython.locals(action=uint64)
    cdef _do(self, Cpu cpu, const_words data, Py_ssize_t body, Py_ssize_t extra,
             Py_ssize_t place, uint32 header, uint64 before)
    @cython.locals(action=uint64, vcpu=Vcpu, slot=Vcpu, owner=uint64, kind=uint64, row=Py_ssize_t,
                   pairs=Pairs)
    cdef _attribute(self, Cpu cpu, const_words data, Py_ssize_t body, Py_ssize_t extra,
                    Py_ssize_t place, uint32 header)
    @cython.locals(forms=uint64_cells, row=uint64)
    cdef Py_ssize_t _tally(self, Py_ssize_t place, uint64 owner, uint64 value) except -1
    @cython.locals(action=uint64, process=uint64, vcpu=Vcpu, owner=uint64, kind=uint64)
    cdef _owned(self, Cpu cpu, const_words data, Py_ssize_t body, Py_ssize_t extra,
                Py_ssize_t place)
    @cython.locals(forms=uint64_cells, mask=uint64, word=Py_ssize_t, value=uint64)
    cdef uint64 _value(self, const_words data, Py_ssize_t body, Py_ssize_t place) noexcept
    @cython.locals(notes=Notes, at=Py_ssize_t, extra=uint32, pair=Py_ssize_t, value=uint64)
    cdef _note(self, Cpu cpu, Vcpu vcpu, const_words data, Py_ssize_t body, uint32 header)
    @cython.locals(count=uint32, first=uint64, who=uint32, began=uint64)
    cdef _gap(self, Cpu cpu, const_words data, Py_ssize_t body, Py_ssize_t extra, uint64 before)
    @cython.locals(cpu=Cpu)
    cdef _open(self, uint64 now)
    cdef _next_bin(self, Cpu cpu, uint64 key)
    cdef uint64 _bin_after(self, uint64 moment)
    @cython.locals(number=Py_ssize_t, column=Py_ssize_t, amount=uint64, cpu=Cpu, bin=Py_ssize_t)
    cdef _halve(self)

cdef uint64 _address(const_words data, Py_ssize_t body, Py_ssize_t extra) noexcept
@cython.locals(value=uint64)
cdef uint64 _wide(const_words data, Py_ssize_t at) noexcept
