# C types for records.py: words are uint32, positions Py_ssize_t.

cimport cython

ctypedef unsigned int uint32

cdef uint32 _FROM_TOP, _HIGH_FIRST, _MOST_WORDS, _MOST_PID, _MOST_VCPU, _ENTRYEXIT, _HANDLER
cdef Py_ssize_t _CUT

cpdef uint32 head(uint32 word, uint32 form) noexcept

@cython.locals(word=uint32, category=uint32, extra=uint32, timed=uint32, length=Py_ssize_t)
cpdef Py_ssize_t size(const uint32[::1] words, Py_ssize_t at, Py_ssize_t end, uint32 form) noexcept

cpdef Py_ssize_t find(const uint32[::1] words, Py_ssize_t at, Py_ssize_t end, uint32 form) noexcept

@cython.locals(start=Py_ssize_t)
cpdef Py_ssize_t last(const uint32[::1] words, Py_ssize_t at, Py_ssize_t end, uint32 form) noexcept

@cython.locals(length=Py_ssize_t, word=uint32, extra=uint32, category=uint32, owner=Py_ssize_t,
               low=Py_ssize_t, high=Py_ssize_t, following=Py_ssize_t, place=Py_ssize_t)
cpdef Py_ssize_t translate(
    const uint32[::1] words, Py_ssize_t at, Py_ssize_t end, uint32 form, uint32[::1] out
) noexcept

@cython.locals(at=Py_ssize_t, covered=Py_ssize_t, end=Py_ssize_t, length=Py_ssize_t)
cpdef Py_ssize_t coverage(const uint32[::1] words, uint32 form) noexcept
