# C twins of the numbers in opcodes.py, which describes them.

cdef enum:
    STEP = 8

    END = 0
    STOP = 1
    BY_ARGUMENTS = 2
    LITERAL = 3
    DECIMAL = 4
    SIGNED = 5
    HEXADECIMAL = 6
    ALIGNED = 7
    SECONDS = 8
    MICROS = 9
    UNLESS = 10
    SPELLED = 11
    PAIR = 12
    WALL = 13
    NUMBER = 14

    WORD = 0
    TSC = 8
    ELAPSED = 9
    REALTIME = 10
    CPU = 11
    RUNNING = 12

    ENTRY = 4
    TABLE_WORDS = 131072
    HASH_SHIFT = 17

cdef extern from *:
    """
    #define XTR_LOW32        0xFFFFFFFFull
    #define XTR_ALL64        0xFFFFFFFFFFFFFFFFull
    #define XTR_LINE_FACTOR  0x9E3779B1ull
    """
    const unsigned long long LOW32 "XTR_LOW32"
    const unsigned long long ALL64 "XTR_ALL64"
    const unsigned long long HASH_FACTOR "XTR_LINE_FACTOR"
