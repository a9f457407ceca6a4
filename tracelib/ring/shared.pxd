# The C twins of shared.py, which describes them. A .pxd can hold them with their bodies;
# they are compiled into whichever module cimports them.

from libc.string cimport memcpy

cdef extern from *:
    """
    static inline unsigned int xtr_load(const unsigned int *word)
    {
        return __atomic_load_n(word, __ATOMIC_RELAXED);
    }
    static inline void xtr_store(unsigned int *word, unsigned int value)
    {
        __atomic_store_n(word, value, __ATOMIC_RELAXED);
    }
    static inline void xtr_read_barrier(void)
    {
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    }
    static inline void xtr_write_barrier(void)
    {
        __atomic_thread_fence(__ATOMIC_RELEASE);
    }
    static inline void xtr_full_barrier(void)
    {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    """
    unsigned int xtr_load(const unsigned int *word) noexcept nogil
    void xtr_store(unsigned int *word, unsigned int value) noexcept nogil
    void read_barrier "xtr_read_barrier"() noexcept nogil
    void write_barrier "xtr_write_barrier"() noexcept nogil
    void full_barrier "xtr_full_barrier"() noexcept nogil

cdef inline unsigned int *address(const unsigned int[::1] words) noexcept:
    return <unsigned int *>&words[0]

cdef inline unsigned int load(const unsigned int *words, Py_ssize_t index) noexcept nogil:
    return xtr_load(words + index)

cdef inline void store(unsigned int *words, Py_ssize_t index, unsigned int value) noexcept nogil:
    xtr_store(words + index, value)

cdef inline void copy(
    unsigned int *into, Py_ssize_t at, const unsigned int *source, Py_ssize_t start, Py_ssize_t count
) noexcept nogil:
    memcpy(into + at, source + start, <size_t>count * sizeof(unsigned int))
