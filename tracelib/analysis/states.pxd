# C types for states.py; a name that has none here is a Python object.

cimport cython

from tracelib.analysis cimport codes
from tracelib.analysis.pairs cimport Pairs
from tracelib.analysis.tables cimport Table
from tracelib.analysis.vcpus cimport Cpu, Vcpu

ctypedef unsigned int uint32
ctypedef unsigned long long uint64

cdef uint32 _NOBODY
cdef uint64 _NEVER

@cython.final
cdef class States:
    cdef readonly Pairs pairs
    cdef readonly bint by_cpu
    cdef readonly uint64 start
    cdef readonly bint started
    cdef readonly list vcpus
    cdef readonly Table spells, occupied, steps
    cdef Table _index
    cdef dict _made
    cdef Py_ssize_t _open_gaps
    cdef uint64 _last_gap
    cdef bint _unscheduled

    @cython.locals(nobody=Vcpu, cpu=Cpu)
    cpdef Cpu add_cpu(self, int number)
    cpdef Vcpu vcpu(self, uint64 who)
    cpdef uint64 owner(self, Cpu cpu, Vcpu vcpu) except? 0
    cpdef seen_on(self, Cpu cpu, Vcpu vcpu)

    @cython.locals(vcpu=Vcpu)
    cpdef change(self, Cpu cpu, uint32 who, int old, int new, uint64 now)
    @cython.locals(vcpu=Vcpu)
    cpdef runs_on(self, Cpu cpu, uint32 who, uint64 now)
    cpdef gap(self, Cpu cpu, uint64 first, uint64 last, uint32 who)
    cpdef gap_begins(self, Cpu cpu, uint64 first)
    @cython.locals(gone=Vcpu, vcpu=Vcpu, first=uint64)
    cdef _gap_ends(self, Cpu cpu, uint64 last, uint32 who)
    cpdef create(self, uint32 domain, uint64 now)
    @cython.locals(vcpu=Vcpu)
    cpdef remove(self, uint32 domain, uint64 now)

    @cython.locals(vcpu=Vcpu)
    cpdef place(self, Cpu cpu, uint32 who, int state, uint64 now)
    @cython.locals(vcpu=Vcpu)
    cpdef open(self, uint64 now)
    @cython.locals(column=Py_ssize_t)
    cpdef reset(self)
    @cython.locals(vcpu=Vcpu)
    cpdef finish(self, uint64 now)
    @cython.locals(lost=bint)
    cpdef finish_cpu(self, Cpu cpu, uint64 now)

    @cython.locals(gone=Vcpu)
    cdef _lose_current(self, Cpu cpu, uint64 now)
    @cython.locals(vcpu=Vcpu)
    cdef _cut_all(self, Cpu cpu)
    @cython.locals(index=Py_ssize_t, vcpu=Vcpu)
    cdef Vcpu _named(self, uint64 kind, uint64 name)
    @cython.locals(cycles=uint64)
    cdef _spend(self, Vcpu vcpu, uint64 now)
    @cython.locals(what=uint64, at=Py_ssize_t)
    cdef _note_change(self, Vcpu vcpu, Cpu cpu, int new, uint64 now)
    @cython.locals(kind=int, row=Py_ssize_t)
    cdef _note_spell(self, Vcpu vcpu, uint64 cycles)
    cdef _set(self, Vcpu vcpu, int state, uint64 now)
    cdef _lose(self, Vcpu vcpu, uint64 first, uint64 last)
    cdef _occupy(self, Cpu cpu, Vcpu vcpu, uint64 code, uint64 now)
    cdef _leave(self, Cpu cpu, Vcpu vcpu, uint64 now)
    cdef _arrive(self, Cpu cpu, Vcpu vcpu, uint64 now)
    cdef _moves_to(self, Cpu cpu, Vcpu vcpu)
    @cython.locals(gone=Vcpu)
    cdef _displace(self, Cpu cpu, uint64 now)
    @cython.locals(cycles=uint64)
    cdef _contradict(self, Vcpu vcpu, Cpu cpu, int old, uint64 now)
    cdef bint _explains(self, Vcpu vcpu, Cpu cpu, int old, int new)
    @cython.locals(row=Py_ssize_t)
    cdef _settle(self, Vcpu vcpu, Cpu cpu, int old, uint64 now)
