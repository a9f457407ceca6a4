# The C twins of memory.py, which describes them.

from libc.string cimport memcpy

cdef extern from *:
    """
    static const char XTR_PAIRS[] =
        "0001020304050607080910111213141516171819"
        "2021222324252627282930313233343536373839"
        "4041424344454647484950515253545556575859"
        "6061626364656667686970717273747576777879"
        "8081828384858687888990919293949596979899";
    """
    const char *PAIRS "XTR_PAIRS"

cdef enum:
    SLACK = 48

ctypedef unsigned char *text
ctypedef const unsigned char *const_text
ctypedef long long *numbers64

cdef inline text characters(const unsigned char[::1] view) noexcept:
    return <text>&view[0]

cdef inline void pair(text target, Py_ssize_t at, unsigned long long value) noexcept:
    memcpy(target + at, PAIRS + 2 * value, 2)

cdef inline numbers64 numbers(const long long[::1] view) noexcept:
    return <numbers64>&view[0]

cdef inline Py_ssize_t copy(
    text target, Py_ssize_t out, const_text source, Py_ssize_t start, Py_ssize_t end
) noexcept nogil:
    # Most texts are short: three fixed moves are cheaper than a call that finds out how many.
    if end - start <= SLACK:
        memcpy(target + out, source + start, SLACK)
    else:
        memcpy(target + out, source + start, <size_t>(end - start))
    return out + end - start
