# C types for engine.py; a name that has none here is a Python object. What is not `cpdef`
# becomes a C function that Python cannot see.

cimport cython

from tracelib.ring.producer cimport Host, RingProducer
from xtraced.sources.sim cimport headers

ctypedef unsigned int uint32
ctypedef unsigned long long uint64

cdef uint64 _LOW_WORD, _KERNEL, _HIGH_RIP, _LAPIC, _ALL_BITS, _RANDOM_FACTOR, _NEVER
cdef uint32 _NO_BUDGET, _SLICE_NS
cdef int _ROWS, _CALLS, _RUNNING, _RUNNABLE, _BLOCKED, _IDLE, _HVM, _NO_EXIT
cdef long long _DEEPEST_DEBT

cdef class Vcpu:
    cdef readonly uint32 domain, number, who
    cdef readonly int kind
    cdef readonly bint wide
    cdef public int state
    cdef readonly uint64 since, wake_at
    cdef readonly long long credit
    cdef readonly int exit_row
    cdef readonly uint64 exit_at, exit_left, exit_away
    cdef readonly uint64 running, runnable, blocked, changes
    cdef uint64[::1] _exits, _calls

    cpdef reset_counts(self)

cdef class Cpu:
    cdef readonly uint32 number
    cdef readonly RingProducer ring
    cdef readonly uint64 price, random
    cdef readonly long long skew, shift
    cdef readonly uint64 clock
    cdef readonly long long debt
    cdef uint64 slice_end, slice_began
    cdef public uint64 next_wake
    cdef readonly Vcpu idle, current
    cdef readonly list queue

cdef class Engine:
    cdef readonly Host host
    cdef readonly list cpus, vcpus
    cdef readonly uint64 now, offset
    cdef uint64 _round, _stamp
    cdef uint32 _random, _exit_minor, _guest
    cdef uint32[::1] _reasons, _costs, _handlers, _firsts, _spreads, _picks

    @cython.locals(cpu=Cpu)
    cpdef skip(self, uint64 cycles)
    @cython.locals(cpu=Cpu, raised=uint64)
    cpdef run(self, uint64 until)

    cdef int _step(self, Cpu cpu) except -1
    @cython.locals(state=uint32, ticks=uint64)
    cdef int _sleep(self, Cpu cpu) except -1
    @cython.locals(began=uint64, ended=uint64)
    cdef int _interrupt(self, Cpu cpu) except -1
    @cython.locals(vcpu=Vcpu, load=uint32)
    cdef int _wake(self, Cpu cpu) except -1
    @cython.locals(before=Vcpu, chosen=Vcpu, ran=uint64, idle=uint32)
    cdef int _reschedule(self, Cpu cpu, int leaves_as) except -1
    @cython.locals(best=Vcpu, vcpu=Vcpu, longest=uint64)
    cdef Vcpu _choose(self, Cpu cpu, int leaves_as)
    @cython.locals(old=uint32, spent=uint32)
    cdef int _burn(self, Cpu cpu, Vcpu vcpu, uint64 ran) except -1
    @cython.locals(length=uint64)
    cdef int _new_slice(self, Cpu cpu) except -1
    @cython.locals(waited=uint64)
    cdef int _switch(self, Cpu cpu, Vcpu before, Vcpu chosen, int leaves_as, uint64 ran) except -1
    @cython.locals(old=int, now=uint64)
    cdef int _change(self, Cpu cpu, Vcpu vcpu, int state) except -1
    cdef int _block(self, Cpu cpu, Vcpu vcpu) except -1
    cdef int _migrate(self) except -1
    @cython.locals(place=Py_ssize_t, cpu=Cpu, other=Cpu, vcpu=Vcpu)
    cdef int _move_one(self) except -1

    @cython.locals(vcpu=Vcpu, drawn=uint64, woken=bint, row=uint32, rip=uint64, cost=uint64)
    cdef int _guest_exit(self, Cpu cpu) except -1
    @cython.locals(at=Py_ssize_t)
    cdef int _enter(self, Cpu cpu, Vcpu vcpu) except -1
    @cython.locals(first=uint32, tsc=uint64)
    cdef int _handle(self, Cpu cpu, uint32 row, uint64 drawn) except -1
    @cython.locals(gpa=uint64, kind=uint32)
    cdef int _page_fault(self, Cpu cpu, uint32 row, uint64 drawn) except -1

    @cython.locals(vcpu=Vcpu, choice=uint32, rip=uint64, pte=uint64)
    cdef int _pv_entry(self, Cpu cpu, uint64 drawn) except -1
    cdef int _hypercall(self, Cpu cpu, Vcpu vcpu, uint32 choice, uint64 drawn) except -1
    @cython.locals(vcpu=Vcpu)
    cdef int _call(self, Cpu cpu, uint32 call, uint32 args, uint32 first, uint32 second) except -1
    @cython.locals(index=int)
    cdef int _multicall(self, Cpu cpu, Vcpu vcpu, int calls) except -1
    @cython.locals(release=uint32)
    cdef int _grants(self, Cpu cpu, uint64 drawn) except -1
    @cython.locals(domain=uint32)
    cdef int _new_domain(self, Cpu cpu, uint64 drawn) except -1

    @cython.locals(owed="long long")
    cdef int _think(self, Cpu cpu) except -1
    @cython.locals(words=uint64)
    cdef int _put(self, Cpu cpu, uint32 header, uint32 a=*, uint32 b=*, uint32 c=*,
                  uint32 d=*, uint32 e=*, uint32 f=*) except -1

cdef uint64 _tsc(Cpu cpu) noexcept

cdef void _spend(Cpu cpu, long long cycles) noexcept

@cython.locals(state=uint64)
cdef uint64 _next(Cpu cpu) noexcept
