# C types for walk.py: words are uint32, time stamps uint64, positions Py_ssize_t.

cimport cython

ctypedef unsigned int uint32
ctypedef unsigned long long uint64

@cython.locals(at=Py_ssize_t, following=Py_ssize_t, header=uint32)
cpdef Py_ssize_t walk(const uint32[::1] words, Py_ssize_t start, Py_ssize_t end) noexcept

@cython.locals(room=Py_ssize_t, count=Py_ssize_t, at=Py_ssize_t, first=Py_ssize_t, stop=Py_ssize_t)
cpdef Py_ssize_t windows(const uint32[::1] words, Py_ssize_t start, Py_ssize_t end, uint64[::1] found) except -1

@cython.locals(at=Py_ssize_t, following=Py_ssize_t, header=uint32, event_class=uint32,
               event=uint32, timed=uint32, tsc=uint64, high=uint64, limit=uint64)
cpdef walk_strictly(const uint32[::1] words, Py_ssize_t start, Py_ssize_t end, uint64 last_tsc)

@cython.locals(at=Py_ssize_t, stop=Py_ssize_t, event_class=uint32, tsc=uint64, high=uint64, limit=uint64)
cpdef resume(const uint32[::1] words, Py_ssize_t start, Py_ssize_t end, uint64 last_tsc)

@cython.locals(at=Py_ssize_t, count=Py_ssize_t, header=uint32)
cpdef timed_records(const uint32[::1] words, Py_ssize_t start, Py_ssize_t end)

@cython.locals(at=Py_ssize_t, header=uint32, tsc=uint64, high=uint64)
cpdef last_time(const uint32[::1] words, Py_ssize_t start, Py_ssize_t end)
