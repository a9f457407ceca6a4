# The C twin of bits.py.

cdef extern from *:
    """
    static inline int xtr_bit_length(unsigned long long value)
    {
        return value ? 64 - __builtin_clzll(value) : 0;
    }
    """
    int length "xtr_bit_length"(unsigned long long value) noexcept nogil
