# The C twin of counter.py, which describes it.

cdef extern from *:
    """
    static inline unsigned long long xtr_counter(void)
    {
    #if defined(__x86_64__)
        return __builtin_ia32_rdtsc();
    #else
        return 0;
    #endif
    }
    """
    unsigned long long read "xtr_counter"() noexcept nogil
