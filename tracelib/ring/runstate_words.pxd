# C twins of the numbers in runstate_words.py, which describes them.

cdef extern from *:
    """
    #define XTR_NOBODY       0xFFFFFFFFu
    #define XTR_HASH_FACTOR  0x9E3779B1u
    #define XTR_WORD_MASK    0xFFFFFFFFu
    """
    const unsigned int NOBODY "XTR_NOBODY"
    const unsigned int HASH_FACTOR "XTR_HASH_FACTOR"
    const unsigned int WORD_MASK "XTR_WORD_MASK"

cdef enum:
    CPUS = 0
    CAPACITY = 1
    USED = 2
    OVERFLOW = 3
    SLOTS = 4
    HASH_SHIFT = 5
    FIRST_SLOT = 6
    FIRST_CPU = 8

    STATE = 1
    PLACE = 2
    SINCE_LOW = 3
    SINCE_HIGH = 4
    SLOT_WORDS = 5

    RUNNING = 0
    RUNNABLE = 1
    BLOCKED = 2
    OFFLINE = 3
    UNKNOWN = 0xFF

    SCHED_MINIMUM = 0x00021000
    GROUP_MASK = 0x0FFFF000
    RUNSTATE_CHANGE = 0x00021001
    RUNSTATE_FORM = 0x0FFFF00F
    CONTINUE_RUNNING = 0x00021002
    DOMAIN_REMOVED = 0x00028002
