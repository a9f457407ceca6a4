# C twins of the numbers in codes.py, which describes them; a test compares the two.

cdef enum:
    RUNNING = 0
    RUNNABLE = 1
    BLOCKED = 2
    OFFLINE = 3
    LOST = 4
    UNKNOWN = 5
    STATES = 6

    NOWHERE = -1
    NO_EXIT = -1
    NO_CPU = -1
    PENDING = 8

    KEYS = 2
    OTHERS = 0

    SEEN = 0
    PAIRED = 1
    CYCLES = 2
    LONGEST = 3
    OFF_RUNNABLE = 4
    OFF_BLOCKED = 5
    CUT_LOSS = 6
    CUT_END = 7
    CUT_UNSEEN = 8
    EXIT_HISTOGRAM = 9
    EXIT_COLUMNS = 10

    COUNT = 0
    COSTED = 1
    COST = 2
    OFF_CPU = 3
    TALLY_COLUMNS = 4

    NUMBER = 0
    SUM = 1
    MOST = 2
    SPELL_HISTOGRAM = 3
    SPELL_COLUMNS = 4

    RAN = 0
    WOKEN = 1
    PREEMPTED = 2
    SLEPT = 3
    SPELL_KINDS = 4

    NESTED = 1
    SVM_EVENT = 2
    KIND_BITS = 2

    LONGEST_BITS = 48

    NOTHING = 0
    EXIT = 1
    ENTRY = 2
    TALLY = 3
    HANDLER = 4
    LASTED = 5
    ORDERED = 6
    CHANGE = 6
    CONTINUE = 7
    GAP = 8
    REMOVE = 9
    CREATE = 10
    OWNED = 11
    OWNED_EXIT = 11
    OWNED_ENTRY = 12
    OWNED_HANDLER = 13

    WANT_EXITS = 1
    WANT_SPELLS = 2
    WANT_RECORDS = 4
    EXITED = 0
    HANDLED = 1
    SPELL = 2
    RECORD = 3
    NOTE_COLUMNS = 9

    RECENT_BITS = 7

    FORM_ACTION = 1
    FORM_CLASS = 2
    FORM_KIND = 3
    FORM_WORD = 4
    FORM_SHIFT = 5
    FORM_MASK = 6
    FORM_OWNER = 7
    FORM_VALUE = 8
    FORM_ROW = 9
    FORM_COLUMNS = 10

cdef extern from *:
    """
    #define XTR_CPU_LOST      (1ULL << 32)
    #define XTR_CPU_UNKNOWN   (2ULL << 32)
    #define XTR_CPU_SWITCH    (3ULL << 32)
    """
    const unsigned long long CPU_LOST "XTR_CPU_LOST"
    const unsigned long long CPU_UNKNOWN "XTR_CPU_UNKNOWN"
    const unsigned long long CPU_SWITCH "XTR_CPU_SWITCH"
