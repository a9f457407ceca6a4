# The C twins of memory.py, which describes them.

from libc.string cimport memcpy

cdef enum:
    SLACK = 32

ctypedef unsigned char *text
ctypedef const unsigned char *const_text
ctypedef long long *numbers64

cdef inline text characters(const unsigned char[::1] view) noexcept:
    return <text>&view[0]

cdef inline numbers64 numbers(const long long[::1] view) noexcept:
    return <numbers64>&view[0]

cdef inline Py_ssize_t copy(
    text target, Py_ssize_t out, const_text source, Py_ssize_t start, Py_ssize_t end
) noexcept nogil:
    # Most texts are short: two fixed moves are cheaper than a call that finds out how many.
    if end - start <= SLACK:
        memcpy(target + out, source + start, SLACK)
    else:
        memcpy(target + out, source + start, <size_t>(end - start))
    return out + end - start
