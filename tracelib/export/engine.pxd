# C types for engine.py; a name that has none here is a Python object.

cimport cython

from tracelib.export cimport memory, opcodes

ctypedef unsigned char uint8
ctypedef unsigned short uint16
ctypedef unsigned int uint32
ctypedef unsigned long long uint64
ctypedef long long int64

# Final: calls of its methods need no table, and can be made part of the caller.
@cython.final
cdef class Engine:
    cdef object _plan, _spellers, _pool_bytes
    cdef readonly bint stale
    cdef Py_ssize_t _used, _texts_end, _steps_end
    cdef uint64[::1] _table
    cdef uint8[::1] _texts
    cdef const uint8[::1] _pool
    cdef int64[::1] _steps, _prefixes
    cdef const uint32[::1] _event, _words, _running
    cdef const uint8[::1] _extra, _flags
    cdef const uint16[::1] _cpu
    cdef const int64[::1] _at, _elapsed, _realtime
    cdef const uint64[::1] _tsc

    @cython.locals(buffer=memory.text, rows=Py_ssize_t, room=Py_ssize_t, row=Py_ssize_t,
                   out=Py_ssize_t, program=Py_ssize_t)
    cpdef write(self, columns, Py_ssize_t start, target)

    cpdef write_prefix(self, Py_ssize_t row, target)

    @cython.locals(key=uint64, arguments=uint64, entry=Py_ssize_t, program=Py_ssize_t)
    cdef Py_ssize_t _program(self, Py_ssize_t row)

    @cython.locals(entry=Py_ssize_t)
    cdef Py_ssize_t _find(self, uint64 kind, uint64 value) noexcept

    @cython.locals(mixed=uint64)
    cdef Py_ssize_t _home(self, uint64 kind, uint64 value) noexcept

    cdef Py_ssize_t _learn_program(self, uint64 key)
    cdef _take_pool(self)
    cdef Py_ssize_t _learn_text(self, uint64 kind, uint64 value)

    @cython.locals(entry=Py_ssize_t)
    cdef Py_ssize_t _enter(self, uint64 kind, uint64 value, uint64 first, uint64 second)

    cdef Py_ssize_t _add(self, steps)

    @cython.locals(steps=memory.numbers64, op=int64, value=uint64, other=uint64,
                   special=uint64, negative=bint)
    cdef Py_ssize_t _run(self, Py_ssize_t at, Py_ssize_t row, memory.text target,
                         Py_ssize_t out)

    @cython.locals(source=int64, bits=int64, at=Py_ssize_t, value=uint64, high=uint64,
                   mask=uint64)
    cdef uint64 _value(self, Py_ssize_t place, Py_ssize_t row) noexcept

    @cython.locals(entry=Py_ssize_t)
    cdef Py_ssize_t _spell(self, uint64 kind, uint64 value, memory.text target,
                           Py_ssize_t out)

    @cython.locals(whole=int64)
    cdef Py_ssize_t _wall(self, uint64 kind, int64 realtime, memory.text target,
                          Py_ssize_t out)

@cython.locals(count=int64, power=uint64)
cdef Py_ssize_t _decimal(memory.text target, Py_ssize_t out, uint64 value, int64 width,
                         bint negative) noexcept

@cython.locals(at=Py_ssize_t, rest=uint64)
cdef Py_ssize_t _fixed(memory.text target, Py_ssize_t out, uint64 value,
                       Py_ssize_t count) noexcept

@cython.locals(count=int64, rest=uint64, at=Py_ssize_t, digit=uint64)
cdef Py_ssize_t _number(memory.text target, Py_ssize_t out, uint64 value, int64 width,
                        uint64 radix, int64 fill, bint negative) noexcept

@cython.locals(shift=int64, digit=uint64)
cdef Py_ssize_t _hexadecimal(memory.text target, Py_ssize_t out, uint64 value) noexcept

cdef Py_ssize_t _signed(memory.text target, Py_ssize_t out, uint64 value,
                        int64 bits) noexcept

@cython.locals(negative=bint, whole=uint64)
cdef Py_ssize_t _micros(memory.text target, Py_ssize_t out, uint64 value, int64 bits) noexcept

@cython.locals(negative=bint, value=uint64, whole=uint64)
cdef Py_ssize_t _seconds(memory.text target, Py_ssize_t out, int64 elapsed,
                         int64 width) noexcept
